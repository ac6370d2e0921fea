# Prints the table of bench/open.sh. The first file lists the models (PATH TENSORS HEADER_BYTES).
# The second holds the lines that bench/open.c describes, from all peers and rounds.

function least(key, value) {
    if (!(key in best) || value + 0 < best[key])
        best[key] = value + 0
}

# Formats nanoseconds in three or four digits.
function duration(ns) {
    if (ns < 1000)
        return sprintf("%dns", ns)
    if (ns < 1000000)
        return sprintf(ns < 100000 ? "%.1fus" : "%.0fus", ns / 1000)
    return sprintf(ns < 100000000 ? "%.1fms" : "%.0fms", ns / 1000000)
}

function time(peer, path, step) {
    if ((peer, path, step) in best)
        return duration(best[peer, path, step])
    if (path ~ /json$/ && peer == "reference")
        return "-"
    return step == "open" || peer == "python" ? "skipped" : "-"
}

function ratio(peer, path, step) {
    if (!((peer, path, step) in best))
        return "-"
    return sprintf("%.1fx", best[peer, path, step] / best["tenmap", path, step])
}

# Compares a sharded model with the single file that has as many tensors, or else the most, and with
# the package's open.
function shards(path,   i, p, single, ours, alone) {
    for (i = 1; i <= count; i++) {
        p = paths[i]
        if (p !~ /json$/ && (single == "" || tensors[p] > tensors[single]) &&
            tensors[p] <= tensors[path])
            single = p
    }
    ours = best["tenmap", path, "open"] / tensors[path]
    alone = best["tenmap", single, "open"] / tensors[single]
    printf "%d in shards with an index: open %s, %.0f ns per tensor; in one file %.0f ns (%.2fx); python %s (%s)\n",
        tensors[path], time("tenmap", path, "open"), ours, alone, ours / alone,
        time("python", path, "open"), ratio("python", path, "open")
}

# Memory comes in pages: below 100,000 bytes of header, the figure says nothing about the header.
function memory(peer, path) {
    if (!((peer, path, "memory") in best) || header[path] < 100000)
        return "-"
    return sprintf("%.2f", best[peer, path, "memory"] / header[path])
}

NR == FNR {
    paths[++count] = $1
    tensors[$1] = $2
    header[$1] = $3
    next
}

$3 == "time" {
    split("open find close all", steps, " ")
    for (i = 1; i <= 4; i++)
        least($1 SUBSEP $2 SUBSEP steps[i], $(3 + 2 * i))
}

# Keeps the maximum over all rounds, since a peak is what must fit.
$3 == "memory" {
    key = $1 SUBSEP $2 SUBSEP "memory"
    if (!(key in best) || $5 + 0 > best[key])
        best[key] = $5 + 0
}

END {
    print "tenmap, the reference crate, the Python package: least time of all rounds"
    form = "%7s %8s |%7s%7s%7s%7s |%8s%7s%7s%6s%6s%6s |%7s%6s |%5s%5s%5s\n"
    printf form, "", "header", "tenmap", "", "", "ns per", "ref.", "", "", "ratio", "", "",
        "python", "ratio", "RSS", "ref.", "py."
    printf form, "tensors", "bytes", "open", "find", "close", "tensor", "open", "find", "close",
        "open", "find", "all", "all", "all", "/hdr", "/hdr", "/hdr"
    for (i = 1; i <= count; i++) {
        p = paths[i]
        printf form, tensors[p], header[p], time("tenmap", p, "open"), time("tenmap", p, "find"),
            time("tenmap", p, "close"), sprintf("%.0f", best["tenmap", p, "all"] / tensors[p]),
            time("reference", p, "open"), time("reference", p, "find"),
            time("reference", p, "close"), ratio("reference", p, "open"),
            ratio("reference", p, "find"), ratio("reference", p, "all"), time("python", p, "all"),
            ratio("python", p, "all"), memory("tenmap", p), memory("reference", p),
            memory("python", p)
    }
    for (i = 1; i <= count; i++)
        if (paths[i] ~ /json$/)
            shards(paths[i])
}
