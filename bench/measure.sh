#!/bin/sh
# One table: tenmap_measure against reading the same bytes, by dtype and threads; histograms.
#     bench/measure.sh [MIB [ROUNDS [THREADS]]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTENMAP_TESTS=OFF >/dev/null
cmake --build "$build" --target bench_measure -j2 >/dev/null
"$build/bench/bench_measure" "${1:-256}" "${2:-15}" "${3:-2}"
