#!/bin/sh
# Weights in parts into BF16 and F32, in one table: each beside the rate of plain stores around the cache in
# the same run, and FP8 in blocks beside the plain conversion of as many bytes. Then the same weights in eager
# torch, in numpy and by bitsandbytes' own code, in a second table.
#
#     bench/quantized.sh [ROWS COLUMNS]
#
# TENMAP_PEERS_PYTHON names a Python that has torch, numpy, ml_dtypes and bitsandbytes, which are large; without
# one the second table is left out, and a note says so.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench
mkdir -p "$build"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTENMAP_TESTS=OFF -DTENMAP_EXAMPLES=OFF \
    -DTENMAP_SHARED=OFF >"$log" 2>&1 &&
    cmake --build "$build" --target bench_quantized >>"$log" 2>&1 || { cat "$log" >&2; exit 1; }
"$(find "$build" -name bench_quantized -type f | head -n 1)" "$@" >"$log"
cat "$log"
if [ -z "${TENMAP_PEERS_PYTHON-}" ]; then
    echo "bench/quantized: torch, numpy and bitsandbytes are left out: TENMAP_PEERS_PYTHON names no Python" >&2
    exit
fi
"$TENMAP_PEERS_PYTHON" "$root/bench/peers/quantized_python.py" "$log" "${1:-8192}" "${2:-8192}"
