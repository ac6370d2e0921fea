#!/bin/sh
# Compares the Python package with safetensors, on the same files, in the same run. Prints one
# table.
#
#     bench/python.sh [GIGABYTES [ROUNDS]]
#
# Needs torch, numpy, ml_dtypes and safetensors, which are fetched into build/bench-python once
# (torch takes some minutes). PYTHON names a Python that already has them and tenmap. Each row is
# the median of ROUNDS. The two packages take turns, in separate processes if memory is filled for
# the first time.
set -eu
gigabytes=${1:-3}
rounds=${2:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
only=
if [ -n "$smoke" ]; then
    [ -n "${PYTHON-}" ] || { echo "skipped: PYTHON names no Python that has torch, safetensors and tenmap"; exit 77; }
    gigabytes=0 rounds=1 only="open 291"
fi
if [ -z "${PYTHON-}" ]; then
    venv=$root/build/bench-python
    PYTHON=$venv/bin/python
    [ -x "$PYTHON" ] || python3 -m venv "$venv"
    "$PYTHON" -m pip install -q torch numpy ml_dtypes safetensors==0.8.0 "$root" || {
        echo "skipped: torch, numpy and safetensors could not be fetched" >&2
        exit 77
    }
fi
cd "$folder"
"$PYTHON" "$root/bench/python_table.py" "$folder" "$gigabytes" "$rounds" "$only"
