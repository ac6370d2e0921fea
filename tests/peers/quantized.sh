#!/bin/sh
# Compares quantized weights with the PyPI libraries that write them, and runs tiny models through
# the tool:
#     tests/peers/quantized.sh LIBTENMAP.so TENMAP CLI_QUANTIZED
# TENMAP_TORCH_VENV names an environment that already has torch, as python/tests/check.sh reference
# leaves it. Without one, it is made here, and torch alone takes three minutes. With TENMAP_LONG,
# gptqmodel and AutoAWQ quantize too. Reports what cannot be fetched; exits with 77 if torch cannot
# be.
set -eu
[ $# -eq 3 ] || { echo "usage: quantized.sh LIBTENMAP.so TENMAP CLI_QUANTIZED"; exit 64; }
library=$(realpath "$1") tenmap=$(realpath "$2") models=$(realpath "$3")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

venv=${TENMAP_TORCH_VENV:-}
if [ -z "$venv" ] || ! "$venv/bin/python" -c 'import torch, safetensors' 2>/dev/null; then
    venv=$work/venv
    if ! { python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q torch numpy safetensors; } >"$work/log" 2>&1; then
        tail -2 "$work/log"
        echo "skipped: torch and safetensors could not be fetched"
        exit 77
    fi
fi
for package in setuptools transformers accelerate compressed-tensors bitsandbytes 'mlx[cpu]' torchao; do
    "$venv/bin/python" -m pip install -q "$package" >"$work/log" 2>&1 || echo "skipped: $package could not be fetched"
done
# The files with the formulas are read from the source packages, which need not be installed for
# that.
for package in gptqmodel autoawq; do
    BUILD_CUDA_EXT=0 "$venv/bin/python" -m pip download -q --no-deps --no-build-isolation -d "$work/sources" "$package" \
        >"$work/log" 2>&1 || echo "skipped: the sources of $package could not be fetched"
done
for archive in "$work"/sources/*.tar.gz; do
    [ ! -f "$archive" ] || tar -xf "$archive" -C "$work/sources"
done

# layered NAME REQUIREMENT...: makes a separate environment, on top of the one that has torch, for a
# library whose dependencies conflict with those of the others.
layered() {
    folder=$work/$1
    shift
    { python3 -m venv --without-pip "$folder" &&
        "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
            >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth" &&
        BUILD_CUDA_EXT=0 timeout 300 "$folder/bin/python" -m pip install -q --no-build-isolation "$@"; } >"$work/log" 2>&1
}
if [ -z "${TENMAP_LONG-}" ]; then # takes four minutes more
    echo "skipped: gptqmodel and AutoAWQ quantize their Llamas in make long"
elif layered gptqmodel gptqmodel; then
    export TENMAP_GPTQMODEL_PYTHON="$work/gptqmodel/bin/python"
else
    tail -2 "$work/log"
    echo "skipped: gptqmodel could not be installed"
fi
# AutoAWQ is no longer maintained; this is the last transformers that it was tested with.
if [ -z "${TENMAP_LONG-}" ]; then
    :
elif layered autoawq autoawq transformers==4.51.3; then
    export TENMAP_AUTOAWQ_PYTHON="$work/autoawq/bin/python"
else
    tail -2 "$work/log"
    echo "skipped: autoawq could not be installed"
fi

"$venv/bin/python" "$here/quantized.py" "$library" "$work/sources"
for peer in "quantized_models.py $tenmap" "quantize_out.py $tenmap $models"; do
    status=0
    "$venv/bin/python" "$here"/$peer || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || exit "$status"
done
