#!/bin/sh
# Tests the bindings as a release has them (scripts/bindings-tree.sh), the Conan recipe, and the
# samples of docs/bindings.md, which must read a tensor of the demo model and name what is missing:
#     scripts/bindings-test.sh [rust | go | conan | samples]...
# Without arguments all of these. rust: the declarations agree with the C headers; both crates are
# packaged, and what is in the packages passes rustfmt, clippy, its tests and its documentation. go:
# gofmt, vet, and the tests with the race detector. conan: conan create, static, and shared with
# http. TENMAP_LIBRARY may name a libtenmap.so for the samples of C++ and Python; without it, one is
# built. Uses the registries of cargo and pip. A part whose compiler or registry is missing is
# reported as skipped and counted. Exits with 77 if all are.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
[ $# -gt 0 ] || set -- rust go conan samples
work=$(mktemp -d)
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export TMPDIR="$work"
. scripts/sources.sh
ran=0 skipped=0 began=$(date +%s)
is_here() { command -v "$1" >/dev/null; }
# is_older VERSION LEAST: compares major.minor.
is_older() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" != "$2" ]; }
skip() { echo "SKIPPED: $1" && skipped=$((skipped + 1)); }
passed() {
    ran=$((ran + 1))
    echo "passed: $1, after $(($(date +%s) - began)) s"
}
# block LANGUAGE: prints the sample of docs/bindings.md in that language.
block() {
    awk -v mark="\`\`\`$1" '$0 == mark { on = 1; next } /^```$/ { on = 0 } on' \
        "$root/docs/bindings.md" >"$work/block"
    [ -s "$work/block" ] || { echo "docs/bindings.md has no sample in $1" >&2 && exit 1; }
    cat "$work/block"
}

# tries COMMAND...: reads the first weight of the demo model, and checks the error messages.
tries() {
    "$@" "$work/demo.safetensors" model.embed_tokens.weight $library >"$work/said"
    cat "$work/said"
    grep -q '^4096 values, the first 0\.0485[0-9]*$' "$work/said"
    if "$@" "$work/none" x $library >"$work/said" 2>&1; then exit 1; fi
    grep -q 'no such file' "$work/said" || { cat "$work/said" && exit 1; }
    if "$@" "$work/demo.safetensors" none $library >"$work/said" 2>&1; then exit 1; fi
    grep -q 'no tensor .*none' "$work/said" || { cat "$work/said" && exit 1; }
}

# The C files are compiled without optimization: what the bindings do is tested here, not speed.
export CFLAGS=-O0 CGO_CFLAGS=-O0 GOTOOLCHAIN=local GOFLAGS=-mod=mod
export CARGO_TARGET_DIR="$work/target" CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
export CARGO_TERM_PROGRESS_WHEN=never RUST_BACKTRACE=0
library=
tree=$work/tree

# wanted NAME FILE: prints the version after the name.
wanted() { sed -n "s/^$1 [= \"]*\([0-9.]*\).*/\1/p" "$2" | grep .; }

rust() {
    python3 scripts/rust-declarations.py --check
    is_here cargo || { skip "Rust: cargo is not here" && return; }
    found=$(cargo --version | cut -d ' ' -f 2) least=$(wanted rust-version bindings/rust/Cargo.toml)
    ! is_older "$found" "$least" || { skip "Rust: cargo $found is older than $least" && return; }
    for tool in clippy fmt; do
        cargo $tool --version >/dev/null 2>&1 || { skip "Rust: cargo $tool is not here" && return; }
    done
    if ! (cd "$tree/rust" && cargo generate-lockfile) >"$work/log" 2>&1; then
        tail -2 "$work/log"
        skip "Rust: the crate cc could not be fetched"
        return
    fi
    (cd "$tree/rust" && cargo fmt --check)
    (cd "$tree/rust" && cargo package --workspace --no-verify --allow-dirty --quiet)
    # From here on, what is in the packages is tested. tenmap finds its dependency beside it.
    mkdir "$work/crates"
    for package in "$work"/target/package/*.crate; do
        tar -xzf "$package" -C "$work/crates"
        echo "$(basename "$package"): $(wc -c <"$package") bytes"
    done
    crates=$(cd "$work/crates" && echo */)
    [ "$(echo "$crates" | wc -w)" -eq 2 ] || { echo "not two packages: $crates" && exit 1; }
    for crate in $crates; do
        [ -f "$work/crates/$crate/LICENSE" ] || { echo "$crate has no license" && exit 1; }
    done
    {
        echo '[workspace]'
        echo 'resolver = "2"'
        echo "members = [$(for crate in $crates; do printf '"%s", ' "${crate%/}"; done)]"
        echo '[patch.crates-io]'
        for crate in $crates; do
            case $crate in tenmap-sys*) echo "tenmap-sys = { path = \"${crate%/}\" }" ;; esac
        done
    } >"$work/crates/Cargo.toml"
    rm -f "$work"/crates/*/Cargo.lock
    cd "$work/crates"
    cargo clippy --quiet --workspace --all-targets -- -D warnings
    cargo test --quiet --workspace
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
    # The sample uses the crate in the tree, which compiles the sources in src/.
    mkdir -p "$work/sample_rust/src"
    cd "$work/sample_rust"
    block rust >src/main.rs
    {
        printf '[package]\nname = "sample"\nedition = "2024"\n[dependencies]\n'
        echo "tenmap = { path = \"$root/bindings/rust/tenmap\" }"
    } >Cargo.toml
    cargo build --quiet
    cd "$root"
    tries "$work/target/debug/sample"
    passed "Rust"
}

go_package() {
    is_here go || { skip "Go: go is not here" && return; }
    found=$(go env GOVERSION | sed 's/^go//') least=$(wanted go bindings/go/go.mod)
    ! is_older "$found" "$least" || { skip "Go: go $found is older than $least" && return; }
    wrong=$(gofmt -l "$tree/go")
    [ -z "$wrong" ] || { echo "not formatted by gofmt: $wrong" && exit 1; }
    race=
    [ "$(go env CGO_ENABLED)" = 1 ] || { skip "Go: cgo is off" && return; }
    case $(go env GOOS)/$(go env GOARCH) in linux/amd64 | linux/arm64) race=-race ;; esac
    (cd "$tree/go" && go vet $race ./... && go test $race ./...)
    mkdir "$work/sample_go"
    block go >"$work/sample_go/main.go"
    printf 'module sample\n\ngo 1.21\n\nrequire tenmap v0.0.0\n\nreplace tenmap => %s\n' \
        "$tree/go" >"$work/sample_go/go.mod"
    wrong=$(gofmt -l "$work/sample_go")
    [ -z "$wrong" ] || { echo "docs/bindings.md: gofmt formats the sample differently" && exit 1; }
    (cd "$work/sample_go" && go build $race -o "$work/sample_go/sample" .)
    tries "$work/sample_go/sample"
    passed "Go${race:+, with the race detector}"
}

# recipe WHAT [OPTION...]: builds the package and the programs of test_package.
recipe() {
    echo "conan create: $1"
    shift
    "$conan" create packaging/conan -tf "$work/test_package" --no-remote -s build_type=Debug "$@" \
        >"$work/log" 2>&1 ||
        { tail -40 "$work/log" && exit 1; }
    grep -E '^(version [0-9]*: |an address: )' "$work/log"
    grep -q '^version [0-9]*: 1 -2$' "$work/log"
}

conan_recipe() {
    is_here cmake || { skip "Conan: cmake is not here" && return; }
    conan=$(command -v conan) || {
        conan=$work/venv/bin/conan
        if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q 'conan>=2,<3'; } \
            >"$work/log" 2>&1; then
            tail -2 "$work/log"
            skip "Conan: it could not be fetched"
            return
        fi
    }
    export CONAN_HOME="$work/conan"
    "$conan" profile detect >"$work/log" 2>&1 || { cat "$work/log" && exit 1; }
    cp -r packaging/conan/test_package "$work" # it is built there, not in the tree
    recipe "static"
    recipe "shared, with http" -o 'tenmap/*:shared=True' -o 'tenmap/*:http=True'
    grep -q '^an address: 1$' "$work/log"
    passed "Conan"
}

samples() {
    mkdir "$work/library"
    if [ -n "${TENMAP_LIBRARY-}" ]; then
        given_library "$work/library"
    else
        library_sources >/dev/null
        cc -O0 -shared -fPIC -Iinclude src/*/*.c -lpthread -o "$work/library/libtenmap.so"
    fi
    is_here c++ || { skip "C++: c++ is not here" && return; }
    block cpp >"$work/sample.cpp"
    c++ -std=c++17 -Wall -Wextra -Werror -Iinclude "$work/sample.cpp" -L"$work/library" -ltenmap \
        -Wl,-rpath,"$work/library" -o "$work/sample_cpp"
    "$work/sample_cpp" "$work/demo.safetensors" model.embed_tokens.weight | grep '^4096 values'
    block python >"$work/sample.py"
    library=$work/library/libtenmap.so
    tries python3 "$work/sample.py"
    library=
    passed "samples in C++ and Python"
}

cc -Iinclude examples/demo.c -o "$work/demo"
"$work/demo" "$work/demo.safetensors"
sh scripts/bindings-tree.sh "$tree"
for part; do
    case $part in
    rust) rust ;;
    go) go_package ;;
    conan) conan_recipe ;;
    samples) samples ;;
    *) echo "usage: bindings-test.sh [rust | go | conan | samples]..." >&2 && exit 2 ;;
    esac
done
echo "$ran parts passed, $skipped skipped"
[ "$ran" -gt 0 ] || exit 77
