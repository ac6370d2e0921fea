#!/bin/sh
# Generates tenmap.c and tenmap.h twice, compares the two results, compiles them as strictly as the
# sources, and runs the tests that use only the public API against them. Then loads copies of two
# versions into one process, without a common name. Also checks that the file itself reports what it
# requires of a compiler:
#     scripts/amalgamation-test.sh [COMPILER...]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- gcc clang-14
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
export TMPDIR="$work"
cd "$root"
. scripts/sources.sh

python3 "$root/scripts/amalgamate.py" "$work/one"
(cd / && umask 077 && LC_ALL=C python3 "$root/scripts/amalgamate.py" "$work/two")
cmp "$work/one/tenmap.c" "$work/two/tenmap.c"
cmp "$work/one/tenmap.h" "$work/two/tenmap.h"
wc -lc "$work/one/tenmap.c" "$work/one/tenmap.h"

tests="dtype rules shards folder writer edit rename save"
for test in $tests; do
    gcc -std=gnu11 -O1 -I"$work/one" -Itests/plain -Itests/support -c "$(unit_test "$test")" -o "$work/test_$test.o"
done
gcc -std=gnu11 -O1 -I"$work/one" -Itests/plain -Itests/support -c tests/support/support.c -o "$work/support.o"
compilers=0
for compiler in "$@"; do
    command -v "$compiler" >/dev/null || { echo "SKIPPED: $compiler is not here"; continue; }
    compilers=$((compilers + 1))
    "$compiler" -O2 -fPIC -Wall -Wextra -Wpedantic -Werror -c "$work/one/tenmap.c" -o "$work/tenmap.o"
    "$compiler" -shared "$work/tenmap.o" -lpthread -o "$work/libtenmap.so"
    nm -D --defined-only "$work/libtenmap.so" | awk '{print $3}' | LC_ALL=C sort | diff "$root/scripts/symbols.txt" -
    for test in $tests; do
        gcc "$work/test_$test.o" "$work/support.o" "$work/tenmap.o" -lpthread -o "$work/test_$test"
        "$work/test_$test" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
        echo "$compiler, one file, test_$test: $(tail -1 "$work/log")"
    done
done
[ $compilers -gt 0 ] || { echo "none of these compilers is here: $*"; exit 1; }

# Every enumerator has an explicit value, because other languages copy the values from here.
python3 - "$work/one/tenmap.h" <<'CHECK'
import re, sys
text = re.sub(r"/\*.*?\*/", "", open(sys.argv[1], encoding="utf-8").read(), flags=re.S)
names = [n.strip() for body in re.findall(r"\benum \{(.*?)\}", text, flags=re.S) for n in body.split(",")]
bare = [name for name in names if name and "=" not in name]
print(f"{len(names)} enumerators, {len(bare)} without a value", *bare)
sys.exit(len(bare) > 0 or not names)
CHECK

# An unsupported compiler gets an error that says why.
refused() {
    if gcc "$@" -fsyntax-only "$work/one/tenmap.c" 2>"$work/log"; then
        echo "tenmap.c was compiled with $*"
        exit 1
    fi
    grep -o "#error.*" "$work/log" | head -1
}
refused -std=c99 | grep 'C11.*-std=c11'
refused -x c++ | grep 'not C++.*tenmap.hpp'

# Two plug-ins with one copy each, of different versions: one with static names, one with hidden
# names.
embed=$root/tests/embed
strict="-O1 -fPIC -Wall -Wextra -Wpedantic -Werror"
sed 's/\(#define TENMAP_VERSION_MINOR\) .*/\1 987/' "$work/two/tenmap.h" >"$work/two/new.h"
mv "$work/two/new.h" "$work/two/tenmap.h"
version() { printf '#include "tenmap.h"\nTENMAP_VERSION' | gcc -E -P -I"$1" - | tail -1 | tr -d u; }
gcc $strict -DPLUGIN_STATIC -DPLUGIN_NAME=plugin_one -I"$work/one" -c "$embed/plugin.c" -o "$work/plugin_one.o"
gcc $strict -DTENMAP_HIDDEN -c "$work/two/tenmap.c" -o "$work/hidden.o"
gcc $strict -DPLUGIN_NAME=plugin_two -DTENMAP_HIDDEN -I"$work/two" -c "$embed/plugin.c" -o "$work/plugin_two.o"
gcc -shared "$work/plugin_one.o" -lpthread -o "$work/plugin_one.so"
gcc -shared "$work/plugin_two.o" "$work/hidden.o" -lpthread -o "$work/plugin_two.so"
for plugin in plugin_one plugin_two; do
    nm -D --defined-only "$work/$plugin.so" | awk '{ print $3 }' | sort >"$work/$plugin.names"
    [ "$(cat "$work/$plugin.names")" = $plugin ] || { cat "$work/$plugin.names"; exit 1; }
done
common=$(comm -12 "$work/plugin_one.names" "$work/plugin_two.names" | wc -l)
echo "names in common of two plug-ins: $common"
[ "$common" -eq 0 ]
# Static names cannot collide in one program either: the file exports nothing to the linker.
[ "$(nm -g --defined-only "$work/plugin_one.o" | awk '{ print $3 }')" = plugin_one ]
gcc -std=gnu11 -Wall -Wextra "$embed/host.c" -ldl -o "$work/host"
"$work/host" "$work/plugin_one.so" plugin_one "$(($(version "$work/one")))" \
    "$work/plugin_two.so" plugin_two "$(($(version "$work/two")))"
