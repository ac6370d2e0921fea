# Prints the second table of bench/ttft.sh. Each input line is NAME, milliseconds from the start of
# the process to the first token, milliseconds of the second token, and the ids of both.

{
    first[$1] = $2
    second[$1] = $3
    ids[$1] = $4 " " $5
}

function row(what, name, ours) {
    if (!(name in first))
        printf "| %s | skipped | | | | |\n", what
    else
        printf "| %s | %.0f ms | %.0f ms | %.2f | %.1f | %s |\n", what, first[name], second[name],
            (second[name] > 0 ? first[name] / second[name] : 0), first[name] / first[ours], ids[name]
}

END {
    print "| 3.1 GB of BF16, prompt of one token, warm | first token | second | first/second | of examples/llama | ids |"
    print "|---|---|---|---|---|---|"
    row("examples/llama, 2 threads", "llama-2", "llama-2")
    row("examples/llama, 1 thread", "llama-1", "llama-2")
    row("transformers, BF16, 2 threads", "transformers-bf16", "llama-2")
    row("transformers, F32, 2 threads", "transformers-f32", "llama-2")
    row("llama-cpp-python, BF16, 2 threads", "llama-cpp-python", "llama-2")
}
