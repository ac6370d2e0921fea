# fish completion for tenmap, which prints it from its own tables.
tenmap completion fish 2>/dev/null | source
