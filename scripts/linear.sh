#!/bin/sh
# Opening is linear in the header, whatever the file: instructions (callgrind) and peak memory at n and
# 2n for each case of tests/linear.c, as one table. Fails where a ratio is above what the case allows:
# 2.2, or 2.3 where tensors or names are sorted. Neither figure depends on how busy the machine is.
#
#     scripts/linear.sh [DIVISOR [CASE...]]
#
# DIVISOR 1, the default, goes to the limits (2n is a header of 100 MB, a million tensors, a million
# keys): minutes. CI divides by 10. Exits with 77, saying why, without valgrind.
set -eu
divisor=${1:-1}
[ $# -eq 0 ] || shift
root=$(cd "$(dirname "$0")/.." && pwd)
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is not here"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-linear-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
cd "$root"
cc -O2 -g -Iinclude -o "$work/linear" tests/linear.c src/*.c src/kernels/*.c -lpthread

# measure CASE N: sets instructions and kib.
measure() {
    mkdir "$work/files"
    "$work/linear" make "$1" "$2" "$work/files"
    kib=$("$work/linear" open "$1" "$work/files" 2>"$work/said") || { cat "$work/said" >&2; exit 1; }
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$work/linear" open "$1" "$work/files" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    instructions=$(awk '/Collected/ { print $NF }' "$work/log")
    rm -rf "$work/files"
}

"$work/linear" list "$divisor" >"$work/cases"
failed=0
printf '%-22s %9s %12s %12s %5s %8s %8s %5s\n' case n instructions "at 2n" ratio KiB "at 2n" ratio
while read -r name n allowed; do
    [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
    measure "$name" "$n"
    first=$instructions first_kib=$kib
    measure "$name" $((2 * n))
    # Memory is judged from a few megabytes on; below, pages and tables of fixed size outweigh.
    awk -v name="$name" -v n="$n" -v a="$first" -v b="$instructions" -v x="$first_kib" -v y="$kib" \
        -v most="$allowed" 'BEGIN {
            more = b / a
            memory = x ? y / x : 0
            bad = (more > most) || (x > 4096 && memory > most + 0.1)
            printf("%-22s %9d %12.0f %12.0f %5.2f %8d %8d %5.2f  %s\n", name, n, a, b, more, x, y,
                   memory, bad ? "NOT LINEAR" : "linear")
            exit bad
        }' || failed=1
done <"$work/cases"
exit "$failed"
