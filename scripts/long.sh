#!/usr/bin/env bash
# The checks that take hours, from the shortest to the longest: for a release, or for a night.
#     scripts/long.sh [HOURS OF FUZZING]        1
# A failing check does not stop the others. A check that cannot run here is counted as skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
fuzz_seconds=$((${1:-1} * 3600))
jobs=$(nproc 2>/dev/null || echo 2)
build=build/long
failed=0 skipped=0
results=()

check() { # check NAME COMMAND...
    local name=$1 begun=$SECONDS status=0 verdict
    shift
    printf '\n=== %s\n' "$name"
    ("$@") || status=$?
    case $status in
    0) verdict=passed ;;
    77) verdict=SKIPPED skipped=$((skipped + 1)) ;;
    *) verdict=FAILED failed=$((failed + 1)) ;;
    esac
    results+=("$(printf '%-8s %6d s  %s' "$verdict" $((SECONDS - begun)) "$name")")
    echo "${results[-1]}"
}

build_tests() {
    cmake -S . -B $build -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null &&
        cmake --build $build -j "$jobs" >/dev/null
}

# sanitized SANITIZER TEST [ARGUMENT...]: runs one test in a build of its own.
sanitized() {
    local folder=build/long-$1 test=$2
    cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g" -DTENMAP_SHARED=OFF \
        -DTENMAP_SANITIZE="$1" >/dev/null && cmake --build "$folder" -j "$jobs" --target "$test" >/dev/null || return 1
    shift 2
    "$folder/tests/$test" "$@"
}

# All scripts of the tool, of which CI runs a part in this way.
sanitized_cli() {
    local folder=build/long-$1
    cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g" -DTENMAP_SHARED=OFF \
        -DTENMAP_SANITIZE="$1" >/dev/null && cmake --build "$folder" -j "$jobs" \
        --target tenmap_tool cli_fixtures cli_quantized cli_published on_terminal >/dev/null &&
        sh tests/cli/run.sh "$folder/tool/tenmap" "$folder/tests/cli_fixtures"
}

# 1,000 random schedules of server faults; none may result in a wrong byte.
http_faults() {
    local folder=build/long-$1
    cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g" -DTENMAP_SHARED=OFF \
        -DTENMAP_SANITIZE="$1" >/dev/null || return 1
    [ -f "$folder/http/tests/Makefile" ] || { echo "skipped: OpenSSL is not here"; return 77; }
    cmake --build "$folder" -j "$jobs" --target test_http_faults >/dev/null &&
        python3 http/tests/server.py "$folder/http/tests/test_http_faults" 1000
}

# A file that may be replaced at any request: no read may mix bytes of two versions.
http_versions() {
    [ -f $build/http/tests/http_versions ] || { echo "skipped: OpenSSL or Python is not here"; return 77; }
    python3 http/tests/versions.py $build/http/tests/http_versions 10000
}

# An S3 server that verifies signatures: building it needs Go and takes some minutes.
s3_server() {
    command -v go >/dev/null || { echo "skipped: go is not here"; return 77; }
    local gobin=$PWD/$build/go
    [ -x "$gobin/versitygw" ] || GOBIN=$gobin go install github.com/versity/versitygw/cmd/versitygw@latest || {
        echo "skipped: versitygw could not be fetched"
        return 77
    }
    TENMAP_VERSITYGW=$gobin/versitygw python3 http/tests/s3.py $build/tool/tenmap
}

gguf_package() {
    sh scripts/peers.sh build/peers || return
    local python=build/peers/python/bin/python
    [ -x $python ] || python=python3
    $python tests/peers/gguf_package.py $build/libtenmap.so 100000
}

# All random loads and faults of tenmap_mpi, then a sample of each with AddressSanitizer and
# valgrind.
many_hosts() {
    local library=build/long-mpi/libtenmap.a
    sh mpi/tests/run.sh $build/libtenmap.a long || return
    cmake -S . -B build/long-mpi -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTENMAP_SHARED=OFF \
        -DTENMAP_SANITIZE=address,undefined >/dev/null &&
        cmake --build build/long-mpi -j "$jobs" --target tenmap_static >/dev/null || return
    LSAN_OPTIONS=suppressions=$PWD/mpi/tests/lsan.txt MPI_TEST_FLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all" \
        sh mpi/tests/run.sh $library sample || return
    MPI_TEST_PREFIX="valgrind -q --error-exitcode=9 --suppressions=$PWD/mpi/tests/valgrind.txt" \
        sh mpi/tests/run.sh $build/libtenmap.a sample
}

# Runs every target for its share of the time, one after the other.
fuzz_all() {
    command -v clang-14 >/dev/null || { echo "skipped: clang-14 is not here"; return 77; }
    local targets target share
    targets=$(cd fuzz && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')
    share=$((fuzz_seconds / $(echo "$targets" | wc -l)))
    for target in $targets; do
        echo "$target, $share s"
        sh fuzz/run.sh "$target" "$share" >$build/fuzz.log 2>&1 || { tail -40 $build/fuzz.log; return 1; }
        grep -E 'stat::(number_of_executed_units|average_exec_per_sec)' $build/fuzz.log
    done
}

check "everything that make check runs" bash .ci/run --all
check "build" build_tests
check "cppcheck" sh scripts/analyze.sh cppcheck
check "valgrind memcheck" sh scripts/memcheck.sh $build
check "crash: 5,000 kills of each change" env TENMAP_KILLS=5000 $build/tests/test_crash
check "every script of the tool, AddressSanitizer" sanitized_cli address,undefined
check "crash, AddressSanitizer" sanitized address,undefined test_crash
check "detach: 1,000 runs beside readers, ThreadSanitizer" sanitized thread test_detach 1000
check "S3: signatures, by versitygw" s3_server
check "10,000 schedules of files that change on the server" http_versions
check "1,000 schedules of network faults, AddressSanitizer" http_faults address,undefined
check "1,000 schedules of network faults, ThreadSanitizer" http_faults thread
check "100,000 opens that race edits in place" $build/tests/race_edit 100000 4800
check "300,000 random calls, AddressSanitizer" sanitized address,undefined random_calls 300000
check "100,000 random calls, ThreadSanitizer" sanitized thread random_calls 100000
check "10,000,000 mutated PyTorch checkpoints, AddressSanitizer" \
    sanitized address,undefined random_pytorch 10000000
check "1,000,000 mutated NumPy files, AddressSanitizer" \
    sanitized address,undefined random_numpy 1000000
check "MPI: 200 schedules of faults, every allocation; sanitizers, valgrind" many_hosts
check "Python: 400,000 random calls by hostile callers, AddressSanitizer" bash python/tests/check.sh hostile 400000
check "Python: the suite and 8 threads at once, without the GIL" bash python/tests/check.sh free-threaded
check "Python: the reference's own suite, with tensorflow and paddle too" \
    env TENMAP_LONG=1 bash python/tests/check.sh reference
release_files() {
    sh scripts/dist.sh && sh scripts/dist-test.sh --long
}
check "release: every file, in clean rooms" release_files
check "planted faults: every checker finds what it is for" sh scripts/planted-faults.sh --all
check "linear time and memory, at the limits" sh scripts/linear.sh
check "valgrind memcheck, the slow tests" sh scripts/memcheck.sh $build load residency
check "quantized weights, with gptqmodel and AutoAWQ" env TENMAP_LONG=1 sh tests/peers/quantized.sh \
    $build/libtenmap.so $build/tool/tenmap $build/tests/cli_quantized
check "PyTorch checkpoints: three versions of torch, a million mutated pickles" \
    env TENMAP_LONG=1 sh tests/peers/pytorch.sh $build/libtenmap.so $build/tool/tenmap
check "blends, with mergekit" env TENMAP_LONG=1 sh tests/peers/blend.sh $build/tool/tenmap
check "fit: the buffers that llama.cpp allocates" sh tests/peers/fit_llama.sh $build/tool/tenmap build/peers/llama_cpp
check "MemorySanitizer, quantized weights" sh scripts/msan.sh quantized
check "all 2^32 F32 inputs" ctest --test-dir $build -C Long -L long --output-on-failure
if [ -f tests/peers/differential.sh ]; then
    check "differential: the reference, 1,000,000 cases" sh tests/peers/differential.sh 1000000
fi
check "differential: the gguf package, 100,000 cases" gguf_package
check "fuzzing, $fuzz_seconds s in all" fuzz_all

printf '\n=== summary: %d checks, %d failed, %d skipped\n' ${#results[@]} $failed $skipped
printf '%s\n' "${results[@]}"
exit $((failed > 0))
