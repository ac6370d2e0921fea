#!/bin/sh
# Runs each NAME.sh of this folder and compares what it prints with NAME.out, exactly.
#
#     tests/cli/run.sh TOOL FIXTURES [--update] [NAME...]
#
# TOOL is the tenmap binary, FIXTURES the program that makes the models. --update writes the .out files
# anew: read the difference before you commit it. A script runs in an empty folder that holds the
# models, with `t ARGUMENT...` for the tool: it prints the command line, stdout and stderr, and the exit
# code where it is not 0. A script that calls `skip WHY` is counted as skipped.
set -eu
tool=$(realpath "$1") fixtures=$(realpath "$2")
shift 2
update=no
[ "${1:-}" = --update ] && update=yes && shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- $(cd "$here" && ls ./*.sh | sed 's,^\./,,; s,\.sh$,,' | grep -vx run)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
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
# header_of NAME DTYPE SHAPE BYTES...: that of a file of these tensors, whose data has $data_bytes bytes.
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
skip() {
    echo "$*" >../skipped
    exit 0
}
END

failed=0 skipped=0
for name; do
    rm -rf "$folder/work" "$folder/skipped"
    mkdir "$folder/work"
    "$fixtures" "$folder/work"
    (cd "$folder/work" && sh -eu -c '. ../prelude; . "$1"' sh "$here/$name.sh") >"$folder/got" 2>&1 ||
        echo "the script itself failed" >>"$folder/got"
    if [ -f "$folder/skipped" ]; then
        echo "SKIPPED: $name: $(cat "$folder/skipped")"
        skipped=$((skipped + 1))
    elif [ $update = yes ]; then
        cp "$folder/got" "$here/$name.out"
    elif ! diff -u "$here/$name.out" "$folder/got"; then
        echo "FAILED: $name (run with --update if the new output is right)"
        failed=$((failed + 1))
    fi
done
echo "$# scripts, $failed failed, $skipped skipped"
[ $failed = 0 ]
