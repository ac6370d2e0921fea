# The manual page in the repository matches what the tool's tables produce.
root=$(cd "$(dirname "$1")/../.." && pwd)
sh "$root/scripts/tool-pages.sh" "$tool" made
cmp -s "$root/man/tenmap.1" made/man/tenmap.1 && echo "man/tenmap.1 is as new" ||
    echo "man/tenmap.1 is old: run scripts/tool-pages.sh TENMAP"

# If programs that check it and the completion scripts are installed, they find nothing.
if command -v groff >/dev/null; then groff -man -ww -Tutf8 -z made/man/tenmap.1; fi
if command -v mandoc >/dev/null; then mandoc -T lint -W warning made/man/tenmap.1; fi
for shell in bash zsh fish; do
    "$tool" completion $shell >made/$shell
    if command -v $shell >/dev/null; then $shell -n made/$shell; fi
done

t completion
t completion tcsh
t completion --help
