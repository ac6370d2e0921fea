#!/bin/sh
# Runs the tests of a build folder many times, to find intermittent failures:
#     scripts/repeat-tests.sh BUILD COUNT [MODE [LOG [OPTION...]]]
# MODE is idle (as scripts/run-tests.sh runs them), load (beside two busy loops) or one (those loops
# and all tests on one processor). Each run appends one line to stdout and to LOG
# (BUILD/repeats.log): date, load of the machine, mode, counts, seconds, and what failed. The output
# of failed tests is kept beside LOG. OPTIONs are ctest's. Exits with 1 if a run failed, or if there
# was none.
set -u
[ $# -ge 2 ] || { echo "usage: $0 BUILD COUNT [idle | load | one [LOG [OPTION...]]]" >&2 && exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=$1 count=$2 mode=${3:-idle} log=${4:-$1/repeats.log}
shift $(($# < 4 ? $# : 4))
bound=
case $mode in
idle | load) ;;
one) bound="taskset -c 0" ;;
*) echo "no such mode: $mode" >&2 && exit 2 ;;
esac

loops=
# shellcheck disable=SC2086 # words
stop() { [ -z "$loops" ] || kill $loops 2>/dev/null; }
trap stop EXIT
trap 'exit 130' INT TERM HUP
if [ "$mode" != idle ]; then
    for _ in 1 2; do
        $bound sh -c 'while :; do :; done' &
        loops="$loops $!"
    done
fi

failures=0 run=0
while [ $run -lt "$count" ]; do
    run=$((run + 1)) began=$(date +%s) load=$(cut -d' ' -f1 /proc/loadavg)
    out=$log.$began.$run
    status=0
    $bound sh "$here/run-tests.sh" "$build" "$@" >"$out" 2>&1 || status=$?
    failed=$(sed -n '/^The following tests FAILED:/,$s/^[^-]*[0-9] - \([^ ]*\) .*/\1/p' "$out" | tr '\n' ' ')
    printf '%s load %s %s: %s passed, %s skipped, %s s, failed: %s\n' "$(date '+%F %T')" "$load" "$mode" \
        "$(grep -c ' Passed ' "$out")" "$(grep -c '\*\*\*Skipped' "$out")" $(($(date +%s) - began)) \
        "${failed:-$([ $status = 0 ] && echo none || echo "ctest, exit $status")}" | tee -a "$log"
    if [ $status = 0 ]; then rm "$out"; else failures=$((failures + 1)); fi
done
echo "$run runs, $failures failed"
[ $failures = 0 ] && [ $run -gt 0 ]
