#!/bin/sh
# Compares PyTorch checkpoints with torch, and opens malicious ones:
#     tests/peers/pytorch.sh LIBTENMAP.so TENMAP [CHECKPOINTS [MUTATIONS]]
# 150 checkpoints and 20,000 mutations by default, which takes about a minute. With TENMAP_LONG, it
# makes 500 of each of three versions of torch: the newest, the 1.13 of Debian's package, unpacked
# and not installed, and the oldest that pip has for this Python. TENMAP_TORCH_VENV names an
# environment that already has torch, as python/tests/check.sh reference leaves it. Without it, this
# script makes one, which takes three minutes. Reports what cannot be fetched; exits with 77 if that
# is torch or one of the packages from which the malicious files are made.
set -eu
[ $# -ge 2 ] && [ $# -le 4 ] || { echo "usage: pytorch.sh LIBTENMAP.so TENMAP [CHECKPOINTS [MUTATIONS]]"; exit 64; }
library=$(realpath "$1") tenmap=$(realpath "$2")
checkpoints=${3:-150} mutations=${4:-20000}
[ -z "${TENMAP_LONG-}" ] || [ $# -gt 2 ] || { checkpoints=500 && mutations=1000000; }
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
status=0 skipped=

# part COMMAND...: runs it; the others run even if it fails.
part() {
    code=0
    "$@" || code=$?
    case $code in
    0) ;;
    77) skipped=yes ;;
    *) status=1 ;;
    esac
}

# fetched COMMAND...: runs it quietly; if it fails, prints its last line.
fetched() {
    "$@" >"$work/log" 2>&1 && return
    grep -v '^ *$' "$work/log" | tail -n 1
    return 1
}

echo "== zip archives"
part python3 "$here/pytorch_zips.py" "$library"

echo "== malicious checkpoints"
scanners() {
    python3 -m venv "$work/scanners" &&
        "$work/scanners/bin/python" -m pip install -q picklescan fickling typing_extensions
}
# The source package of picklescan has its tests, which name more globals.
sources() {
    "$work/scanners/bin/python" -m pip download -q --no-deps --no-binary picklescan \
        -d "$work/sources" picklescan && tar -xf "$work"/sources/picklescan-*.tar.gz -C "$work/sources"
}
if fetched scanners; then
    fetched sources || echo "skipped: the sources of picklescan could not be fetched"
    tests=$(find "$work/sources" -maxdepth 1 -type d -name 'picklescan-*' 2>/dev/null || true)
    part "$work/scanners/bin/python" "$here/pytorch_malicious.py" "$library" "$tenmap" "$tests" "$mutations"
else
    echo "skipped: picklescan and fickling could not be fetched"
    skipped=yes
fi

# compare NAME PYTHON...: with the torch of that interpreter.
compare() {
    echo "== torch, $1"
    shift
    part "$@" "$here/pytorch_torch.py" "$library" "$checkpoints" 1
}
newest() {
    python3 -m venv "$work/venv" && "$work/venv/bin/python" -m pip install -q torch numpy
}
venv=${TENMAP_TORCH_VENV:-$work/venv}
if "$venv/bin/python" -c 'import torch' 2>/dev/null || { venv=$work/venv && fetched newest; }; then
    compare newest "$venv/bin/python"
    echo "== shared tensors, beside safetensors"
    "$venv/bin/python" -c 'import safetensors' 2>/dev/null ||
        fetched "$venv/bin/python" -m pip install -q --target "$work/safetensors" --no-deps safetensors || true
    part env PYTHONPATH="$work/safetensors" "$venv/bin/python" "$here/pytorch_convert.py" "$tenmap"
else
    echo "skipped: torch could not be fetched"
    skipped=yes
fi

# Debian's package and what it needs, for /usr/bin/python3.
debian() {
    mkdir -p "$work/debs/partial" "$work/debian" &&
        apt-get -qq install -y -d --no-install-recommends -o Debug::NoLocking=1 \
            -o Dir::Cache::archives="$work/debs" python3-torch &&
        for package in "$work"/debs/*.deb; do dpkg-deb -x "$package" "$work/debian" || return; done
}
debian_python() {
    folder=$work/debian/usr/lib/$(uname -m)-linux-gnu
    LD_LIBRARY_PATH=$work/debian/usr/lib:$folder:$folder/blas:$folder/lapack PYTHONPATH=$work/debian/usr/lib/python3/dist-packages \
        /usr/bin/python3 "$@"
}
oldest() {
    python3 -m venv "$work/oldest" || return
    version=$("$work/oldest/bin/python" -m pip index versions torch 2>/dev/null |
        sed -n 's/^Available versions: .* //p')
    "$work/oldest/bin/python" -m pip install -q "torch==${version:?no version of torch}" 'numpy<2'
}
if [ -n "${TENMAP_LONG-}" ]; then
    if command -v apt-get >/dev/null && fetched debian; then
        compare "Debian's" debian_python
    else
        echo "skipped: Debian's torch could not be fetched"
    fi
    rm -rf "$work/debs" "$work/debian"
    if fetched oldest; then
        compare oldest "$work/oldest/bin/python"
    else
        echo "skipped: the oldest torch of pip could not be fetched"
    fi
else
    echo "skipped: older versions of torch are compared in make long"
fi
[ "$status" -eq 0 ] || exit 1
[ -z "$skipped" ] || exit 77
