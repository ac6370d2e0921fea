#!/bin/sh
# Builds the library without each of its optional parts, and without all of them, with the bare
# compiler and with CMake, and runs the tests of the remaining parts:
#     scripts/switches-test.sh
# In each build, the library exports exactly the names that the header declares.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
. scripts/sources.sh
sources=$(library_sources)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export TMPDIR="$work"
cc=${CC:-cc}
flags="-std=gnu11 -O1 -fPIC -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror -fvisibility=hidden"

# Prints the functions that the header declares under these definitions.
declared() {
    $cc "$@" -E -P -DTENMAP_API=PUBLIC include/tenmap.h | tr '\n' ' ' | sed 's/PUBLIC/\n&/g' |
        sed -n 's/^PUBLIC[^(]*[ *]\(tenmap_[a-z0-9_]*\)(.*/\1/p' | LC_ALL=C sort
}

# try NAME TESTS [DEFINITION...]
try() {
    name=$1 tests=$2
    shift 2
    mkdir "$work/$name"
    echo "$sources" | xargs -P "$(nproc)" -I FILE sh -c \
        "$cc $flags $* -Iinclude -c FILE -o $work/$name/\$(echo FILE | tr / _).o"
    $cc -shared "$work/$name"/*.o -lpthread -o "$work/$name.so"
    nm -D --defined-only "$work/$name.so" | awk '{ print $3 }' | LC_ALL=C sort >"$work/exported"
    declared "$@" >"$work/declared"
    diff "$work/declared" "$work/exported" || { echo "$name: declared (<) and exported (>) names differ"; exit 1; }
    for test in $tests; do
        $cc -std=gnu11 -O1 "$@" -Iinclude -Isrc -Itests/plain -Itests/support "$(unit_test "$test")" tests/support/support.c \
            "$work/$name"/*.o -lpthread -lm -o "$work/test"
        "$work/test" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
        echo "$name: $(wc -l <"$work/exported") functions, test_$test: $(tail -1 "$work/log")"
    done
    rm -r "$work/$name"
}

reader="dtype rules shards folder read safetensors_quick names"
try no-write "$reader check" -DTENMAP_NO_WRITE
try no-measure "read check writer edit rename save" -DTENMAP_NO_MEASURE
try no-check "$reader writer edit rename save" -DTENMAP_NO_CHECK
try reader "$reader" -DTENMAP_NO_WRITE -DTENMAP_NO_MEASURE -DTENMAP_NO_CHECK -DTENMAP_NO_AVX2 -DTENMAP_NO_NEON
try no-kernels "read convert kernel_tables" -DTENMAP_TESTING -DTENMAP_NO_AVX2 -DTENMAP_NO_NEON

# CMake's options of the same names reach programs that use the library, through find_package and
# pkg-config.
cmake -S . -B "$work/build" -DCMAKE_INSTALL_PREFIX="$work/tree" -DTENMAP_NO_WRITE=ON -DTENMAP_NO_CHECK=ON \
    -DTENMAP_NO_MEASURE=ON -DTENMAP_NO_AVX2=ON -DTENMAP_SHARED=OFF -DCMAKE_C_FLAGS=-O1 >/dev/null
cmake --build "$work/build" -j "$(nproc)" >/dev/null
cmake --install "$work/build" >/dev/null
cmake -S tests/install -B "$work/find" -DCMAKE_PREFIX_PATH="$work/tree" >/dev/null
cmake --build "$work/find" --verbose >"$work/log"
grep -q 'TENMAP_NO_WRITE.*consumer\.c' "$work/log" || { echo "the definitions do not arrive"; exit 1; }
"$work/find/consumer"
pc=$(dirname "$(find "$work/tree" -name tenmap.pc)")
PKG_CONFIG_PATH=$pc pkg-config --cflags tenmap | grep -e '-DTENMAP_NO_WRITE -DTENMAP_NO_MEASURE -DTENMAP_NO_CHECK'
if cmake -S . -B "$work/tool" -DTENMAP_NO_WRITE=ON -DTENMAP_TOOL=ON >"$work/log" 2>&1; then
    echo "the tool was configured without the parts that it uses"
    exit 1
fi
grep "wants the whole library" "$work/log"
