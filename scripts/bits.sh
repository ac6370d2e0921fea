#!/bin/sh
# Only src/base/dtype.c computes sizes: other files may compare the bits of a dtype, but never
# calculate with them. Block dtypes have no bits of their own (tenmap_dtype_bits is 0), so any
# product or quotient of bits is a wrong size for some tensor.
#
#     scripts/bits.sh [SOURCE]
#
# Files that calculate with bits but not to get the size of a tensor are exempt, each for the reason
# below.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1

reckon() {
    case $1 in
    src/base/dtype.c) ;;              # computes all sizes
    src/values/conversion_route.c) ;; # positions of bits inside packed runs, for kernels
    src/values/convert.c) ;;          # the sign and the range of an integer
    src/model/quantized_fp4.c) ;;     # columns in a row of codes, from its bytes
    src/kernels/*) ;;                 # bits inside elements
    *) return 1 ;;
    esac
}

look() {
    awk '
    BEGIN { bits = "(tmi_dtypes\\[[^]]*\\]\\.bits|tenmap_dtype_bits\\([^()]*\\))" }
    FNR == 1 || /^}/ { delete names }
    {
        code = $0
        gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
        sub(/\/\*.*/, "", code)
        if (code ~ /^ *\*/) next
        bad = code ~ (bits " *([*\/%+]|<<|>>|-[^>])") || code ~ ("([*\/%+-]|<<|>>) *" bits)
        # Variables that hold bits, until the function ends.
        if (match(code, "[a-z_]+ = " bits " *[;,]")) {
            name = substr(code, RSTART, RLENGTH)
            sub(/ = .*/, "", name)
            names[name] = 1
        } else
            for (name in names)
                if (code ~ ("(^|[^a-z_.>])" name " *([*\/%+]|<<|>>|-[^>])") ||
                    code ~ ("([*\/%+-]|<<|>>) *" name "([^a-z_(]|$)"))
                    bad = 1
        if (bad) printf "%s:%d: %s\n", FILENAME, FNR, $0
    }' "$@"
}

# Checks that the pattern itself finds what it is for.
probe=$(mktemp)
trap 'rm -f "$probe"' EXIT
trap 'exit 130' INT TERM HUP
cat >"$probe" <<'END'
    uint64_t a = n * tmi_dtypes[d].bits;
    size_t b = tenmap_dtype_bits(dtype) / 8;
    unsigned width = tmi_dtypes[d].bits;
    return width <= 8 ? 1 : 2;
    return (n * width + 7) / 8;
END
[ "$(look "$probe" | grep -c .)" = 3 ] || { echo "scripts/bits.sh does not see its own probe" && exit 1; }

files=
. scripts/sources.sh
all=$(library_files) || exit 1
for file in $all; do
    reckon "$file" || files="$files $file"
done
[ -n "$files" ] || { echo "no files to look at" && exit 1; }
found=$(look $files)
if [ -n "$found" ]; then
    echo "arithmetic on the bits of a dtype, outside of src/base/dtype.c:"
    printf '%s\n' "$found"
    exit 1
fi
echo "sizes come from src/base/dtype.c alone: $(echo $files | wc -w) files"
