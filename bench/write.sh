#!/bin/sh
# Prints one table: writing, copying, converting and editing beside what the system can do.
#     bench/write.sh [--quick]
# Works in TMPDIR or /tmp: 6 GB of room for writing, 20 GB for edits of a 10 GB file.
# TENMAP_PEERS_PYTHON names a Python with numpy and safetensors; by default one is made under
# build/. A peer that is not available, or a file system with reflinks that cannot be mounted, is
# skipped, and the table says so.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
out=$folder/write.tsv
build_targets bench_write
bytes=3221225472 edit=10737418240 rounds=3
[ "${1:-}" = --quick ] && bytes=536870912 edit=1073741824 rounds=2
[ -z "$smoke" ] || { bytes=67108864 edit=67108864 rounds=1; }

work=$folder mounted=
clean() {
    [ -z "$mounted" ] || umount "$mounted"
    rm -rf "$work"
}
trap clean EXIT

TMPDIR=$work "$build/bench/bench_write" --bytes "$bytes" --edit-bytes "$edit" --rounds "$rounds" >"$out"

package() {
    python=${TENMAP_PEERS_PYTHON:-$build/venv-write/bin/python}
    if [ ! -x "$python" ]; then
        { python3 -m venv "$build/venv-write" && "$build/venv-write/bin/pip" -q install numpy safetensors; } ||
            echo "numpy and safetensors could not be installed" >&2
    fi
    "$build/bench/bench_write" --bytes "$bytes" --keep "$work/model"
    "$python" "$root/bench/peers/write_python.py" "$work/model" "$work/copy" "$rounds" >>"$out" ||
        echo "skipped: the Python package"
    rm -f "$work/model" "$work/copy"
}
[ -n "$smoke" ] || package

# Edits that share blocks need a file system with reflinks: xfs on a loop device, if root has one.
mkdir "$work/xfs"
if [ "$(id -u)" = 0 ] && truncate -s $((edit * 2 + edit / 2 + 536870912)) "$work/image" &&
    mkfs.xfs -q -m reflink=1 "$work/image" >/dev/null 2>&1 && mount -o loop "$work/image" "$work/xfs"; then
    mounted=$work/xfs
    TMPDIR=$mounted "$build/bench/bench_write" --bytes 0 --edit-bytes "$edit" --rounds "$rounds" |
        sed 's/^edit /xfs edit /' >>"$out"
else
    echo "skipped: edits by sharing blocks (no root, mkfs.xfs or loop device)"
fi

awk -F '\t' '
    { ns[$1] = $3; bytes[$1] = $2 }
    function rate(name) { return bytes[name] / ns[name] }
    function faster(a, b) { return rate(a) > rate(b) ? a : b }
    function row(title, name, base,    text) {
        if (!(name in ns)) return
        text = base == "" ? "" : sprintf("%.2f of %s", rate(name) / rate(base), base)
        printf "%-38s %8.2f GB/s  %s\n", title, rate(name), text
    }
    function edit(title, name, base) {
        if (!(name in ns)) return
        printf "%-38s %8.1f ms    %.3f%% of a rewrite\n", title, ns[name] / 1e6, 100 * ns[name] / ns[base]
    }
    END {
        row("write(), fsync", "write raw", "")
        row("fallocate(), write(), fsync", "write reserved", "")
        row("tenmap_writer_write", "write tenmap", faster("write raw", "write reserved"))
        row("safetensors save_file, fsync", "write python", faster("write raw", "write reserved"))
        row("copy_file_range(), fsync", "copy raw", "")
        row("fallocate(), copy_file_range(), fsync", "copy reserved", "")
        row("tenmap_writer_copy", "copy tenmap", faster("copy raw", "copy reserved"))
        row("tenmap_writer_copy, F32 to BF16", "convert tenmap", faster("write raw", "write reserved"))
        printf "%-38s %8.1f MB\n", "  its peak memory above the mapping", bytes["convert peak memory"] / 1e6
        edit("edit in place", "edit in place", "edit by rewriting")
        edit("edit by rewriting", "edit by rewriting", "edit by rewriting")
        edit("xfs: edit in place", "xfs edit in place", "xfs edit by rewriting")
        edit("xfs: edit by sharing blocks", "xfs edit cloned", "xfs edit by rewriting")
        edit("xfs: edit by rewriting", "xfs edit by rewriting", "xfs edit by rewriting")
    }' "$out"
