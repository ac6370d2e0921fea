#!/bin/sh
# Builds the library and its tests for Windows with mingw-w64 and runs them under wine:
#     scripts/windows-test.sh
# Like cross-test.sh, it uses tests/plain instead of cmocka. tests/windows replaces the little of
# POSIX that the tests use. Exits with 77 and says why if the compiler is missing. If wine is
# missing, it builds everything, runs nothing, and exits with 77 too. WINE names another wine; on
# Windows itself, in the shell of MSYS2, WINE=env runs the programs without one.
set -eu
gcc=x86_64-w64-mingw32-gcc
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
. scripts/sources.sh
sources=$(library_sources)
if ! echo '#include <pthread.h>' | $gcc -x c -fsyntax-only - 2>/dev/null; then
    echo "skipped: $gcc is not installed (apt: gcc-mingw-w64-x86-64-posix)"
    exit 77
fi
wine=${WINE:-$(command -v wine || command -v wine64 || true)}
# The compiler's other programs. On Windows they have no prefix.
nm=x86_64-w64-mingw32-nm windres=x86_64-w64-mingw32-windres
command -v $nm >/dev/null || nm=nm
command -v $windres >/dev/null || windres=windres

out=$root/build/windows
mkdir -p "$out"
work=$(mktemp -d)
# Wine's server keeps running for some seconds after the last program, and writes into its prefix.
clean_up() {
    for second in 1 2 3 4 5 6 7 8 9 10; do
        rm -rf "$work" 2>/dev/null && return
        sleep 1
    done
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
export TMPDIR="$work"
export WINEPREFIX="${WINEPREFIX:-$work/prefix}" WINEDEBUG=-all
# run PROGRAM [ARGUMENT...]: runs for at most five minutes, so that nothing hangs the checks.
run() { timeout 300 "$wine" "$@"; }

warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wvla -Werror"
# src/kernels/kernels.h says why AVX2 needs this assembler option.
avx2="-DTENMAP_AVX2 -Wa,-muse-unaligned-vector-move"
echo 'int x;' | $gcc $avx2 -x c -c - -o "$work/x.o" 2>/dev/null || avx2=

# First builds as a user would: no definitions, and no flags except the one that links winpthreads
# statically.
$gcc -O2 -Iinclude -static -o "$out/show.exe" $sources examples/show.c -lpthread

# The library is compiled once. The tests are compiled without float warnings, because macros in
# this math.h cause them.
rm -f "$out"/*.o
echo "$sources" | xargs -P "$(nproc)" -I FILE sh -c \
    "$gcc -std=c11 -O2 $warnings $avx2 -DTENMAP_TESTING -Iinclude -c FILE -o $out/\$(basename FILE .c).o"
tests="dtype rules shards folder read requests integers take paths names safetensors_quick check convert kernels exact writer edit rename save"
for test in $tests windows; do
    file=tests/windows/test_$test.c
    [ -f "$file" ] || file=$(unit_test "$test")
    $gcc -std=c11 -O2 $warnings -Wno-float-conversion $avx2 -DTENMAP_TESTING -Iinclude -Isrc -Itests/plain \
        -Itests/support -Itests/windows -include tests/windows/posix.h -static -o "$out/test_$test.exe" "$file" \
        tests/support/support.c tests/windows/posix.c "$out"/*.o -lpthread
done

# The DLL and its import library, as CMake builds them.
rm -rf "$out/cmake" "$out/tree"
cmake -S . -B "$out/cmake" -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$gcc \
    -DCMAKE_RC_COMPILER=$windres -DCMAKE_BUILD_TYPE=Release -DTENMAP_TESTS=OFF \
    -DTENMAP_BENCH=OFF -DTENMAP_TOOL=OFF -DTENMAP_STATIC=OFF -DTENMAP_WERROR=ON \
    -DCMAKE_INSTALL_PREFIX="$out/tree" >"$out/cmake.log"
cmake --build "$out/cmake" -j "$(nproc)" >>"$out/cmake.log" 2>&1 || { tail -30 "$out/cmake.log"; exit 1; }
cmake --install "$out/cmake" >>"$out/cmake.log"
$gcc -I"$out/tree/include" -DTENMAP_USE_SHARED tests/install/consumer.c -L"$out/tree/lib" -ltenmap \
    -o "$out/tree/bin/consumer.exe"
$nm "$out/tree/lib/libtenmap.dll.a" | tr -d '\r' | sed -n 's/.* T \(tenmap_.*\)/\1/p' | sort >"$work/names"
diff scripts/symbols.txt "$work/names" || { echo "the DLL exports other names than scripts/symbols.txt"; exit 1; }

echo 'int main(void) { return 0; }' | $gcc -x c - -o "$work/nothing.exe"
if [ -z "$wine" ] || ! run "$work/nothing.exe" >/dev/null 2>&1; then
    echo "skipped: wine does not run here; everything was compiled, nothing was run"
    exit 77
fi

# These tests need what is missing here: symbolic links (wine makes none), modes, blocks shared
# between files, a descriptor limit, and a file that shrinks while it is mapped, which the system
# refuses.
export TENMAP_SKIP=" shards_are_found_beside_the_index_as_its_path_was_given \
the_mode_is_a_plain_creations_or_the_old_files links_are_shared_with_nobody links_are_followed_when_asked \
shared_files_are_left_alone blocks_are_shared_where_the_file_system_can \
a_source_that_shrinks_spoils_the_writer too_few_descriptors_for_the_shards_are_counted \
descriptors_do_not_decide_the_verdict "
for test in $tests windows; do
    echo "windows test_$test:"
    run "$out/test_$test.exe" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    grep -E 'skipped|^SKIPPED|^instruction set|tests passed' "$work/log"
done
run "$out/tree/bin/consumer.exe"
echo "the DLL: ok"
run "$out/cmake/examples/demo.exe" "$out/demo.safetensors" >/dev/null
run "$out/show.exe" "$out/demo.safetensors" | head -1
echo "no flags: ok"
