#!/bin/sh
# Checks that opening takes time and memory linear in the header, whatever the file, and that the
# tool's commands do too. Measures instructions (callgrind) and peak memory at n and 2n for each
# case of tests/linear*.c, and prints one table. Fails if a ratio is above what the case allows: 2.2,
# or 2.3 if tensors or names are sorted. Neither figure depends on how busy the machine is.
#
#     scripts/linear.sh [DIVISOR [CASE...]]
#
# DIVISOR 1, the default, goes to the limits (2n is a header of 100 MB, a million tensors, a million
# keys) and takes minutes. CI divides by 10. TENMAP_LIBRARY may name a libtenmap.so built with -O2;
# without it, the library is built here. Fails if no case was measured. Exits with 77 and says why
# if valgrind is missing.
set -eu
divisor=${1:-1}
[ $# -eq 0 ] || shift
chosen=$*
root=$(cd "$(dirname "$0")/.." && pwd)
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is not here"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-linear-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
cd "$root"
. scripts/sources.sh
# Listed here, because the cases below are read with "set -f".
tool=$(tool_sources)
sha256=$(sha256_sources)
mkdir "$work/library"
if [ -n "${TENMAP_LIBRARY-}" ]; then
    given_library "$work/library"
else
    library_sources >/dev/null
    mkdir "$work/objects"
    (cd "$work/objects" && printf '%s\0' "$root"/src/*/*.c |
        xargs -0 -n 1 -P "$(nproc)" cc -O2 -g -I"$root/include" -c)
    ar rcs "$work/library/libtenmap.a" "$work"/objects/*.o
fi
# build PROGRAM ARGUMENT...
build() {
    built=$1
    shift
    cc -O2 -g -Iinclude -o "$work/$built" "$@" -L"$work/library" -Wl,-rpath,"$work/library" \
        -ltenmap -lpthread -lm -ldl
}
# embed_report: makes the source that holds the report's page, once.
embed_report() {
    [ -f "$work/report_assets.c" ] || cmake -DSOURCE="$root/tool/report/page" \
        -DOUTPUT="$work/report_assets.c" -P cmake/embed_report.cmake >/dev/null
}
# build_tool: builds the tool once.
build_tool() {
    [ ! -f "$work/tenmap" ] || return 0
    embed_report
    build tenmap -Itool -Isha256 -D_GNU_SOURCE $tool $sha256 "$work/report_assets.c"
    cc -O2 -o "$work/on_terminal" tests/cli/on_terminal.c
}
# is_chosen CASE: whether it is named on the command line, or none is.
is_chosen() {
    [ -z "$chosen" ] || case " $chosen " in *" $1 "*) ;; *) return 1 ;; esac
}
build linear tests/linear.c tests/linear_pickles.c
# The editor that `meta edit` calls: it changes every value.
EDITOR="sed -i 's/\": \"/&new /'" && export EDITOR
unset VISUAL

# measure_open CASE: measures the library on the files in $work/files.
measure_open() {
    kib=$("$work/linear" open "$1" "$work/files" 2>"$work/said") || { cat "$work/said" >&2; exit 1; }
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$work/log" \
        "$work/linear" open "$1" "$work/files" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
}

# measure_tool CASE N WHERE CODE COMMAND...: measures the tool. For a case on a terminal, the tool
# also has one under valgrind.
measure_tool() {
    name=$1 n=$2 where=$3 code=$4
    shift 4
    cd "$work/files"
    line=$*
    case $line in
    *%words | *%keys)
        value=
        [ "${line##*%}" = keys ] || value=new
        set -- ${line%%%*} $(awk -v n="$n" -v value="$value" \
            'BEGIN { for (i = 0; i < n; i++) printf("%x %s ", i, value) }')
        ;;
    esac
    terminal=
    [ "$where" = pipe ] || terminal="$work/on_terminal 80"
    kib=$("$work/linear" spend "$code" $terminal "$work/tenmap" "$@" 2>"$work/said") ||
        { cat "$work/said" >&2; exit 1; }
    rm -f model.safetensors out.safetensors
    "$work/linear" make "$name" "$n" .
    $terminal valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$work/log" \
        "$work/tenmap" "$@" >"$work/said" 2>&1 || [ $? = "$code" ] ||
        { tail -n 3 "$work/said" >&2; exit 1; }
    cd "$root"
}

# measure CASE N [COMMAND...]: sets instructions and kib.
measure() {
    mkdir "$work/files"
    "$work/linear" make "$1" "$2" "$work/files"
    if [ $# -eq 2 ]; then
        measure_open "$1"
    else
        measure_tool "$@"
    fi
    instructions=$(awk '/Collected/ { print $NF }' "$work/log")
    rm -rf "$work/files"
}

# Reports whether the figures are linear; those of n are in first and first_kib.
judge() {
    judged=$((judged + 1))
    # Memory is judged from a few megabytes on; below that, pages and tables of fixed size dominate.
    awk -v name="$case" -v n="$size" -v a="$first" -v b="$instructions" -v x="$first_kib" -v y="$kib" \
        -v most="$allowed" 'BEGIN {
            more = b / a
            memory = x ? y / x : 0
            bad = (more > most) || (x > 4096 && memory > most + 0.1)
            printf("%-22s %9d %12.0f %12.0f %5.2f %8d %8d %5.2f  %s\n", name, n, a, b, more, x, y,
                   memory, bad ? "NOT LINEAR" : "linear")
            exit bad
        }' || failed=1
}

# measure_listing KIND N MODEL: measures how the tool lists a server's files.
measure_listing() {
    kib=$(python3 http/tests/listing.py "$1" "$2" "$work/linear" spend 3 "$work/tenmap-http" ls "$3" 2>"$work/said") ||
        { cat "$work/said" >&2; exit 1; }
    python3 http/tests/listing.py "$1" "$2" valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        --log-file="$work/log" "$work/tenmap-http" ls "$3" >"$work/said" 2>&1 || [ $? = 3 ] ||
        { tail -n 3 "$work/said" >&2; exit 1; }
    instructions=$(awk '/Collected/ { print $NF }' "$work/log")
}

"$work/linear" list "$divisor" >"$work/cases"
failed=0 judged=0
set -f # the tool expands the patterns of the cases, not the shell
printf '%-22s %9s %12s %12s %5s %8s %8s %5s\n' case n instructions "at 2n" ratio KiB "at 2n" ratio
while read -r case size allowed command; do
    is_chosen "$case" || continue
    [ -z "$command" ] || build_tool
    measure "$case" "$size" $command
    first=$instructions first_kib=$kib
    measure "$case" $((2 * size)) $command
    judge
done <"$work/cases"

# With libcurl: the names of a folder on a hub or in a bucket, up to the limits of a listing and of
# a folder.
set +f
while read -r case kind size allowed model; do
    ! is_chosen "$case" || echo "$case $kind $((size / divisor)) $allowed $model"
done >"$work/listings" <<END
listing-hub hub 450000 2.2 hf://a/b
listing-pages pages 50000 2.3 hf://a/b
listing-shards shards 45000 2.3 hf://a/b
listing-s3 s3 450000 2.2 s3://a/b
END
if [ ! -s "$work/listings" ]; then
    : # none is chosen
elif embed_report && build tenmap-http -Itool -Ihttp -Isha256 -D_GNU_SOURCE -DTOOL_HAVE_HTTP $tool http/src/*.c \
    $sha256 "$work/report_assets.c" -ldl 2>"$work/said" &&
    "$work/tenmap-http" --version | grep -q '^libcurl  *[0-9]' && command -v python3 >/dev/null; then
    while read -r case kind size allowed model; do
        measure_listing "$kind" "$size" "$model"
        first=$instructions first_kib=$kib
        measure_listing "$kind" $((2 * size)) "$model"
        judge
    done <"$work/listings"
else
    echo "skipped: listings of servers, without libcurl or Python"
fi
echo "$judged cases"
[ "$judged" -gt 0 ] || { echo "no case of that name: $*" && exit 1; }
exit "$failed"
