#!/bin/sh
# Compares the names that a shared library exports with scripts/symbols.txt or another LIST:
#     scripts/symbols.sh LIBRARY [LIST]
# The list is the ABI. A new public function is added to it in the same commit (scripts/symbols.sh
# --update LIBRARY rewrites it). Removing a name breaks programs and requires a new SOVERSION (see
# CONTRIBUTING.md).
set -eu
update=
[ "${1:-}" = --update ] && update=yes && shift
library=${1:?usage: symbols.sh [--update] LIBRARY [LIST]}
list=${2:-$(cd "$(dirname "$0")" && pwd)/symbols.txt}
found=$(mktemp)
trap 'rm -f "$found"' EXIT
trap 'exit 130' INT TERM HUP
nm -D --defined-only "$library" | awk '{print $3}' | LC_ALL=C sort >"$found"
[ -s "$found" ] || { echo "$library exports no names" >&2; exit 1; }
if grep -v '^tenmap_' "$found"; then
    echo "these names do not begin with tenmap_" >&2
    exit 1
fi
if [ -n "$update" ]; then
    cp "$found" "$list"
elif ! diff "$list" "$found"; then
    echo "the library exports other names than $list (< listed, > exported)" >&2
    exit 1
fi
wc -l <"$found" | tr -d ' '
