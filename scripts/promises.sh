#!/bin/sh
# Checks that every test named in the table of promises in SECURITY.md exists: `name` is a function
# that a test program or the suite of the Python package runs, `path` is a file of this tree, and
# any other `name` is in the ctest list. Also checks that the table is not empty.
#
#     scripts/promises.sh [SOURCE]
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1

. scripts/sources.sh
tests=$(unit_tests) || exit 1
table=$(sed -n '/^| Promise | Test |$/,/^$/p' SECURITY.md)
named=$(printf '%s\n' "$table" | sed '1,2d' | awk -F'|' 'NF > 3 { print $(NF - 1) }' |
    grep -o '`[^`]*`' | tr -d '`' | sort -u)
count=0 missing=0
for name in $named; do
    count=$((count + 1))
    case $name in
    */*) [ -e "$name" ] && continue ;;
    *)
        grep -qE "cmocka_unit_test[a-z_]*\($name[,)]" $tests tests/hosts/test_*.c http/tests/test_*.c && continue
        grep -qE "^def $name\(" python/tests/test_*.py && continue
        grep -qE "^place_$name\(\)|NAME $name |tenmap_test\($name\)" tests/hosts/run.sh tests/CMakeLists.txt http/tests/CMakeLists.txt &&
            continue
        ;;
    esac
    echo "SECURITY.md names a test that is not there: $name"
    missing=$((missing + 1))
done
rows=$(printf '%s\n' "$table" | sed '1,2d' | grep -c '^|')
bare=$(printf '%s\n' "$table" | sed '1,2d' | grep '^|' | awk -F'|' '$(NF - 1) !~ /`/' )
if [ -n "$bare" ]; then
    echo "promises without a test:"
    printf '%s\n' "$bare"
    missing=$((missing + 1))
fi
[ "$count" -ge 50 ] || { echo "only $count tests are named: is the table there?" && missing=1; }
[ $missing -eq 0 ] || exit 1
echo "$rows promises name $count tests, and all are there"
