#!/bin/sh
# GGUF: opens a model of 1,000 tensors and a vocabulary of 256,000 strings, and unpacks blocks,
# beside the Python package `gguf`.
#
#     bench/gguf.sh
#
# TENMAP_PEERS_PYTHON names an interpreter that has the package; without it one is made in
# build/bench. If the package is not available, only tenmap's blocks are timed, and a note says so.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
build_targets bench_gguf
bench=$build/bench/bench_gguf

if [ -n "$smoke" ]; then
    "$bench" blocks 1
    # A model without tensors and metadata: the magic, version 3, and two counts of 0.
    { printf 'GGUF\003\000\000\000' && head -c 16 /dev/zero; } >"$folder/model.gguf"
    "$bench" open "$folder/model.gguf"
    exit
fi
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
