#!/bin/sh
# GGUF: opening a model of 1,000 tensors and a vocabulary of 256,000 strings, and unpacking blocks, beside
# the Python package `gguf`.
#
#     bench/gguf.sh
#
# TENMAP_PEERS_PYTHON names an interpreter that has the package; without it one is made in build/bench.
# Where the package cannot be had, only tenmap's blocks are timed, and a note says so.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench
mkdir -p "$build"
folder=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTENMAP_TESTS=OFF -DTENMAP_EXAMPLES=OFF \
    -DTENMAP_SHARED=OFF >"$folder/log" 2>&1 &&
    cmake --build "$build" --target bench_gguf >>"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
bench=$(find "$build" -name bench_gguf -type f | head -n 1)

"$bench" blocks
python=${TENMAP_PEERS_PYTHON:-$build/venv/bin/python}
if ! "$python" -c 'import gguf' 2>/dev/null; then
    python=$build/venv/bin/python
    { [ -x "$python" ] || python3 -m venv "$build/venv"; } >"$folder/log" 2>&1 &&
        "$python" -m pip install -q gguf >"$folder/log" 2>&1 || {
        echo "bench/gguf: the package is left out: $(tail -n 1 "$folder/log")" >&2
        exit 0
    }
fi
"$python" "$root/bench/peers/gguf_python.py" blocks
"$python" "$root/bench/peers/gguf_python.py" make "$folder/model.gguf" 2>/dev/null
"$bench" open "$folder/model.gguf"
"$python" "$root/bench/peers/gguf_python.py" open "$folder/model.gguf"
