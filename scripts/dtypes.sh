#!/bin/sh
# Compares the table of dtypes, src/base/dtype_table.h, with the places that repeat it: the public
# header, the tables of docs/format.md, and the names that C++ and Python have for dtypes.
#
#     scripts/dtypes.sh [SOURCE]
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Lines of name and bits; lines of name, elements and bytes of a block.
sed -n 's/^    X(\([A-Z0-9_]*\), \([1-9][0-9]*\), .*/\1 \2/p' src/base/dtype_table.h |
    LC_ALL=C sort >"$work/dtypes"
sed -n 's/^    X(\([A-Z0-9_]*\), "[^"]*", [0-9]*, [0-9]*, \([0-9]*\), \([0-9]*\), .*/\1 \2 \3/p' \
    src/base/dtype_table.h | LC_ALL=C sort >"$work/blocks"
[ -s "$work/dtypes" ] && [ -s "$work/blocks" ] || { echo "the table has no dtypes" && exit 1; }

# same WHERE TABLE: compares lines from the standard input with those of the table.
same() {
    LC_ALL=C sort | diff "$work/$2" - >"$work/difference" && return
    echo "$1 differs from src/base/dtype_table.h (<):"
    grep '^[<>]' "$work/difference" | tee "$work/failed"
}

# "| `F6_E3M2`, `F6_E2M3` | 6 | ..." and "| 32 | `Q4_0` 18, `Q4_1` 20 |", one dtype to a line.
sed -n '/^## Dtypes/,/^## Numbers/p' docs/format.md >"$work/page"
awk -F ' *[|] *' '/^\| `/ {
    count = split($2, names, ", ")
    split($3, bits, ", ")
    for (i = 1; i <= count; i++) print names[i], i in bits ? bits[i] : bits[1]
}' "$work/page" | tr -d '`' | same "docs/format.md, the table of dtypes" dtypes
awk -F ' *[|] *' '/^\| [0-9]/ {
    count = split($3, rows, ", ")
    for (i = 1; i <= count; i++) {
        split(rows[i], row, " ")
        print row[1], $2, row[2]
    }
}' "$work/page" | tr -d '`' | same "docs/format.md, the table of block dtypes" blocks

# The public header has an enumerator for each, and two more.
{ cat "$work/dtypes" "$work/blocks" | sed 's/ .*//' && echo AS_STORED && echo OPAQUE; } |
    LC_ALL=C sort >"$work/enumerators"
sed -n '/^\/\* Element types/,/^};/s/^    TENMAP_\([A-Z0-9_]*\) = .*/\1/p' include/tenmap/types.h |
    same include/tenmap/types.h enumerators

# Python has a row for each dtype, C++ a type for each that takes whole bytes.
sed 's/ .*//' "$work/dtypes" >"$work/names"
sed -n 's/^    "\([A-Z0-9_]*\)": (.*/\1/p' python/tenmap/_dtype_names.py |
    same python/tenmap/_dtype_names.py names
awk '$2 % 8 == 0 { print $1 }' "$work/dtypes" >"$work/whole"
grep -e '^using' -e '^template <>' include/tenmap.hpp | sed -n 's/.*<TENMAP_\([A-Z0-9_]*\)[,>].*/\1/p' |
    LC_ALL=C sort -u | same include/tenmap.hpp whole

[ ! -e "$work/failed" ] || exit 1
echo "$(grep -c . "$work/dtypes") dtypes and $(grep -c . "$work/blocks") block dtypes, the same everywhere"
