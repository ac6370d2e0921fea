#!/bin/sh
# Measures the time from opening a model to using its last weight, and bulk loads: tenmap beside the
# same work by hand and beside the Python package, on one BF16 model of 3 GB, in the same run. Then
# the first token of a language model of 3 GB, from the start of the process: examples/llama beside
# transformers on torch and llama-cpp-python. Prints one table for each.
#
#     bench/ttft.sh [ROUNDS [engines]]
#
# `engines` leaves out the first table. The figures are minimums over all rounds. What cannot run
# here is skipped with a note. TENMAP_TORCH_PYTHON may name a Python that already has torch and
# transformers, and llama-cpp-python, which otherwise is built from its sources in at most
# TENMAP_LLAMA_CPP_SECONDS (1200). Everything is built in build/bench. The models are written to
# TMPDIR (or /tmp) and removed afterwards. Needs 6.5 GB of disk, 6 GB more for torch, and 12 GB of
# memory.
set -eu

rounds=${1:-7}
tensors=90
only=${2-}
root=$(cd "$(dirname "$0")/.." && pwd)
usage() {
    echo "usage: bench/ttft.sh [ROUNDS [engines]]" >&2
    exit 2
}
case $rounds in
*[!0-9]*) usage ;;
esac
[ -z "$only" ] || [ "$only" = engines ] || usage

. "$root/scripts/bench.sh"
# Layers, hidden size, size inside the MLP, heads, key-value heads, vocabulary.
shape="28 1536 8960 12 2 151936"
[ -z "$smoke" ] || { rounds=1 tensors=1 shape="1 64 128 2 2 256"; }

note() {
    echo "bench/ttft: $*" >&2
}

# If the peer is left out, prints why and returns 1.
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

weights_alone() {
    python=no
    [ -n "$smoke" ] || ! build_python || python=yes
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
    rm "$model"
}

# Sets $torch to a Python with torch and transformers; if there is none, prints why and returns 1.
get_torch() {
    torch=${TENMAP_TORCH_PYTHON-}
    [ -z "$torch" ] || return 0
    torch=$build/torch/bin/python
    "$torch" -c 'import torch, transformers' 2>/dev/null && return
    note "fetching torch and transformers"
    python3 -m venv "$build/torch" >"$folder/log" 2>&1 &&
        "$torch" -m pip install -q torch transformers >"$folder/log" 2>&1 && return
    note "transformers skipped: pip could not get it: $(tail -n 1 "$folder/log")"
    return 1
}

# Does the same for llama-cpp-python, in $cpp, and writes the model as GGUF.
get_llama_cpp() {
    cpp=${TENMAP_TORCH_PYTHON:-$build/cpp/bin/python}
    [ -x "$cpp" ] || python3 -m venv "$build/cpp" >"$folder/log" 2>&1 || return 1
    if ! "$cpp" -c 'import llama_cpp, gguf' 2>/dev/null; then
        note "building llama-cpp-python from its sources"
        timeout "${TENMAP_LLAMA_CPP_SECONDS:-1200}" "$cpp" -m pip install -q gguf \
            --no-binary llama-cpp-python llama-cpp-python >"$folder/log" 2>&1 || {
            note "llama-cpp-python skipped: not built, or not in time: $(tail -n 1 "$folder/log")"
            return 1
        }
    fi
    "$cpp" "$root/bench/peers/llama_gguf.py" "$folder/hub" "$folder/model.gguf" >"$folder/log" 2>&1 && return
    note "llama-cpp-python skipped: the model could not be written: $(tail -n 1 "$folder/log")"
    return 1
}

# least NAME ROUNDS COMMAND...: runs it ROUNDS times. It prints milliseconds to the first token,
# those of the second, and the ids. Keeps the minimum of both, and the ids, as "NAME FIRST SECOND ID
# ID".
least() {
    name=$1 times=$2
    shift 2
    for round in $(seq "$times"); do
        "$@" || return 1
    done | awk -v name="$name" 'NR == 1 || $1 < first { first = $1 } NR == 1 || $2 < second { second = $2 }
        { a = $3; b = $4 } END { if (!NR) exit 1; print name, first, second, a, b }' >>"$folder/engines"
}

llama() {
    "$build/examples/llama" "$folder/hub" --ids 1 -n 2 --threads "$1" --time 2>"$folder/time" >"$folder/ids" &&
        awk '/^first/ { first = $3 } /^then/ { second = 1000 / $2 } END { printf "%s %.1f ", first, second }' \
            "$folder/time" && cat "$folder/ids"
}

peer() {
    name=$1
    shift
    note "$name"
    least "$name" "$@" 2>"$folder/log" || note "$name skipped: $(tail -n 1 "$folder/log")"
}

engines() {
    note "writing the language model"
    mkdir "$folder/hub"
    "$build/examples/random" "$folder/hub" $shape
    # Rereads the file so that the page cache holds it in large pieces, as after a download and a
    # restart.
    dd of="$folder/hub/model.safetensors" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null || sync
    cat "$folder/hub/model.safetensors" >/dev/null
    note "examples/llama, $rounds rounds"
    least llama-2 "$rounds" llama 2
    least llama-1 "$rounds" llama 1
    if [ -z "$smoke" ] && get_torch; then
        peer transformers-bf16 2 "$torch" "$root/bench/peers/llama_transformers.py" "$folder/hub" 2 bfloat16
        peer transformers-f32 2 "$torch" "$root/bench/peers/llama_transformers.py" "$folder/hub" 2 float32
    fi
    if [ -z "$smoke" ] && get_llama_cpp; then
        dd of="$folder/model.gguf" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null || sync
        cat "$folder/model.gguf" >/dev/null
        peer llama-cpp-python 3 "$cpp" "$root/bench/peers/llama_cpp_python.py" "$folder/model.gguf" 2
    fi
    awk -f "$root/bench/engines_table.awk" "$folder/engines"
}

note "building"
build_targets bench_ttft bench_load example_llama example_random
[ -n "$only" ] || weights_alone
engines
