#!/bin/sh
# Generates the manual page and the completion scripts from the tool's own tables.
#
#     scripts/tool-pages.sh TENMAP [FOLDER]
#
# TENMAP is the built tool. The files are written below FOLDER, by default this repository. They are
# committed because a cross-compiled tool cannot run; a test reports when they are outdated.
set -eu
tool=$(realpath "$1")
folder=${2:-$(cd "$(dirname "$0")/.." && pwd)}
mkdir -p "$folder/man" "$folder/tool/completions"
# page PATH ARGUMENT...: writes what the tool prints.
page() {
    path=$folder/$1
    shift
    "$tool" "$@" >"$path"
    [ -s "$path" ] || { echo "scripts/tool-pages.sh: tenmap $* printed nothing" >&2; exit 1; }
}
page man/tenmap.1 manual
page tool/completions/tenmap.bash completion bash
page tool/completions/_tenmap completion zsh
page tool/completions/tenmap.fish completion fish
