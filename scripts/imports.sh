#!/bin/sh
# The library never prints, exits, aborts, waits for a child, or changes signal handlers, the locale
# or the floating-point mode. This script checks that it does not even import a function that could.
#
#     scripts/imports.sh LIBRARY.so
set -u
command -v nm >/dev/null || { echo "skipped: nm is not here" && exit 77; }
names=$(nm -D --undefined-only "$1" | awk '{ print $NF }' | sed 's/@.*//')
[ -n "$names" ] || { echo "$1 imports nothing: it is not the library" && exit 1; }
found=$(printf '%s\n' "$names" | grep -xE \
    'v?f?printf|(__)?v?f?printf_chk|perror|f?puts|putchar|write|fwrite|_?exit|_Exit|quick_exit|abort|raise|kill|__assert_fail|signal|sigaction|setlocale|uselocale|fe[a-z]*(env|round|except)|setenv|putenv|chdir|umask|system|popen|fork|exec[a-z]*|dlopen|rand|srand|strerror|getenv')
if [ -n "$found" ]; then
    echo "the library imports: $found"
    exit 1
fi
echo "$(printf '%s\n' "$names" | wc -l) imports, nothing that prints, ends or changes the process"
