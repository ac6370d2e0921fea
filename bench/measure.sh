#!/bin/sh
# Prints one table: tenmap_measure beside reading the same bytes, by dtype and threads; histograms.
#     bench/measure.sh [MIB [ROUNDS [THREADS]]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
build_targets bench_measure
[ -z "$smoke" ] || set -- 1 1 2
"$build/bench/bench_measure" "${1:-256}" "${2:-15}" "${3:-2}"
