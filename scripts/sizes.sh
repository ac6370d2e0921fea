#!/bin/sh
# Prints the size of the library, whole and without its optional parts, as docs/embedding.md shows
# it: bytes of text (code, constants, unwind tables: `size`) of the two-file form's object.
#     scripts/sizes.sh [COMPILER [FLAG...]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cc=${1:-cc}
[ $# -eq 0 ] || shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
python3 "$root/scripts/amalgamate.py" "$work"

# text FLAG...: prints the size in thousands of bytes.
text() {
    "$cc" -c "$work/tenmap.c" -o "$work/tenmap.o" "$@"
    size "$work/tenmap.o" | awk 'NR == 2 { printf "%d KB\n", $1 / 1000 + 0.5 }'
}

row() {
    what=$1
    shift
    fast=$(text -O2 "$@")
    small=$(text -Os "$@")
    printf '| %s | %s | %s |\n' "$what" "$fast" "$small"
}

no_kernels="-DTENMAP_NO_AVX2 -DTENMAP_NO_NEON"
reader="-DTENMAP_NO_WRITE -DTENMAP_NO_MEASURE -DTENMAP_NO_CHECK"
printf '| Left out | -O2 | -Os |\n|---|---|---|\n'
row "nothing" "$@"
row "writing: \`TENMAP_NO_WRITE\`" -DTENMAP_NO_WRITE "$@"
row "measuring: \`TENMAP_NO_MEASURE\`" -DTENMAP_NO_MEASURE "$@"
row "checking: \`TENMAP_NO_CHECK\`" -DTENMAP_NO_CHECK "$@"
row "vector kernels: \`TENMAP_NO_AVX2\`, \`TENMAP_NO_NEON\`" $no_kernels "$@"
row "everything except reading: the first three" $reader "$@"
row "everything except reading, without vector kernels" $reader $no_kernels "$@"
