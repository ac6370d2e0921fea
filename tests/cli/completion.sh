# Asks bash for completions as it does when Tab is pressed after these words. HOME may be unset.
command -v bash >/dev/null || skip "there is no bash"
unset HOME
root=$(cd "$(dirname "$1")/../.." && pwd)
PATH=$(dirname "$tool"):$PATH bash -eu -s "$root/tool/completions/tenmap.bash" <<'END'
. "$1" # the installed file, which asks the tool
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
