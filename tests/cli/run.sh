#!/bin/sh
# Runs each NAME.sh of this folder and compares its output with NAME.out, exactly.
#
#     tests/cli/run.sh TOOL FIXTURES [--update] [NAME...]
#
# TOOL is the tenmap binary, FIXTURES the program that makes the models. --update rewrites the .out
# files: read the difference before you commit it. A script runs in a folder that holds only the
# models. It calls the tool with `t ARGUMENT...`, which prints the command line, stdout and stderr,
# and a nonzero exit code. A script that calls `skip WHY` is counted as skipped.
set -eu
tool=$(realpath "$1") fixtures=$(realpath "$2")
shift 2
update=no
[ "${1:-}" = --update ] && update=yes && shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- $(cd "$here" && ls ./*.sh | sed 's,^\./,,; s,\.sh$,,' | grep -vx run)

[ $# -gt 0 ] || { echo "no scripts in $here" && exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
unset NO_COLOR COLUMNS CLICOLOR EDITOR VISUAL
export tool fixtures LC_ALL=C.UTF-8 TZ=UTC

cat >"$folder/prelude" <<'END'
t() {
    printf '$ tenmap'
    for word; do
        case $word in *[!A-Za-z0-9_./=:,@%+-]* | '') printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    echo
    status=0
    "$tool" "$@" 2>&1 || status=$?
    [ $status = 0 ] || echo "exit $status"
}
# header_of NAME DTYPE SHAPE BYTES...: prints the header of a file with these tensors, and sets
# $data_bytes to the size of its data.
header_of() {
    entries='' data_bytes=0
    while [ $# -gt 0 ]; do
        entries="$entries${entries:+,}\"$1\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[$data_bytes,$((data_bytes + $4))]}"
        data_bytes=$((data_bytes + $4))
        shift 4
    done
    entries="{$entries}"
    while [ $((${#entries} % 8)) != 0 ]; do entries="$entries "; done
    printf "\\$(printf %03o $((${#entries} % 256)))\\$(printf %03o $((${#entries} / 256)))\0\0\0\0\0\0%s" "$entries"
}
# For headers of GGUF files: a number of so many bytes, a string, and a key with a string.
le() { # NUMBER BYTES
    number=$1 left=$2
    while [ "$left" -gt 0 ]; do
        printf "\\$(printf %03o $((number & 255)))"
        number=$((number >> 8)) left=$((left - 1))
    done
}
word() { le ${#1} 8 && printf %s "$1"; }
text_pair() { word "$1" && le 8 4 && word "$2"; }
skip() {
    echo "$*" >../skipped
    exit 0
}
END

# one NAME: runs a script in $mine/work, and appends a letter for its result to $mine/results.
one() {
    rm -rf "$mine/work" "$mine/skipped"
    mkdir "$mine/work"
    "$fixtures" "$mine/work"
    (cd "$mine/work" && sh -eu -c '. ../../prelude; . "$1"' sh "$here/$1.sh") >"$mine/got" 2>&1 ||
        echo "the script itself failed" >>"$mine/got"
    if [ -f "$mine/skipped" ]; then
        echo "SKIPPED: $1: $(cat "$mine/skipped")"
        printf s >>"$mine/results"
    elif [ $update = yes ]; then
        cp "$mine/got" "$here/$1.out"
    elif ! diff -u "$here/$1.out" "$mine/got"; then
        echo "FAILED: $1 (run with --update if the new output is right)"
        printf f >>"$mine/results"
    fi
    printf d >>"$mine/results"
}

# Runs one job per processor; the output is printed when all are done.
jobs=$(nproc 2>/dev/null || echo 1)
for job in $(seq "$jobs"); do
    mine=$folder/$job
    mkdir "$mine"
    (
        i=0
        for name; do
            i=$((i % jobs + 1))
            [ $i != "$job" ] || one "$name"
        done
    ) >"$mine/said" 2>&1 &
done
wait
cat "$folder"/*/said
count() { cat "$folder"/*/results 2>/dev/null | tr -cd "$1" | wc -c; }
[ "$(count d)" = $# ] || { echo "only $(count d) of $# scripts came to their end" && exit 1; }
echo "$# scripts, $(count f) failed, $(count s) skipped"
[ "$(count f)" = 0 ]
