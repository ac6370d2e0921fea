#!/bin/sh
# Reads .ci/paths.tsv, which says which groups of checks a changed path selects:
#
#     scripts/ci-paths.sh check [SOURCE]
#     scripts/ci-paths.sh select <PATHS
#
# `check` fails if a file of the repository matches no row, so that a new folder cannot stay without
# its checks; if a row matches no file; or if the table and the checks of .ci/run do not name the
# same groups. Exits with 77 and says why if SOURCE is not a git repository, which lists the files.
# `select`, for .ci/run, prints the groups that the paths on standard input select, one per line. A
# path that matches no row selects all, and is named on stderr.
set -u
usage='usage: ci-paths.sh check [SOURCE] | select <PATHS'
mode=${1:?$usage}
cd "${2:-$(dirname "$0")/..}" || exit 1
tab=$(printf '\t')
rows=$(grep -v '^#' .ci/paths.tsv | grep "$tab") ||
    { echo "no rows in .ci/paths.tsv" >&2 && exit 1; }
set -f # the patterns are for paths of the repository, not for files that are here
IFS='
'

# groups_of PATH: sets groups, each after a space. They are empty if no row matches.
groups_of() {
    groups=
    for row in $rows; do
        # shellcheck disable=SC2254 # a pattern
        case $1 in ${row%%"$tab"*}) groups="$groups ${row#*"$tab"}" ;; esac
    done
}

select_groups() {
    for path in $(cat); do
        groups_of "$path"
        [ -n "$groups" ] || {
            echo "no row of .ci/paths.tsv matches $path: it selects all checks" >&2
            groups=all
        }
        echo "$groups"
    done | tr ' ' '\n' | grep . | LC_ALL=C sort -u
}

# row_is_used ROW: whether the row matches a file.
row_is_used() {
    for path in $files; do
        # shellcheck disable=SC2254 # a pattern
        case $path in ${1%%"$tab"*}) return 0 ;; esac
    done
    return 1
}

check() {
    [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ] || {
        echo "skipped: this is not a git repository"
        exit 77
    }
    files=$(git -c core.quotePath=false ls-files)
    [ -n "$files" ] || { echo "no files" && exit 1; }
    wrong=0
    for path in $files; do
        groups_of "$path"
        [ -n "$groups" ] || { echo "no row of .ci/paths.tsv matches $path" && wrong=1; }
    done
    for row in $rows; do
        row_is_used "$row" || { echo "no file matches the row of .ci/paths.tsv: $row" && wrong=1; }
    done
    selected=$(printf '%s\n' "$rows" | cut -f 2 | tr ' ' '\n' | grep -vx all | LC_ALL=C sort -u)
    checked=$(sed -n 's/^ *check \([a-z,]*\) .*/\1/p' .ci/run | tr , '\n' | LC_ALL=C sort -u)
    for group in $selected; do
        printf '%s\n' "$checked" | grep -qx "$group" ||
            { echo "no check of .ci/run is in the group $group" && wrong=1; }
    done
    for group in $checked; do
        printf '%s\n' "$selected" | grep -qx "$group" ||
            { echo "no row of .ci/paths.tsv selects the group $group" && wrong=1; }
    done
    [ "$(echo "no such path" | select_groups 2>/dev/null)" = all ] ||
        { echo "a path that matches no row does not select all checks" && wrong=1; }
    [ $wrong -eq 0 ] || exit 1
    echo "$(echo "$files" | wc -l) files match $(echo "$rows" | wc -l) rows," \
        "which select $(echo "$selected" | wc -l) groups"
}

case $mode in
check) check ;;
select) select_groups ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
