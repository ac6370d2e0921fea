#!/bin/sh
# Formats all C files as .clang-format says, or with --check fails where one is not:
#     scripts/format.sh [--check]
# Exits with 77, saying why, where clang-format 14 is missing: other versions format differently.
set -eu
cd "$(dirname "$0")/.."
command -v clang-format-14 >/dev/null || {
    echo "skipped: clang-format-14 is not here (Debian: clang-format-14)"
    exit 77
}
files=$(git ls-files '*.c' '*.h' 2>/dev/null) && [ -n "$files" ] ||
    files=$(find include src tool http tests fuzz bench examples -name '*.[ch]')
case ${1-} in
--check) clang-format-14 --dry-run -Werror $files && echo "$(echo "$files" | wc -l) files are formatted" ;;
*) clang-format-14 -i $files ;;
esac
