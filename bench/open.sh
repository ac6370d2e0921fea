#!/bin/sh
# Opens a model with tenmap, the reference crate and the Python package, on the same files, in the
# same run. Prints one table.
#
#     bench/open.sh [ROUNDS [MILLISECONDS]]
#
# Each round gives each of them MILLISECONDS on each file, in turn, so that a noisy moment affects
# all of them. The figures are minimums over all rounds. A peer that cannot be built here is skipped
# with a note. Everything is built in build/bench. The files are sparse and removed afterwards.
set -eu

rounds=${1:-7}
milliseconds=${2:-400}
root=$(cd "$(dirname "$0")/.." && pwd)
case $rounds$milliseconds in
*[!0-9]*) echo "usage: bench/open.sh [ROUNDS [MILLISECONDS]]" >&2 && exit 2 ;;
esac

. "$root/scripts/bench.sh"
[ -z "$smoke" ] || { rounds=1 milliseconds=1; }

note() {
    echo "bench/open: $*" >&2
}

# If a peer is left out, both functions print why and return 1.
build_reference() {
    command -v cargo >/dev/null || { note "reference skipped: there is no cargo" && return 1; }
    (cd "$root/bench/peers/reference" &&
        CARGO_TARGET_DIR=$build/reference cargo build --release) >"$folder/log" 2>&1 &&
        return
    note "reference skipped: cargo could not build it: $(grep -v '^ *$' "$folder/log" | tail -n 1)"
    return 1
}

build_python() {
    [ -x "$build/venv/bin/python" ] || python3 -m venv "$build/venv" >"$folder/log" 2>&1 || {
        rm -rf "$build/venv"
        note "python skipped: python3 could not make a virtual environment"
        return 1
    }
    "$build/venv/bin/python" -c 'import safetensors, numpy' 2>/dev/null ||
        "$build/venv/bin/python" -m pip install -q safetensors numpy >"$folder/log" 2>&1 || {
        note "python skipped: pip could not get safetensors: $(tail -n 1 "$folder/log")"
        return 1
    }
}

run_tenmap() {
    "$build/bench/bench_open" "$@"
}

run_reference() {
    "$build/reference/release/bench-open-reference" "$@"
}

run_python() {
    "$build/venv/bin/python" "$root/bench/peers/open_python.py" "$@"
}

note "building"
build_targets bench_open
peers=tenmap
if [ -z "$smoke" ]; then
    build_reference && peers="$peers reference"
    build_python && peers="$peers python"
fi

run_tenmap make "$folder" >"$folder/files"
warm=$(sed -n '1s/ .*//p' "$folder/files")
round=1
while [ "$round" -le "$rounds" ]; do
    note "round $round of $rounds"
    while read -r file _; do
        for peer in $peers; do
            case $peer$file in reference*.json) continue ;; esac # the crate does not read indexes
            "run_$peer" time "$file" "$milliseconds"
            "run_$peer" memory "$file" "$warm"
        done
    done <"$folder/files" >>"$folder/lines"
    round=$((round + 1))
done

awk -f "$root/bench/open_table.awk" "$folder/files" "$folder/lines"
