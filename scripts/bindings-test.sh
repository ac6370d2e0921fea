#!/bin/sh
# Extracts the Rust and the Go program from docs/bindings.md, compiles them against the library, and
# checks that each reads a tensor of the demo model and rejects a missing file:
#     scripts/bindings-test.sh
# TENMAP_LIBRARY may name a libtenmap.so; without it, the library is built here. Uses no network.
# Reports a missing compiler; exits with 77 if both are missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
ran=
for tool in rustc go; do
    command -v $tool >/dev/null && ran=yes || echo "SKIPPED: $tool is not here"
done
[ -n "$ran" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
block() { awk -v mark="\`\`\`$1" '$0 == mark { on = 1; next } /^```$/ { on = 0 } on' docs/bindings.md; }

# tries PROGRAM: reads the first weight of the demo model, and checks the error messages.
tries() {
    "$1" "$work/demo.safetensors" model.embed_tokens.weight | tee "$work/said"
    grep -q '^4096 values, the first 0\.0485839' "$work/said"
    if "$1" "$work/none" x 2>"$work/said"; then exit 1; fi
    grep 'no such file' "$work/said"
    if "$1" "$work/demo.safetensors" none 2>"$work/said"; then exit 1; fi
    grep 'no tensor "none"' "$work/said"
}

. scripts/sources.sh
mkdir "$work/go" "$work/library"
if [ -n "${TENMAP_LIBRARY-}" ]; then
    given_library "$work/library"
else
    library_sources >/dev/null
    mkdir "$work/objects"
    (cd "$work/objects" && cc -O1 -I"$root/include" -c "$root"/src/*/*.c)
    ar rcs "$work/library/libtenmap.a" "$work/objects"/*.o
fi
cc -Iinclude examples/demo.c -o "$work/demo"
"$work/demo" "$work/demo.safetensors"
if command -v rustc >/dev/null; then
    block rust >"$work/bind.rs"
    rustc --edition 2021 -O -D warnings "$work/bind.rs" -L "$work/library" -l pthread -l m \
        -C link-arg="-Wl,-rpath,$work/library" -o "$work/bind_rust"
    tries "$work/bind_rust"
fi
if command -v go >/dev/null; then
    block go >"$work/go/main.go"
    printf 'module bind\n\ngo 1.20\n' >"$work/go/go.mod"
    (cd "$work/go" && GOFLAGS=-mod=mod GOTOOLCHAIN=local GOCACHE="$work/cache" CGO_CFLAGS="-I$root/include" \
        CGO_LDFLAGS="-L$work/library -Wl,-rpath,$work/library" go build -o "$work/bind_go" .)
    tries "$work/bind_go"
fi
