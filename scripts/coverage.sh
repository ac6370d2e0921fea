#!/bin/sh
# Builds everything with clang, with warnings as errors, runs the tests, and shows with llvm-cov
# which lines of the library the tests and the replayed fuzzing inputs reach:
#
#     scripts/coverage.sh [LEAST]
#
# Prints one line per file of src/, and every line of the readers that is not reached (all of
# src/format, and the shards and split sets of src/model). Fails if less than LEAST percent (95) of
# a reader's lines are reached. Exits with 77 and says so if clang or its tools are missing. CLANG
# names the compiler (clang-14); TENMAP_FUZZ_CORPUS names a folder with more inputs, as fuzz/run.sh
# keeps them.
set -eu
cd "$(dirname "$0")/.."
least=${1:-95}
clang=${CLANG:-clang-14}
version=${clang#clang}
for tool in "$clang" "llvm-profdata$version" "llvm-cov$version"; do
    command -v "$tool" >/dev/null || { echo "skipped: there is no $tool" && exit 77; }
done
build=build/coverage
# Little optimization keeps lines as they are in the source, but conversions are slow at -O0: -O1.
flags="-O1 -g -fprofile-instr-generate -fcoverage-mapping"
cmake -S . -B $build -DCMAKE_C_COMPILER="$clang" -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS_DEBUG="$flags" -DTENMAP_WERROR=ON -DTENMAP_SHARED=OFF \
    -DTENMAP_FAST_MATH_TESTS=OFF >/dev/null
cmake --build $build -j "$(nproc)" >$build/log 2>&1 || { tail -30 $build/log && exit 1; }
rm -rf $build/profiles
mkdir -p $build/profiles
export LLVM_PROFILE_FILE=$PWD/$build/profiles/%p-%m.profraw
# Killed processes, unusual file systems and the network do not reach more of the readers, and the
# tool is the same with every compiler. Instrumented libraries export and import clang's own names.
left_out='^(cli|crash|hosts_.*|http_.*|symbols|imports|planted_faults)$'
sh scripts/run-tests.sh "$build" -E "$left_out" >$build/log 2>&1 || {
    tail -30 $build/log
    exit 1
}
if [ -n "${TENMAP_FUZZ_CORPUS:-}" ]; then
    for corpus in "$TENMAP_FUZZ_CORPUS"/*; do
        $build/fuzz/replay_"${corpus##*/}" "$corpus" >/dev/null
    done
fi
"llvm-profdata$version" merge -sparse $build/profiles/*.profraw -o $build/all.profdata
rm -rf $build/profiles
programs=
for program in $build/tests/test_* $build/fuzz/replay_*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    case $program in *test_convert* | *test_kernels* | *test_exact*) continue ;; esac
    programs="$programs ${programs:+-object} $program"
done
# shellcheck disable=SC2086
"llvm-cov$version" export -summary-only $programs -instr-profile=$build/all.profdata src include \
    >$build/summary.json
# shellcheck disable=SC2086
"llvm-cov$version" show $programs -instr-profile=$build/all.profdata src >$build/lines.txt
python3 scripts/coverage_table.py $build/summary.json $build/lines.txt "$least"
