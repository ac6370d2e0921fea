#!/bin/sh
# Compares `tenmap layout` with transformers 5 on torch, with tiny random models of each architecture
# that the tool knows:
#     tests/peers/layout.sh TENMAP
# TENMAP_TORCH_VENV names an environment that already has both. Exits with 77 and says why if they
# are not available.
set -eu
[ $# -eq 1 ] || { echo "usage: layout.sh TENMAP"; exit 64; }
tenmap=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

python=${TENMAP_TORCH_VENV-}/bin/python
if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q torch transformers; } >"$work/log" 2>&1; then
        tail -2 "$work/log"
        echo "skipped: torch and transformers could not be fetched"
        exit 77
    fi
    python=$work/venv/bin/python
fi
mkdir "$work/models"
HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 "$python" "$here/layout_transformers.py" "$tenmap" "$work/models"
