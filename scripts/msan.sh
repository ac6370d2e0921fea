#!/bin/sh
# Runs the tests under MemorySanitizer: every read of uninitialized memory ends the test.
#     scripts/msan.sh [TEST...]
# MemorySanitizer needs all code instrumented except the C library, so tests/plain replaces cmocka.
# Left out: memory and crash, which replace system functions and so hide their writes from the
# sanitizer; stream, whose memory limit is for the plain program; quantized, which takes minutes and
# runs in scripts/long.sh. Exits with 77 and says why if clang or its runtime is missing.
set -eu
cd "$(dirname "$0")/.."
. scripts/sources.sh
tests=${*:-dtype rules open shards folder inspect open_list open_flags error_messages
             paths read requests integers take names threads job safetensors_quick check convert
             kernels kernel_tables exact dequant_fused load residency writer edit rename save}
cc=${CC:-clang-14}
work=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-msan-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
# This is gcc's macro: with it, tests leave out what a sanitizer's memory use makes impossible.
flags="-std=c11 -D__SANITIZE_ADDRESS__ -O1 -g -fsanitize=memory -fsanitize-memory-track-origins -fno-omit-frame-pointer
       -DTENMAP_TESTING -Iinclude -Isrc -Itests/plain -Itests/support"
if ! echo 'int main(void) { return 0; }' | "$cc" -fsanitize=memory -x c - -o "$work/try" 2>/dev/null; then
    echo "skipped: $cc with MemorySanitizer is not here (Debian: clang-14 libclang-rt-14-dev)"
    exit 77
fi

# Compiles the library once, then each test against it.
sources=$(library_sources)
for file in $sources tests/support/support.c tests/plain/msan.c; do
    echo "$file"
done | xargs -P "$(nproc 2>/dev/null || echo 2)" -I{} sh -c \
    "$cc $(echo $flags) -c {} -o $work/\$(echo {} | tr / _).o"
for test in $tests; do
    wrap=
    for call in fstat stat lstat fstatat fstat64 stat64 lstat64 fstatat64; do
        wrap="$wrap -Wl,--wrap=$call"
    done
    [ "$test" = residency ] && wrap="$wrap -Wl,--wrap=madvise -Wl,--wrap=realloc"
    [ "$test" = job ] && wrap="$wrap -Wl,--wrap=calloc -Wl,--wrap=pthread_create"
    [ "$test" = load ] && wrap="$wrap -Wl,--wrap=pread -Wl,--wrap=pread64"
    more=
    [ "$test" = quantized ] && more=$(ls tests/unit/model/quantized_*.c tests/support/io_files.c)
    "$cc" $flags $wrap -o "$work/test_$test" "$(unit_test "$test")" $more "$work"/*.o -lpthread -lm
    started=$(date +%s)
    "$work/test_$test" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    echo "msan $test: $(tail -n 1 "$work/log"), $(($(date +%s) - started)) s"
done
