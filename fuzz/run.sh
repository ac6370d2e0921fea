#!/bin/sh
# Runs one libFuzzer target for a while: fuzz/run.sh TARGET SECONDS, TARGET being header, index,
# json or check. Builds it first. New inputs go to a temporary folder; a crash is left in build/fuzz/crashes
# and makes the script fail. TENMAP_FUZZ_CORPUS names a folder to keep the inputs in instead.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: fuzz/run.sh header|index|json|check SECONDS" >&2
    exit 2
fi
target=$1
seconds=$2
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target "fuzz_$target" >/dev/null
crashes=build/fuzz/crashes/$target
mkdir -p "$crashes"
if [ -n "${TENMAP_FUZZ_CORPUS:-}" ]; then
    corpus=$TENMAP_FUZZ_CORPUS
    mkdir -p "$corpus"
else
    corpus=$(mktemp -d)
    trap 'rm -rf "$corpus"' EXIT
fi
seeds=$target
[ "$target" = check ] && seeds=header # files, as for that target
set -- "fuzz/seeds/$seeds"
if [ -d "fuzz/regressions/$seeds" ]; then
    set -- "$@" "fuzz/regressions/$seeds"
fi
if [ "$seeds" != "$target" ] && [ -d "fuzz/regressions/$target" ]; then
    set -- "$@" "fuzz/regressions/$target"
fi
"build/fuzz/fuzz/fuzz_$target" "-dict=fuzz/$seeds.dict" "-max_total_time=$seconds" -max_len=4096 \
    -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$crashes/" "$corpus" "$@"
