#!/bin/sh
# Prints one table: tenmap_take beside opening alone, and beside tenmap_load by hand.
#     bench/take.sh [ROUNDS [BYTES]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
build_targets bench_take
[ -z "$smoke" ] || set -- 1 100000000
"$build/bench/bench_take" "$@"
