#!/bin/sh
# Lists a model of 100,000 tensors with the tool, beside the library's own open of the same file.
# Prints one table.
#
#     bench/ls.sh [ROUNDS]
#
# All figures are processor time, so that other programs on the machine disturb them less. Each
# round runs each form ten times, and the minimum over all rounds counts. The time of an open is
# that of `meta MODEL get KEY` minus that of `help`; the forms of ls include process start.
# Everything is built in build/bench. The file is sparse and removed afterwards.
set -eu

rounds=${1:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
case $rounds in
*[!0-9]*) echo "usage: bench/ls.sh [ROUNDS]" >&2 && exit 2 ;;
esac

. "$root/scripts/bench.sh"
[ -z "$smoke" ] || rounds=1
echo "bench/ls: building" >&2
build_targets bench_open tenmap_tool
"$build/bench/bench_open" make "$folder" >/dev/null
model=$folder/100000.safetensors

# Sets spent to the milliseconds of processor time that all children have used so far.
spent() {
    times >"$folder/times"
    spent=$(awk -F '[ms ]+' 'NR == 2 { printf "%.3f", 60000 * $1 + 1000 * $2 + 60000 * $3 + 1000 * $4 }' "$folder/times")
}

# form NAME ARGUMENT...: runs it ten times, writing to a file; prints "NAME MILLISECONDS" per run.
form() {
    name=$1
    shift
    spent
    before=$spent
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        "$build/tool/tenmap" "$@" >"$folder/out"
    done
    spent
    echo "$before $spent" | awk -v name="$name" '{ print name "\t" ($2 - $1) / 10 }'
}

round=1
while [ "$round" -le "$rounds" ]; do
    echo "bench/ls: round $round of $rounds" >&2
    form help help
    form open meta "$model" get format
    for options in "" "--sort file" "--sort file --long" "--sort file --tsv" "--sort file --json" --tree --fold; do
        form "ls${options:+ $options}" ls $options "$model"
    done
    round=$((round + 1))
done >"$folder/lines"

awk -F '\t' '
    !($1 in best) { order[++count] = $1; best[$1] = $2 }
    $2 < best[$1] { best[$1] = $2 }
    END {
        print "| 100,000 tensors | ms | times open |"
        print "|---|---|---|"
        best["open"] -= best["help"]
        for (i = 2; i <= count; i++)
            printf "| %s | %.1f | %.1f |\n", order[i], best[order[i]],
                (best["open"] > 0 ? best[order[i]] / best["open"] : 0)
    }' "$folder/lines"
