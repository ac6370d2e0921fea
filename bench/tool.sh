#!/bin/sh
# Prints one table: the tool's convert, of plain and of quantized models, and hash, beside cp,
# memory and openssl; and its diff of F8 beside F16.
#     bench/tool.sh [--quick]
# Works in TMPDIR or /tmp (12 GB of room), and in /dev/shm if that has as much room, where nothing
# waits for a disk. Both cp and convert are synced. Rates count bytes read and written.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/bench.sh"
build_targets bench_write bench_quantized bench_tool tenmap_tool
bytes=3221225472 rounds=${ROUNDS:-8} seconds=3
[ "${1:-}" = --quick ] && bytes=536870912 rounds=3
[ -z "$smoke" ] || { bytes=67108864 rounds=1 seconds=1; }
tool=$build/tool/tenmap
work=$folder shm=
trap 'rm -rf "$work" $shm' EXIT

"$build/bench/bench_write" --bytes "$bytes" --keep "$work/model.safetensors"
sync "$work/model.safetensors"
# Rereads the file so that the page cache holds it in large pieces, as after a download and a
# restart.
dd of="$work/model.safetensors" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null || true
cat "$work/model.safetensors" >/dev/null
"$build/bench/bench_tool" "$tool" "$work/model.safetensors" "$work" "$rounds" hash >"$work/hash"
"$build/bench/bench_tool" "$tool" "$work/model.safetensors" "$work" $(((rounds + 1) / 2)) convert |
    sed 's/^/disk /' >"$work/convert"
"$build/bench/bench_quantized" --keep "$work/fp8.safetensors" "$bytes"
sync "$work/fp8.safetensors"
"$build/bench/bench_tool" "$tool" "$work/fp8.safetensors" "$work" $(((rounds + 1) / 2)) dequantize |
    sed 's/^/disk fp8 /' >>"$work/convert"
head -c $((bytes / 16)) "$work/model.safetensors" >"$work/size"
"$build/bench/bench_tool" "$tool" "$work/size" "$work" "$rounds" diff >"$work/diff"
rm "$work/size"
room=$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)
free=$(awk '/MemAvailable/ {print $2}' /proc/meminfo)
if [ "${room:-0}" -gt $((bytes / 1024 * 4)) ] && [ "$free" -gt $((bytes / 1024 * 4)) ]; then
    shm=$(mktemp -d /dev/shm/tenmap-bench-XXXXXX)
    mv "$work/model.safetensors" "$shm/model.safetensors"
    "$build/bench/bench_tool" "$tool" "$shm/model.safetensors" "$shm" "$rounds" convert |
        sed 's/^/memory /' >>"$work/convert"
    rm "$shm/model.safetensors"
    mv "$work/fp8.safetensors" "$shm/fp8.safetensors"
    "$build/bench/bench_tool" "$tool" "$shm/fp8.safetensors" "$shm" "$rounds" dequantize |
        sed 's/^/memory fp8 /' >>"$work/convert"
else
    echo "skipped: convert in memory (/dev/shm is too small)"
fi
openssl=$(openssl speed -evp sha256 -bytes 1048576 -seconds "$seconds" 2>/dev/null | awk '/^sha256/ {print $2 * 1000}')

awk -F '\t' -v openssl="$openssl" '
    { bytes[$1] = $2; wall[$1] = $3; cpu[$1] = $4; peak[$1] = $5 }
    function rate(name) { return bytes[name] / wall[name] }
    function row(title, name, base) {
        if (!(name in wall)) return
        printf "%-34s %7.2f GB/s", title, rate(name)
        if (base != "") printf "  %.2f of %s", rate(name) / rate(base), base
        printf "\n"
    }
    END {
        row("cp, fsync, on the disk", "disk cp", "")
        row("convert F32 to BF16, on the disk", "disk convert", "disk cp")
        row("cp, in memory", "memory cp", "")
        row("convert F32 to BF16, in memory", "memory convert", "memory cp")
        printf "%-34s %7.1f MB\n", "  its peak RSS, mappings included", peak["disk convert"] / 1e6
        row("cp of FP8, fsync, on the disk", "disk fp8 cp", "")
        row("convert --dequantize, on the disk", "disk fp8 dequantize", "disk fp8 cp")
        row("cp of FP8, in memory", "memory fp8 cp", "")
        row("convert --dequantize, in memory", "memory fp8 dequantize", "memory fp8 cp")
        printf "%-34s %7.1f MB\n", "  its peak RSS", peak["disk fp8 dequantize"] / 1e6
        row("reading memory, 2 threads", "read memory", "")
        row("hash --model, 2 threads", "fingerprints", "read memory")
        printf "%-34s %7.2f GB/s  %.2f of the above\n", "  by processor time", bytes["fingerprints"] / cpu["fingerprints"], bytes["fingerprints"] / cpu["fingerprints"] / (bytes["read memory"] / cpu["read memory"])
        if (openssl > 0)
            printf "%-34s %7.2f GB/s  (by processor time)\n", "openssl speed -evp sha256", openssl / 1e9
        printf "%-34s %7.2f GB/s", "hash, by processor time", bytes["sha256"] / cpu["sha256"]
        if (openssl > 0) printf "  %.2f of openssl speed", bytes["sha256"] / cpu["sha256"] * 1e9 / openssl
        printf "\n"
        for (dtype = 8; dtype <= 16; dtype += 8)
            printf "%-34s %7.0f million a second%s\n", "diff of F" dtype ", by processor time", bytes["diff F" dtype] / cpu["diff F" dtype] * 1e3, dtype == 8 ? sprintf("  %.2f of the time of F16", cpu["diff F8"] / cpu["diff F16"]) : ""
    }' "$work/hash" "$work/convert" "$work/diff"
