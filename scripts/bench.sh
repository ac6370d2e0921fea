# What the scripts in bench/ share. They set `root`, the root of the tree, and source this:
#     root=$(cd "$(dirname "$0")/.." && pwd)
#     . "$root/scripts/bench.sh"
# It sets:
#     build     the build folder: build/bench, or the one that TENMAP_BENCH_BUILD names, in which
#               everything is built already
#     folder    a temporary folder of this run in TMPDIR, or /tmp; it is removed at exit
#     smoke     "yes" if TENMAP_BENCH_SMOKE is 1, else empty. If "yes", a script runs with its
#               smallest sizes, one round and no peers: bench/smoke.sh sets the variable to see
#               whether everything still works.
# A script exits with 77 and says why if nothing that it measures can run here.
build=${TENMAP_BENCH_BUILD:-$root/build/bench}
smoke=
[ "${TENMAP_BENCH_SMOKE:-0}" != 1 ] || smoke=yes
mkdir -p "$build"
folder=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# build_targets TARGET...: builds them in $build as `make` builds the library. All scripts configure
# it the same way, so that none recompiles what another has compiled. Prints only failures.
build_targets() {
    [ -z "${TENMAP_BENCH_BUILD-}" ] || return 0
    {
        cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTENMAP_TESTS=OFF \
            -DTENMAP_EXAMPLES=ON -DTENMAP_SHARED=OFF &&
            cmake --build "$build" -j 2 --target "$@"
    } >"$folder/log" 2>&1 || {
        cat "$folder/log" >&2
        return 1
    }
}
