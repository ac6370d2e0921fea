#!/bin/sh
# Builds the library and its tests for another architecture or C library and runs them:
#     scripts/cross-test.sh aarch64-linux-gnu qemu-aarch64
#     scripts/cross-test.sh s390x-linux-gnu qemu-s390x
#     scripts/cross-test.sh arm-linux-gnueabihf qemu-arm
#     scripts/cross-test.sh i686-linux-gnu env               (32 bits, on the processor itself)
#     scripts/cross-test.sh x86_64-linux-musl env open threads
# Static, and without cmocka, which Debian does not have for foreign targets: tests/plain stands in.
# Tests that are named after the program that runs them are run as well: they depend on the kernel
# underneath, which qemu plays only in part. Exits with 77, saying why, where something is missing.
set -eu
triple=${1:?usage: cross-test.sh TRIPLE RUNNER [TEST...]}
runner=${2:?usage: cross-test.sh TRIPLE RUNNER [TEST...]}
shift 2
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
flags="-std=c11 -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wvla -Werror"

# Once as a user would build it: no flags, no definitions.
"$gcc" -O2 -Iinclude -shared -fPIC -o "$out/libtenmap.so" $sources -lpthread

rm -f "$out"/*.o
echo "$sources" | xargs -P "$(nproc)" -I FILE sh -c \
    "$gcc $flags -DTENMAP_TESTING -Iinclude -c FILE -o $out/\$(basename FILE .c).o"
# First what does not depend on the kernel underneath: rules, shards, reads, numbers, files.
for test in dtype rules golden shards folder inspect open_list open_flags error_messages read requests integers take paths \
            names safetensors_quick check measure convert \
            kernels exact writer edit rename save "$@"; do
    "$gcc" $flags -DTENMAP_TESTING -Iinclude -Isrc -Itests/plain -Itests/support -static \
        -o "$out/test_$test" "$(unit_test "$test")" tests/support/support.c "$out"/*.o -lpthread -lm
    echo "$triple test_$test:"
    "$runner" "$out/test_$test"
done
