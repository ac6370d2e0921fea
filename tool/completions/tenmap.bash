# bash completion for tenmap, which prints it from its own tables.
eval "$(tenmap completion bash 2>/dev/null)"
