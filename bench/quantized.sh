#!/bin/sh
# Dequantizes weights to BF16 and F32 and prints one table: each scheme beside the rate of plain
# non-temporal stores in the same run, and block-scaled FP8 beside the plain conversion of as many
# bytes. A second table has the same weights in eager torch, in numpy and with bitsandbytes' own
# code.
#
#     bench/quantized.sh [ROWS COLUMNS]
#
# TENMAP_PEERS_PYTHON names a Python that has torch, numpy, ml_dtypes and bitsandbytes, which are
# large. Without one, the second table is left out, and a note says so.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
build_targets bench_quantized
[ -z "$smoke" ] || set -- 256 256
"$build/bench/bench_quantized" "$@" >"$folder/lines"
cat "$folder/lines"
[ -z "$smoke" ] || exit 0
if [ -z "${TENMAP_PEERS_PYTHON-}" ]; then
    echo "bench/quantized: torch, numpy and bitsandbytes are left out: TENMAP_PEERS_PYTHON names no Python" >&2
    exit
fi
"$TENMAP_PEERS_PYTHON" "$root/bench/peers/quantized_python.py" "$folder/lines" "${1:-8192}" "${2:-8192}"
