#!/bin/sh
# Prints one table: tenmap's conversions, what the machine can do, and what users would use instead.
#     bench/convert.sh [--quick]
# TENMAP_PEERS_PYTHON names a Python with numpy and ml_dtypes; by default one is made under build/.
# A peer that is not available is skipped, and the table says so.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
out=$folder/convert.tsv
build_targets bench_convert

peers() {
    python=${TENMAP_PEERS_PYTHON:-$build/venv/bin/python}
    if [ -z "${TENMAP_PEERS_PYTHON-}" ] && ! "$python" -c 'import numpy, ml_dtypes' 2>/dev/null; then
        { python3 -m venv "$build/venv" && "$python" -m pip -q install numpy ml_dtypes; } ||
            echo "numpy and ml_dtypes could not be installed" >&2
    fi
    "$python" "$root/bench/peers/convert_numpy.py" >>"$out" || echo "skipped: numpy + ml_dtypes"
    if CARGO_TARGET_DIR=$build/half cargo build -q --release \
        --manifest-path "$root/bench/peers/half/Cargo.toml"; then
        "$build/half/release/bench_half" >>"$out"
    else
        echo "skipped: the half crate"
    fi
}

"$build/bench/bench_convert" --tsv "$@" >"$out"
[ -n "$smoke" ] || peers

# The last two columns: how many times faster than the peer, or - if it has no such conversion.
awk -F '\t' '
    { t[$1, $2, $3] = $4; if ($1 == "tenmap") { row[++n] = $2 SUBSEP $3; traffic[$2, $3] = $5 } }
    function ratio(who, key) { return ((who SUBSEP key) in t) ? sprintf("%.2f", t[who, key] / t["tenmap", key]) : "-" }
    function named(bytes) { return bytes >= 1073741824 ? "1 GiB" : bytes >= 16777216 ? "16 MB" : bytes >= 1048576 ? "1 MB" : "64 KB" }
    END {
        printf "%-16s %6s %7s %8s %8s %9s %7s %7s %7s %7s\n", "pair", "result", "GB/s", "/memcpy",
               "/NTcopy", "/NTwrite", "fresh", "2 thr.", "x numpy", "x half"
        for (i = 1; i <= n; i++) {
            k = row[i]; split(k, part, SUBSEP)
            printf "%-16s %6s %7.1f %8s %8s %9s %7.1f %7.1f %7s %7s\n", part[1], named(part[2]),
                   traffic[k] / t["tenmap", k], ratio("memcpy", k), ratio("ntcopy", k),
                   ratio("ntwrite", k), traffic[k] / t["fresh", k], traffic[k] / t["two", k],
                   ratio("numpy", k), ratio("half", k)
        }
    }' "$out"
