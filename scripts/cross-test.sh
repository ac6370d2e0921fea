#!/bin/sh
# Builds the library and its tests for another architecture and runs them under qemu-user:
#     scripts/cross-test.sh aarch64-linux-gnu qemu-aarch64
#     scripts/cross-test.sh s390x-linux-gnu qemu-s390x
#     scripts/cross-test.sh i686-linux-gnu env    (32 bits, on the processor itself)
# Static, and without cmocka, which Debian does not have for foreign targets: tests/plain stands in.
# Exits with 77, saying why, where the compiler or the emulator is missing.
set -eu
triple=${1:?usage: cross-test.sh TRIPLE QEMU}
qemu=${2:?usage: cross-test.sh TRIPLE QEMU}
gcc=$triple-gcc
if ! echo 'int main(void) { return 0; }' | "$gcc" -x c - -o /dev/null 2>/dev/null; then
    echo "skipped: $gcc is not installed"
    exit 77
fi
if ! command -v "$qemu" >/dev/null; then
    echo "skipped: $qemu is not installed"
    exit 77
fi

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/cross/$triple
mkdir -p "$out"
cd "$root"
flags="-std=c11 -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wvla -Werror"

# Once as a user would build it: no flags, no definitions.
"$gcc" -O2 -Iinclude -shared -fPIC -o "$out/libtenmap.so" src/*.c src/kernels/*.c -lpthread

# What does not depend on the kernel underneath: rules, shards, reads, numbers.
for test in dtype rules shards folder read names canonical convert kernels exact writer edit save \
    check measure; do
    "$gcc" $flags -DTENMAP_TESTING -Iinclude -Isrc -Itests/plain -Itests -static \
        -o "$out/test_$test" "tests/test_$test.c" tests/support.c src/*.c src/kernels/*.c -lpthread -lm
    echo "$triple test_$test:"
    "$qemu" "$out/test_$test"
done
