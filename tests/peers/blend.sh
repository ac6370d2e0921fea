#!/bin/sh
# Compares `tenmap blend` with mergekit 0.1.5, recipe by recipe:
#     tests/peers/blend.sh TENMAP [RECIPES]
# 70 recipes by default, 700 with TENMAP_LONG. TENMAP_TORCH_VENV names an environment that has torch
# and transformers, as python/tests/check.sh reference leaves it; without it, this script makes one,
# which takes three minutes. Exits with 77 if something cannot be fetched.
set -eu
[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: blend.sh TENMAP [RECIPES]"; exit 64; }
tenmap=$(realpath "$1")
recipes=${2:-$([ -n "${TENMAP_LONG-}" ] && echo 700 || echo 70)}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

# fetched COMMAND...: runs it quietly; if it fails, prints its last line and ends.
fetched() {
    "$@" >"$work/log" 2>&1 && return
    grep -v '^ *$' "$work/log" | tail -n 1
    echo "skipped: torch or mergekit cannot be fetched"
    exit 77
}

venv=${TENMAP_TORCH_VENV-}
if [ -z "$venv" ] || [ ! -x "$venv/bin/python" ]; then
    venv=$work/venv
    fetched python3 -m venv "$venv"
    fetched "$venv/bin/pip" install --quiet torch numpy safetensors transformers peft pydantic
fi
# mergekit pins old versions of what it needs; its code runs with the present ones.
fetched "$venv/bin/python" -m pip install --quiet --no-deps --target "$work/mergekit" \
    mergekit==0.1.5 immutables
PYTHONPATH=$work/mergekit HF_HUB_OFFLINE=1 "$venv/bin/python" "$here/blend_mergekit.py" "$tenmap" "$recipes"
