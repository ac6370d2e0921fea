#!/bin/sh
# Formats all C and C++ files and headers as .clang-format says:
#     scripts/format.sh [--check]
# With --check it changes nothing, and fails if a file is not formatted or a line, including
# comments, is longer than 100 columns (clang-format does not wrap comments here). Exits with 77 and
# says why if clang-format 14 is missing: other versions format differently.
set -eu
cd "$(dirname "$0")/.."
files=$(git ls-files '*.c' '*.h' '*.cpp' '*.hpp' 2>/dev/null) && [ -n "$files" ] ||
    files=$(find . -name .git -prune -o -type f \
        \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.hpp' \) -print)
count=$(printf '%s\n' "$files" | grep -c .) || {
    echo "found no C or C++ files"
    exit 1
}

# Columns are characters: continuation bytes of UTF-8 do not count.
check_columns() {
    LC_ALL=C awk '
        {
            line = $0
            gsub(/[\200-\277]/, "", line)
            if (length(line) > 100) {
                printf "%s:%d: %d columns, at most 100 are allowed\n", FILENAME, FNR, length(line)
                wide++
            }
        }
        END { exit wide > 0 }' $files || return 1
    echo "$count files have at most 100 columns"
}

[ "${1-}" != --check ] || check_columns
command -v clang-format-14 >/dev/null || {
    echo "skipped: clang-format-14 is missing (Debian: clang-format-14)"
    exit 77
}
case ${1-} in
--check) clang-format-14 --dry-run -Werror $files && echo "$count files are formatted" ;;
*) clang-format-14 -i $files ;;
esac
