#!/bin/sh
# A PyTorch checkpoint of 3 GB with 300 tensors: time to its first tensor with tenmap and with
# torch.load(mmap=True), and `tenmap convert` to SafeTensors beside cp, in the same run. Prints one
# table.
#
#     bench/pytorch.sh [ROUNDS]
#
# The figures are minimums over all rounds; copies and conversions take turns, from a file that is
# in the page cache. TENMAP_TORCH_PYTHON may name a Python that has torch; otherwise torch is fetched
# into build/bench, and skipped with a note if that fails. Exits with 77 if there is no python3,
# which writes the checkpoint. Needs 9 GB of disk, 6 GB more for torch, and 4 GB of memory.
set -eu

rounds=${1:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
case $rounds in
*[!0-9]* | 0*) echo "usage: bench/pytorch.sh [ROUNDS]" >&2 && exit 2 ;;
esac
. "$root/scripts/bench.sh"
tensors=300 bytes=3000000000
[ -z "$smoke" ] || { rounds=1 tensors=3 bytes=120000; }

note() {
    echo "bench/pytorch: $*" >&2
}

command -v python3 >/dev/null || { note "skipped: there is no python3" && exit 77; }

# Sets $torch to a Python with torch; if there is none, prints why and returns 1.
get_torch() {
    torch=${TENMAP_TORCH_PYTHON-}
    [ -z "$torch" ] || return 0
    torch=$build/torch/bin/python
    "$torch" -c 'import torch' 2>/dev/null && return
    note "fetching torch"
    python3 -m venv "$build/torch" >"$folder/log" 2>&1 &&
        "$torch" -m pip install -q torch numpy >"$folder/log" 2>&1 && return
    note "torch skipped: pip could not get it: $(tail -n 1 "$folder/log")"
    return 1
}

note "building"
build_targets bench_pytorch tenmap_tool
bench=$build/bench/bench_pytorch
note "writing the checkpoint"
python3 "$root/bench/peers/pytorch_torch.py" make "$folder/model.bin" "$tensors" "$bytes"
note "time to the first tensor"
"$bench" first "$folder/model.bin" "$((rounds * 10))" >"$folder/lines"
[ -n "$smoke" ] || ! get_torch ||
    "$torch" "$root/bench/peers/pytorch_torch.py" first "$folder/model.bin" "$rounds" >>"$folder/lines"
for round in $(seq "$rounds"); do
    note "copy and convert, round $round of $rounds"
    cat "$folder/model.bin" >/dev/null
    rm -f "$folder/copy.bin" "$folder/model.safetensors"
    "$bench" run cp cp "$folder/model.bin" "$folder/copy.bin" >>"$folder/lines"
    rm -f "$folder/copy.bin"
    "$bench" run convert "$build/tool/tenmap" convert "$folder/model.bin" -o "$folder/model.safetensors" \
        >>"$folder/lines"
done
awk -v bytes="$bytes" -v tensors="$tensors" -f "$root/bench/pytorch_table.awk" "$folder/lines"
