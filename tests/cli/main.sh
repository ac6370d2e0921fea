# The command line itself: wrong commands, help.
t nosuch
t lss small.safetensors
t small.safetensors
t help nosuch
t --nosuch
t --color never ls small.safetensors
"$tool" ls "$(printf 'a\033[31mb')" 2>&1 || echo "exit $?"
"$tool" "$(printf '\033[31m')" 2>&1 || echo "exit $?"
# The first line is the version alone, for scripts. The other lines are about the build: the commit
# only if it was built from git, and libcurl's version only where there is one.
"$tool" --version | sed -e '1s/ [0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]*[a-z]*[0-9]*$/ X.Y.Z/' \
    -e '/^commit        [0-9a-f]\{7,40\}$/d' -e 's/^\(compiler      \)\(GCC\|clang\) [0-9].*/\1NAME/' \
    -e 's/^\(instructions  \)[a-z0-9_]*$/\1SET/' -e 's/^\(libcurl       \).*[a-z0-9)]$/\1VERSION/'
"$tool" help | sed -n 1,6p
"$tool" >nothing 2>&1 || echo "no command: exit $?"
cmp nothing - <<END && echo "the same as help"
$("$tool" help)
END
# The help of a command shows all choices of an option, as the manual page does.
"$tool" manual | sed -e 's/\\f[BIR]//g' -e 's/\\-/-/g' >manual
for command in $("$tool" --help | sed -n '/^Examples:/q; s/^  \([a-z]*\) .*/\1/p'); do
    "$tool" "$command" --help | sed -n 's/.*\(--[a-z-]* [a-z0-9_|-]*|[a-z0-9_|-]*\)$/\1/p'
done | sort -u >choices
while read -r choice; do
    grep -q -e "$choice\$" manual || echo "not in the manual page: $choice"
done <choices
[ "$(wc -l <choices)" -gt 5 ] && echo "the choices of all options were compared"
"$tool" ls small.safetensors >/dev/full || echo "a full disk: exit $?"
