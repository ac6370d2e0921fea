#!/bin/sh
# Compares tenmap with the reference implementation (the crate and the Python package safetensors)
# on generated files:
#
#     tests/peers/differential.sh [CASES [SEED]]        20,000 cases of seed 1
#
# Builds what it needs in build/peers. Exits with 77 and says why if the crate is not available. The
# package is left out, with a note, if it is not available. TENMAP_PEERS_PYTHON names an interpreter
# that has it. TENMAP_LIBRARY may name the libtenmap.so to test; without it, the library is built
# here. The golden files are compared too. The programs are in tests/peers/differential/.
set -eu

cases=${1:-20000}
seed=${2:-1}
case $cases$seed in
*[!0-9]* | 0*) echo "usage: tests/peers/differential.sh [CASES [SEED]]" >&2 && exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)/differential
root=$(cd "$here/../../.." && pwd)
build=$root/build/peers
mkdir -p "$build"
log=$build/log

note() {
    echo "differential: $*"
}

command -v cargo >/dev/null || { note "skipped: there is no cargo" && exit 77; }
CARGO_TARGET_DIR=$build/cargo cargo build --release --manifest-path "$here/reference/Cargo.toml" \
    >"$log" 2>&1 || {
    note "skipped: cargo could not build the reference: $(grep -v '^ *$' "$log" | tail -n 1)"
    exit 77
}
cp "$build/cargo/release/differential-reference" "$build/reference"
"${CC:-cc}" -O2 -std=c11 -Wall -Wextra "$here/generate.c" -o "$build/generate"
if [ -n "${TENMAP_LIBRARY-}" ]; then
    . "$root/scripts/sources.sh"
    given_library "$build/library"
    "${CC:-cc}" -O2 -I"$root/include" "$here/judge.c" -L"$build/library" -ltenmap \
        -Wl,-rpath,"$build/library" -lpthread -o "$build/judge"
else
    "${CC:-cc}" -O2 -I"$root/include" "$root"/src/*/*.c "$here/judge.c" -lpthread -o "$build/judge"
fi

python=${TENMAP_PEERS_PYTHON:-$build/venv/bin/python}
if ! "$python" -c 'import safetensors, numpy' 2>/dev/null; then
    python=$build/venv/bin/python
    { [ -x "$python" ] || python3 -m venv "$build/venv"; } >"$log" 2>&1 &&
        "$python" -m pip install -q safetensors numpy >"$log" 2>&1 || {
        note "the package is left out: $(tail -n 1 "$log")"
        python=
    }
fi
exec python3 "$here/compare.py" "$build" "$cases" "$seed" ${python:+"$python"}
