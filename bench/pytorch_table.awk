# Prints the table of bench/pytorch.sh from lines of NAME NANOSECONDS [KIB].

{
    if (!($1 in best) || $2 + 0 < best[$1])
        best[$1] = $2 + 0
    if ($3 + 0 > most[$1])
        most[$1] = $3 + 0
}

function duration(ns) {
    if (ns < 1000000)
        return sprintf("%.1f us", ns / 1000)
    return ns < 1000000000 ? sprintf("%.2f ms", ns / 1000000) : sprintf("%.2f s", ns / 1000000000)
}

function speed(name, against) {
    if (!(against in best) || !best[name])
        return "-"
    return sprintf("%.2fx", best[against] / best[name])
}

function memory(name) {
    return most[name] ? sprintf("%.1f MB", most[name] / 1000) : "-"
}

function row(name, what, against) {
    if (!(name in best)) {
        printf "| %-44s | %10s | %8s | %9s |\n", what, "skipped", "-", "-"
        return
    }
    printf "| %-44s | %10s | %8s | %9s |\n", what, duration(best[name]), speed(name, against),
        memory(name)
}

END {
    printf "checkpoint: %.2f GB, %d tensors\n", bytes / 1e9, tensors
    printf "| %-44s | %10s | %8s | %9s |\n", "", "least", "speed", "RSS"
    print "|---|--:|--:|--:|"
    row("torch-import", "import torch", "")
    row("torch-first", "torch.load(mmap=True), one element", "torch-first")
    row("tenmap-open", "tenmap_open", "")
    row("tenmap-first", "tenmap_open, one element", "torch-first")
    row("cp", "cp", "cp")
    row("convert", "tenmap convert to SafeTensors", "cp")
    if ("tenmap-cached" in best)
        printf "after a cold open: %d bytes of tensors mapped, %d in the page cache (read ahead)\n",
            best["tenmap-resident"], best["tenmap-cached"]
}
