# Prints the table of bench/ttft.sh from lines of NAME NANOSECONDS.

{
    best[$1] = $2
}

function ms(name) {
    return name in best ? sprintf("%.0f ms", best[name] / 1000000) : "skipped"
}

# Returns the name of the fastest of several.
function fastest(names, list, count, i, found) {
    count = split(names, list, " ")
    for (i = 1; i <= count; i++)
        if (list[i] in best && (found == "" || best[list[i]] < best[found]))
            found = list[i]
    return found
}

# Prints a description, the time, what it is compared with, that time, and the ratio of the two.
function row(what, name, against, other) {
    printf "| %s | %s | %s | %s | %s |\n", what, ms(name), against, ms(other),
        name in best && other in best ? sprintf("%.2f", best[name] / best[other]) : ""
}

END {
    direct = fastest("direct-1 direct-2 direct-4")
    bf16 = fastest("hand-bf16-memcpy hand-bf16-stream hand-bf16-pread")
    f32 = fastest("hand-f32-map hand-f32-pread")
    print "| 3.02 GB of BF16 | time | against | time | ratio |"
    print "|---|---|---|---|---|"
    row("warm, 1 thread: open, touch", "touch-1", "compute on mapped memory", "compute-1")
    row("warm, 1 thread: open, POPULATE", "populate-1", "the same", "compute-1")
    row("warm, 1 thread: open, PREFETCH, POPULATE each", "prefetch-1", "the same", "compute-1")
    row("warm, 2 threads: open, touch", "touch-2", "compute on mapped memory", "compute-2")
    row("warm, 2 threads: open, POPULATE", "populate-2", "the same", "compute-2")
    row("warm, 2 threads: open, PREFETCH, POPULATE each", "prefetch-2", "the same", "compute-2")
    row("compute on detached memory, 1 thread", "detached-1", "on the mapping", "mapped-1")
    row("compute on detached memory, 2 threads", "detached-2", "the same", "mapped-2")
    row("cold, 1 thread: open, PREFETCH, POPULATE each", "cold-prefetch-1",
        "best direct read (" direct ")", direct)
    row("cold, 2 threads: open, PREFETCH, POPULATE each", "cold-prefetch-2", "the same", direct)
    row("cold: open, LOAD_DIRECT, compute as each arrives, 2 threads", "cold-load-2", "the same", direct)
    row("cold: open, LOAD_DIRECT, compute as each arrives, 4 threads", "cold-load-4", "the same", direct)
    row("cold, 2 threads: open, touch", "cold-touch-2", "the same", direct)
    row("load as BF16", "load-bf16", "best loop by hand (" bf16 ")", bf16)
    row("load as BF16, LOAD_READ", "load-bf16-read", "the same", bf16)
    row("load as F32", "load-f32", "best loop by hand (" f32 ")", f32)
    row("load as F32, LOAD_READ", "load-f32-read", "the same", f32)
    row("load as BF16, fresh tenmap_alloc", "load-bf16-fresh", "touched memory", "load-bf16")
    row("load as F32, fresh tenmap_alloc", "load-f32-fresh", "touched memory", "load-f32")
    row("cold load as BF16", "load-cold-bf16", "best direct read", direct)
    row("cold load as BF16, LOAD_READ", "load-cold-bf16-read", "the same", direct)
    row("cold load as BF16, LOAD_DIRECT", "load-cold-bf16-direct", "the same", direct)
    row("Python load_file, BF16", "python-bf16", "load as BF16", "load-bf16")
    row("Python load_file, BF16", "python-bf16", "load as BF16, fresh", "load-bf16-fresh")
    row("Python load_file, to F32", "python-f32", "load as F32", "load-f32")
    row("Python load_file, to F32", "python-f32", "load as F32, fresh", "load-f32-fresh")
}
