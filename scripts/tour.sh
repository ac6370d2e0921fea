#!/bin/sh
# A tour of the tool on a model: prints each command line, then its output.
#
#     scripts/tour.sh TENMAP MODEL.safetensors
#
# Files that the tour makes go into a temporary folder, except the report, MODEL.html, which stays
# beside the model. A command that this build does not have is left out; a tour without any command
# fails.
set -eu
tool=$(realpath "$1") model=$(realpath "$2")
folder=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-tour-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
cp "$model" "$folder/demo.safetensors"
cd "$folder"

bold= plain=
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] && bold=$(printf '\033[1m') plain=$(printf '\033[0m')

# Exit codes are answers here, not failures: check returns 1 for a warning, diff for a difference.
commands=0
run() {
    "$tool" help "$1" >/dev/null 2>&1 || return 0
    commands=$((commands + 1))
    printf '\n%s$ tenmap' "$bold"
    for word; do
        case $word in *[!A-Za-z0-9_./=:,@%+-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '%s\n' "$plain"
    status=0
    "$tool" "$@" || status=$?
    if [ "$status" -gt 2 ]; then
        echo "scripts/tour.sh: that should not have failed (exit $status)" >&2
        exit 1
    fi
}

run info demo.safetensors
run ls --fold demo.safetensors
run ls demo.safetensors 'model.layers.1.mlp.*'
run get demo.safetensors model.layers.0.mlp.up_proj.weight
run get demo.safetensors model.embed_tokens.weight '[-2:, :6]'
run meta demo.safetensors set license mit
run meta demo.safetensors
run check demo.safetensors
run stats demo.safetensors '*.1.mlp.*'
run convert demo.safetensors --to f16 -o half.safetensors
[ ! -e half.safetensors ] || run diff demo.safetensors half.safetensors --any-dtype --rtol 0.001
run hash demo.safetensors
run report demo.safetensors -o demo.html
[ $commands -gt 0 ] || { echo "scripts/tour.sh: $tool has none of the commands" >&2; exit 1; }
page=${model%.safetensors}.html
[ ! -e demo.html ] || cp demo.html "$page"
echo
[ ! -e "$page" ] || echo "The page is in $page: open it in a browser."
echo "That was the tour. 'tenmap --help' lists all commands; docs/tool.md explains them."
