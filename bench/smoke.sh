#!/bin/sh
# Runs every benchmark once, with its smallest sizes, one round and no peers, to find at once a
# change that breaks one. The figures mean nothing.
#
#     bench/smoke.sh FOLDER [NAME...]
#
# FOLDER has the programs of the benchmarks, such as build/test/bench after `make test`; the tool
# and the examples are beside it. NAME selects programs and scripts: bench_open or open.sh. Prints
# how long each took and, if one fails, its output. Fails if one fails, if none ran, or if a program
# is not known here. A benchmark that cannot run here is counted as skipped, with its reason.
set -eu
programs=${1:?usage: bench/smoke.sh FOLDER [NAME...]}
shift
names=" $* "
root=$(cd "$(dirname "$0")/.." && pwd)
TENMAP_BENCH_BUILD=$(cd "$programs/.." && pwd)
programs=$(cd "$programs" && pwd)
TENMAP_BENCH_SMOKE=1
work=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-smoke-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
TMPDIR=$work/tmp
export TENMAP_BENCH_BUILD TENMAP_BENCH_SMOKE TMPDIR
unset TENMAP_PEERS_PYTHON TENMAP_TORCH_PYTHON
mkdir "$TMPDIR"
ran=0 skipped=0 failed=0
known=' '

fail() {
    echo "FAILED   $*"
    failed=$((failed + 1))
}

# smoke NAME COMMAND...: runs it in TMPDIR; it must print something and leave no file there.
smoke() {
    name=$1 status=0
    shift
    [ "$names" = "  " ] || case $names in *" $name "*) ;; *) return 0 ;; esac
    begun=$(date +%s)
    (cd "$TMPDIR" && "$@") >"$work/out" 2>"$work/errors" || status=$?
    took=$(($(date +%s) - begun))
    left=$(ls -A "$TMPDIR")
    if [ "$status" = 77 ]; then
        echo "skipped  $name: $(cat "$work/out" "$work/errors" | tail -n 1)"
        skipped=$((skipped + 1))
    elif [ "$status" = 0 ] && [ -s "$work/out" ] && [ -z "$left" ]; then
        echo "ran      $name, $took s"
        ran=$((ran + 1))
    else
        tail -n 20 "$work/out" "$work/errors"
        fail "$name: exit code $status${left:+, it left $left}"
    fi
}

# prepared NAME: names a program that runs only in a script, which prepares what it needs.
prepared() {
    known="$known$1 "
}

# program NAME [ARGUMENT...]
program() {
    prepared "$1"
    smoke "$1" "$programs/$@"
}

program bench_convert
program bench_gguf blocks 1
prepared bench_http
prepared bench_load
program bench_measure 1 1 1
program bench_mpi_plan 8
program bench_open
prepared bench_pytorch
program bench_quantized 128 128
program bench_take 1 100000000
prepared bench_tool
prepared bench_ttft
program bench_write --bytes 67108864 --edit-bytes 67108864 --rounds 1
for path in "$programs"/bench_*; do
    name=${path##*/}
    [ -f "$path" ] || continue
    case $known in *" $name "*) ;; *) fail "$name is not known to bench/smoke.sh" ;; esac
done
for path in "$root"/bench/*.sh; do
    [ "${path##*/}" = smoke.sh ] || smoke "${path##*/}" sh "$path"
done

echo "benchmarks: $ran ran, $skipped skipped, $failed failed"
[ "$failed" = 0 ] && [ "$ran" -gt 0 ]
