#!/bin/sh
# Compares `tenmap lora` with peft and diffusers on tiny random models:
#     tests/peers/lora.sh TENMAP
# TENMAP_TORCH_VENV names an environment that already has torch; peft, transformers and diffusers are
# added to it if they are missing. Exits with 77 and says why if they are not available.
set -eu
[ $# -eq 1 ] || { echo "usage: lora.sh TENMAP"; exit 64; }
tenmap=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

venv=${TENMAP_TORCH_VENV:-}
if [ -z "$venv" ] || ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    venv=$work/venv
    if ! { python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q torch numpy; } >"$work/log" 2>&1; then
        tail -2 "$work/log"
        echo "skipped: torch could not be fetched"
        exit 77
    fi
fi
for package in safetensors transformers peft; do
    "$venv/bin/python" -c "import $package" 2>/dev/null ||
        "$venv/bin/python" -m pip install -q "$package" >"$work/log" 2>&1 ||
        { echo "skipped: $package could not be fetched" && exit 77; }
done
"$venv/bin/python" -c 'import diffusers' 2>/dev/null ||
    "$venv/bin/python" -m pip install -q diffusers >"$work/log" 2>&1 || echo "skipped: diffusers could not be fetched"
mkdir "$work/models"
HF_HUB_OFFLINE=1 "$venv/bin/python" "$here/lora_peft.py" "$tenmap" "$work/models"
