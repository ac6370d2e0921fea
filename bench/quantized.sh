#!/bin/sh
# Weights in parts into BF16 and F32, in one table: each beside the rate of plain stores around the cache in
# the same run, and FP8 in blocks beside the plain conversion of as many bytes.
#
#     bench/quantized.sh [ROWS COLUMNS]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench
mkdir -p "$build"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTENMAP_TESTS=OFF -DTENMAP_EXAMPLES=OFF \
    -DTENMAP_SHARED=OFF >"$log" 2>&1 &&
    cmake --build "$build" --target bench_quantized >>"$log" 2>&1 || { cat "$log" >&2; exit 1; }
"$(find "$build" -name bench_quantized -type f | head -n 1)" "$@"
