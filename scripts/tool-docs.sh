#!/bin/sh
# Runs the examples of docs/tool.md and prints the document with their current output.
#
#     scripts/tool-docs.sh TENMAP FIXTURES <docs/tool.md
#
# In a block marked ```console, lines that begin with "$ " run one after the other in a folder with
# the models that FIXTURES makes (tests/cli/fixtures.c; quantized.c for docs/quantized.md, published.c
# for docs/fit.md; for docs/recipes.md a program that calls tests/cli/recipes/models.sh with
# fixtures and the folder). Their output replaces the lines below them.
set -eu
tool=$(realpath "$1") fixtures=$(realpath "$2")
folder=$(mktemp -d "${TMPDIR:-/tmp}/tenmap-docs-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$folder/work" "$folder/bin"
ln -s "$tool" "$folder/bin/tenmap"
"$fixtures" "$folder/work"
cat >"$folder/page"
cd "$folder/work"
PATH=$folder/bin:$PATH LC_ALL=C.UTF-8
export PATH LC_ALL
unset NO_COLOR COLUMNS EDITOR VISUAL

inside=no commands=0
while IFS= read -r line; do
    case $inside:$line in
    no:'```console') inside=yes ;;
    yes:'```') inside=no ;;
    yes:'$ '*) ;;
    yes:*) continue ;;
    esac
    printf '%s\n' "$line"
    case $inside:$line in
    yes:'$ '*)
        commands=$((commands + 1))
        sh -c "${line#'$ '}" </dev/null 2>&1 || true
        ;;
    esac
done <"$folder/page"
[ $commands -gt 0 ] || { echo "scripts/tool-docs.sh: the page has no examples" >&2; exit 1; }
