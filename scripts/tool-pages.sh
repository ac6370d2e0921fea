#!/bin/sh
# Makes the manual page and the completion scripts anew, from the tool's own tables.
#
#     scripts/tool-pages.sh TENMAP [FOLDER]
#
# TENMAP is the built tool; the files go below FOLDER, which is this repository unless given. They are
# in the repository because a cross-compiled tool cannot be asked; a test tells when they are old.
set -eu
tool=$(realpath "$1")
folder=${2:-$(cd "$(dirname "$0")/.." && pwd)}
mkdir -p "$folder/man" "$folder/tool/completions"
"$tool" manual >"$folder/man/tenmap.1"
"$tool" completion bash >"$folder/tool/completions/tenmap.bash"
"$tool" completion zsh >"$folder/tool/completions/_tenmap"
"$tool" completion fish >"$folder/tool/completions/tenmap.fish"
