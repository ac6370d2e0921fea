# The manual page and the completion scripts in the repository match what the tool's tables produce.
root=$(cd "$(dirname "$1")/../.." && pwd)
sh "$root/scripts/tool-pages.sh" "$tool" made
for page in man/tenmap.1 tool/completions/tenmap.bash tool/completions/_tenmap tool/completions/tenmap.fish; do
    cmp -s "$root/$page" "made/$page" && echo "$page is as new" ||
        echo "$page is old: run scripts/tool-pages.sh TENMAP"
done

# If programs that check them are installed, they find nothing.
if command -v groff >/dev/null; then groff -man -ww -Tutf8 -z made/man/tenmap.1; fi
if command -v mandoc >/dev/null; then mandoc -T lint -W warning made/man/tenmap.1; fi
if command -v zsh >/dev/null; then zsh -n made/tool/completions/_tenmap; fi
if command -v fish >/dev/null; then fish -n made/tool/completions/tenmap.fish; fi

t completion
t completion tcsh
t completion --help
