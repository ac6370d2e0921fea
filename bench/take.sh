#!/bin/sh
# One table: tenmap_take against opening alone, and against tenmap_load by hand.
#     bench/take.sh [ROUNDS [BYTES]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTENMAP_TESTS=OFF >/dev/null
cmake --build "$build" --target bench_take -j2 >/dev/null
"$build/bench/bench_take" "$@"
