#!/bin/sh
# Runs one target under AFL++ (Debian: afl++): fuzz/afl.sh TARGET SECONDS. The target is the program
# that replays inputs, built in build/afl by afl-clang-fast with AddressSanitizer and
# UndefinedBehaviorSanitizer. Crashes and hangs make the script fail and are left in
# build/afl/out/TARGET. Exits with 77 and says so if AFL++ is missing.
set -eu
cd "$(dirname "$0")/.."
targets=$(ls fuzz/fuzz_*.c | sed 's|.*/fuzz_||; s|\.c$||')
if [ $# -ne 2 ] || ! echo "$targets" | grep -qx "$1"; then
    echo "usage: fuzz/afl.sh $(echo $targets | tr ' ' '|') SECONDS" >&2
    exit 2
fi
target=$1
seconds=$2
if ! command -v afl-clang-fast >/dev/null || ! command -v afl-fuzz >/dev/null; then
    echo "skipped: there is no AFL++ here (Debian: apt-get install afl++)"
    exit 77
fi
export AFL_QUIET=1 AFL_USE_ASAN=1 AFL_USE_UBSAN=1
CC=afl-clang-fast cmake -S . -B build/afl -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTENMAP_SHARED=OFF \
    -DTENMAP_BENCH=OFF -DTENMAP_EXAMPLES=OFF >/dev/null
cmake --build build/afl --target "replay_$target" >/dev/null
out=build/afl/out/$target
rm -rf "$out"
mkdir -p "$out"
dict=fuzz/$target.dict
[ -f "$dict" ] || dict=fuzz/header.dict
# Containers cannot set where cores go or how the CPU is clocked.
export AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_NO_UI=1 AFL_NO_AFFINITY=1
export ASAN_OPTIONS=abort_on_error=1:symbolize=0:detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1
seeds=$target
[ "$target" != check ] || seeds=header # its inputs are files, as for header
afl-fuzz -i "fuzz/seeds/$seeds" -o "$out" -x "$dict" -m none -t 2000 -V "$seconds" -- \
    "build/afl/fuzz/replay_$target" >"$out/log" 2>&1 || {
    tail -20 "$out/log"
    exit 1
}
grep -E '^(run_time|execs_done|execs_per_sec|corpus_count|saved_crashes|saved_hangs|edges_found)' \
    "$out/default/fuzzer_stats"
found=$(find "$out/default/crashes" "$out/default/hangs" -type f ! -name README.txt | wc -l)
echo "$found crashes and hangs"
[ "$found" -eq 0 ]
