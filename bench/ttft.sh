#!/bin/sh
# From opening a model to its last weight used, and bulk loads: tenmap beside the same work by hand
# and beside the Python package, on one BF16 model of 3 GB, in the same run. Prints one table.
#
#     bench/ttft.sh [ROUNDS]
#
# The figures are the least of all rounds. What cannot run here is skipped with a note. Everything is
# built in build/bench; the model is written to TMPDIR (or /tmp) and gone afterwards. Needs 3.1 GB of
# disk and 12 GB of memory.
set -eu

rounds=${1:-7}
tensors=90
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench
case $rounds in
*[!0-9]*) echo "usage: bench/ttft.sh [ROUNDS]" >&2 && exit 2 ;;
esac

mkdir -p "$build"
folder=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

note() {
    echo "bench/ttft: $*" >&2
}

build_tenmap() {
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTENMAP_TESTS=OFF \
        -DTENMAP_EXAMPLES=OFF -DTENMAP_SHARED=OFF >"$folder/log" 2>&1 &&
        cmake --build "$build" --target bench_ttft bench_load >>"$folder/log" 2>&1 && return
    cat "$folder/log" >&2
    exit 1
}

# Says why the peer is left out, and then returns 1.
build_python() {
    [ -x "$build/venv/bin/python" ] || python3 -m venv "$build/venv" >"$folder/log" 2>&1 || {
        rm -rf "$build/venv"
        note "python skipped: python3 could not make a virtual environment"
        return 1
    }
    "$build/venv/bin/python" -c 'import safetensors, numpy' 2>/dev/null ||
        "$build/venv/bin/python" -m pip install -q safetensors numpy >"$folder/log" 2>&1 || {
        note "python skipped: pip could not get safetensors: $(tail -n 1 "$folder/log")"
        return 1
    }
    "$build/venv/bin/python" -c 'import torch' 2>/dev/null ||
        note "python without torch: NumPy has no BF16, so its model says U16 (same bytes)"
}

note "building"
build_tenmap
python=no
build_python && python=yes

note "writing the model"
model=$folder/model.safetensors
"$build/bench/bench_load" make "$model" "$tensors" BF16
note "open to last weight used, $rounds rounds"
"$build/bench/bench_ttft" "$model" "$rounds" >"$folder/lines"
note "loads"
"$build/bench/bench_load" run "$model" "$rounds" >>"$folder/lines"
if [ "$python" = yes ]; then
    note "python"
    "$build/venv/bin/python" -c 'import torch' 2>/dev/null ||
        "$build/bench/bench_load" make "$model" "$tensors" U16
    cat "$model" >/dev/null
    "$build/venv/bin/python" "$root/bench/peers/load_python.py" "$model" 3 >>"$folder/lines" ||
        note "python skipped: it could not load the model"
fi

awk -f "$root/bench/ttft_table.awk" "$folder/lines"
