#!/bin/sh
# One table: tenmap_take against opening alone, and against tenmap_load by hand.
#     bench/take.sh [ROUNDS [BYTES]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
build_targets bench_take
[ -z "$smoke" ] || set -- 1 100000000
"$build/bench/bench_take" "$@"
