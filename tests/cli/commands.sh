# Every command of the tool has a section in docs/tool.md, is in README.md's list, and is run by a
# script of this folder. A command that lacks one of them is named here.
here=$(cd "$(dirname "$1")" && pwd)
root=$(cd "$here/../.." && pwd)
sed -n 's/^## //p' "$root/docs/tool.md" | tr 'A-Z ' 'a-z\n' >headings
commands=$("$tool" --help | sed -n '/^Examples:/q; s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    grep -qx "$command" headings || echo "$command: docs/tool.md has no section about it"
    grep -q "^ *t $command\( \|$\)" "$here"/*.sh || echo "$command: no script in tests/cli/ runs it"
    [ "$command" = completion ] || grep -q "\`$command\`" "$root/README.md" ||
        echo "$command: README.md does not list it"
done
[ -n "$commands" ] && echo "no other command lacks anything"
