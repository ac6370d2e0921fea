# The command line itself: wrong commands, help.
t nosuch
t lss small.safetensors
t small.safetensors
t help nosuch
t --nosuch
t --color never ls small.safetensors
"$tool" ls "$(printf 'a\033[31mb')" 2>&1 || echo "exit $?"
"$tool" "$(printf '\033[31m')" 2>&1 || echo "exit $?"
# A version of three numbers and the CPU path, whatever they are.
"$tool" --version | sed 's/[0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]* (.*)/X.Y.Z (PATH)/'
"$tool" help | sed -n 1,6p
"$tool" >nothing 2>&1 || echo "no command: exit $?"
cmp nothing - <<END && echo "the same as help"
$("$tool" help)
END
"$tool" ls small.safetensors >/dev/full || echo "a full disk: exit $?"
