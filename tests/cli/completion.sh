# Asks bash for completions as it does when Tab is pressed after these words. HOME may be unset.
command -v bash >/dev/null || skip "there is no bash"
unset HOME
PATH=$(dirname "$tool"):$PATH bash -eu -s <<'END'
eval "$(tenmap completion bash)"
press() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _tenmap || true
    echo "$*: $(printf '%s\n' "${COMPREPLY[@]-}" | sort | head -n 5 | tr '\n' ' ')"
}
press tenmap i
press tenmap ls --tr
press tenmap ls --sort ""
press tenmap ls --sort = si
press tenmap ls -d bf
press tenmap meta m.safetensors ""
press tenmap completion z
press tenmap get small.safetensors layer.0.w
press tenmap ls --sort size small.safetensors emb
press tenmap ls ""
press tenmap help met
END
