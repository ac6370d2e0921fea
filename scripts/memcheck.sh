#!/bin/sh
# The tests under valgrind's memcheck: no read or write outside what was allocated, no decision on
# bytes that nothing wrote, nothing lost at the end.
#     scripts/memcheck.sh BUILD [TEST...]
# BUILD is a build folder with the tests (build/test after make test). Left out by default, because
# valgrind runs a program fifty times slower: kernels and exact, which the sanitizers run in full, and
# crash, load, job and residency, which are about the system more than about memory.
# Fails if a program runs no test. Exits with 77, saying why, without valgrind.
set -eu
build=${1:?usage: memcheck.sh BUILD [TEST...]}
shift
tests=${*:-dtype rules open shards folder inspect open_list open_flags error_messages
             read requests integers take memory names threads safetensors_quick check convert writer edit rename save
             api_table}
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is not here"
    exit 77
fi
log=$(mktemp "${TMPDIR:-/tmp}/tenmap-memcheck-XXXXXX")
trap 'rm -f "$log"' EXIT
TENMAP_DOCS=$(cd "$(dirname "$0")/../docs" && pwd)
export TENMAP_DOCS TENMAP_MEMCHECK=1 # tests leave out what valgrind makes impossible
for test in $tests; do
    started=$(date +%s)
    valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
        --track-fds=no "$build/tests/test_$test" >"$log" 2>&1 || { cat "$log"; exit 1; }
    count=$(grep -c '^\[       OK' "$log" || :)
    [ "$count" -gt 0 ] || { cat "$log"; echo "memcheck $test: no test ran"; exit 1; }
    echo "memcheck $test: $count tests, $(($(date +%s) - started)) s"
done
