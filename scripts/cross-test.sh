#!/bin/sh
# Builds the library and its tests for another architecture or C library and runs them:
#     scripts/cross-test.sh aarch64-linux-gnu qemu-aarch64
#     scripts/cross-test.sh s390x-linux-gnu qemu-s390x
#     scripts/cross-test.sh arm-linux-gnueabihf qemu-arm
#     scripts/cross-test.sh i686-linux-gnu env               (32 bits, on the processor itself)
#     scripts/cross-test.sh x86_64-linux-musl env open threads
#     scripts/cross-test.sh --only i686-linux-gnu env shards read
# Links statically, and uses tests/plain instead of cmocka, which Debian does not have for foreign
# targets. The tests listed below do not depend on the kernel, which qemu emulates only in part.
# TESTs named on the command line run as well. With --only, no other tests run, and the shared
# library is not built. Exits with 77 and says why if something is missing.
set -eu
usage='usage: cross-test.sh [--only] TRIPLE RUNNER [TEST...]; --only needs a TEST'
only=
[ "${1-}" != --only ] || { only=yes && shift; }
triple=${1:?$usage}
runner=${2:?$usage}
shift 2
[ -z "$only" ] || [ $# -gt 0 ] || { echo "$usage" >&2 && exit 2; }
gcc=$triple-gcc
if ! echo 'int main(void) { return 0; }' | "$gcc" -x c - -o /dev/null 2>/dev/null; then
    echo "skipped: $gcc is not installed"
    exit 77
fi
if ! command -v "$runner" >/dev/null; then
    echo "skipped: $runner is not installed"
    exit 77
fi

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/cross/$triple
mkdir -p "$out"
cd "$root"
. scripts/sources.sh
sources=$(library_sources)
# Rules, shards, reads, numeric values, files.
[ -n "$only" ] || set -- dtype rules golden pickle zip numpy pytorch pytorch_legacy shards folder \
    inspect open_list open_flags error_messages read requests integers take paths names safetensors_quick check measure convert \
    kernels kernel_tables exact xxh3 quantize writer gguf_writer edit rename save "$@"
for test in "$@"; do
    unit_test "$test" >/dev/null
done
flags="-std=c11 -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wvla -Werror"

# First builds the library as a user would: no flags, no definitions.
[ -n "$only" ] || "$gcc" -O2 -Iinclude -shared -fPIC -o "$out/libtenmap.so" $sources -lpthread

rm -f "$out"/*.o
echo "$sources" | xargs -P "$(nproc)" -I FILE sh -c \
    "$gcc $flags -DTENMAP_TESTING -Iinclude -c FILE -o $out/\$(basename FILE .c).o"
for test in "$@"; do
    "$gcc" $flags -DTENMAP_TESTING -Iinclude -Isrc -Itests/plain -Itests/support -static \
        -o "$out/test_$test" "$(unit_test "$test")" tests/support/support.c "$out"/*.o -lpthread -lm
    echo "$triple test_$test:"
    "$runner" "$out/test_$test"
done
