#!/bin/sh
# Makes tenmap.c and tenmap.h twice, compares the two, compiles them as strictly as the sources, and runs
# the tests that use the public API alone against them:
#     scripts/amalgamation-test.sh [COMPILER...]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- gcc clang-14
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR="$work"

python3 "$root/scripts/amalgamate.py" "$work/one"
(cd / && umask 077 && LC_ALL=C python3 "$root/scripts/amalgamate.py" "$work/two")
cmp "$work/one/tenmap.c" "$work/two/tenmap.c"
cmp "$work/one/tenmap.h" "$work/two/tenmap.h"
wc -lc "$work/one/tenmap.c" "$work/one/tenmap.h"

tests="dtype rules shards folder writer edit save"
for test in $tests; do
    gcc -std=gnu11 -O1 -I"$work/one" -I"$root/tests/plain" -c "$root/tests/test_$test.c" -o "$work/test_$test.o"
done
gcc -std=gnu11 -O1 -I"$work/one" -I"$root/tests/plain" -c "$root/tests/support.c" -o "$work/support.o"
for compiler in "$@"; do
    command -v "$compiler" >/dev/null || { echo "SKIPPED: $compiler is not here"; continue; }
    "$compiler" -O2 -fPIC -Wall -Wextra -Wpedantic -Werror -c "$work/one/tenmap.c" -o "$work/tenmap.o"
    "$compiler" -shared "$work/tenmap.o" -lpthread -o "$work/libtenmap.so"
    nm -D --defined-only "$work/libtenmap.so" | awk '{print $3}' | LC_ALL=C sort | diff "$root/scripts/symbols.txt" -
    for test in $tests; do
        gcc "$work/test_$test.o" "$work/support.o" "$work/tenmap.o" -lpthread -o "$work/test_$test"
        "$work/test_$test" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
        echo "$compiler, one file, test_$test: $(tail -1 "$work/log")"
    done
done
