#!/bin/sh
# Generates the manual page from the tool's own tables.
#
#     scripts/tool-pages.sh TENMAP [FOLDER]
#
# TENMAP is the built tool. The page is written below FOLDER, by default this repository. It is
# committed because a cross-compiled tool cannot run; a test reports when it is outdated.
set -eu
tool=$(realpath "$1")
folder=${2:-$(cd "$(dirname "$0")/.." && pwd)}
mkdir -p "$folder/man"
page=$folder/man/tenmap.1
"$tool" manual >"$page"
[ -s "$page" ] || { echo "scripts/tool-pages.sh: tenmap manual printed nothing" >&2; exit 1; }
