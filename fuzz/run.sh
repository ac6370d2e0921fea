#!/bin/sh
# Runs one libFuzzer target: fuzz/run.sh TARGET SECONDS. TARGET is one of the fuzz_*.c here, or
# `all`, which runs each of them for SECONDS in turn. Builds first. New inputs go to a temporary
# folder. A crash is left in build/fuzz/crashes and makes the script fail. TENMAP_FUZZ_CORPUS names
# a folder to keep the inputs in instead, one folder per target.
set -eu
cd "$(dirname "$0")/.."
targets=$(ls fuzz/fuzz_*.c | sed 's|.*/fuzz_||; s|\.c$||')
if [ $# -ne 2 ] || ! echo all "$targets" | tr ' ' '\n' | grep -qx "$1"; then
    echo "usage: fuzz/run.sh all|$(echo $targets | tr ' ' '|') SECONDS" >&2
    exit 2
fi
[ "$1" = all ] || targets=$1
seconds=$2
cmake --preset fuzz >/dev/null
cmake --build build/fuzz >/dev/null
corpus=${TENMAP_FUZZ_CORPUS:-}
if [ -z "$corpus" ]; then
    corpus=$(mktemp -d)
    trap 'rm -rf "$corpus"' EXIT
    trap 'exit 130' INT TERM HUP
fi

for target in $targets; do
    crashes=build/fuzz/crashes/$target
    mkdir -p "$crashes" "$corpus/$target"
    # Targets whose input is a file share the header's dictionary.
    dict=fuzz/$target.dict
    [ -f "$dict" ] || dict=fuzz/header.dict
    seeds=$target
    [ "$target" != check ] || seeds=header # its inputs are files, as for header
    set -- "fuzz/seeds/$seeds"
    [ ! -d "fuzz/regressions/$target" ] || set -- "$@" "fuzz/regressions/$target"
    echo "== $target"
    "build/fuzz/fuzz/fuzz_$target" "-dict=$dict" "-max_total_time=$seconds" -max_len=4096 \
        -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$crashes/" \
        "$corpus/$target" "$@"
done
