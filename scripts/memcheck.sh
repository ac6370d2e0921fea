#!/bin/sh
# Runs the tests under valgrind's memcheck: no read or write outside allocated memory, no decision
# based on uninitialized bytes, no leak at the end.
#     scripts/memcheck.sh BUILD [TEST...]
# BUILD is a build folder with the tests (build/test after make test). Valgrind runs a program fifty
# times slower, so these are left out by default: kernels and exact, which the sanitizers run in
# full, and crash, load, job and residency, which are more about the system than about memory. Fails
# if a program runs no test. Exits with 77 and says why if valgrind is missing.
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
trap 'exit 130' INT TERM HUP
TENMAP_DOCS=$(cd "$(dirname "$0")/../docs" && pwd)
export TENMAP_DOCS TENMAP_MEMCHECK=1 # tests leave out what cannot work under valgrind
for test in $tests; do
    started=$(date +%s)
    valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
        --track-fds=no "$build/tests/test_$test" >"$log" 2>&1 || { cat "$log"; exit 1; }
    count=$(grep -c '^\[       OK' "$log" || :)
    [ "$count" -gt 0 ] || { cat "$log"; echo "memcheck $test: no test ran"; exit 1; }
    echo "memcheck $test: $count tests, $(($(date +%s) - started)) s"
done
