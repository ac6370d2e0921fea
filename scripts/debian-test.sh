#!/bin/sh
# Builds the Debian packages from a copy of the sources, checks them with lintian, unpacks them,
# runs the tool and compiles programs against them. As root, also installs and removes them:
#     scripts/debian-test.sh [FOLDER]
# The packages are copied to FOLDER if it is given. The tests do not run again (nocheck). Exits with
# 77 and says why if the packaging tools are missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
for tool in dpkg-buildpackage dh cmake; do
    if ! command -v $tool >/dev/null; then
        echo "skipped: $tool is not installed (apt: dpkg-dev debhelper cmake)"
        exit 77
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$work/tenmap"
(cd "$root" && tar -cf - --exclude=./build --exclude=./.git .) | tar -xf - -C "$work/tenmap"

# Most missing build dependencies only leave out a part of the tool. Only cmake, debhelper, and
# libcurl and libcrypto, which the packages link, are required.
force=
(cd "$work/tenmap" && dpkg-checkbuilddeps -Pnocheck 2>"$work/missing") || force=-d
[ -z "$force" ] || cat "$work/missing"
if [ -n "$force" ] && grep -qE 'libcurl|libssl' "$work/missing"; then
    echo "skipped: libcurl4-openssl-dev or libssl-dev is not installed"
    exit 77
fi
(cd "$work/tenmap" && DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -us -uc -b -Pnocheck $force) \
    >"$work/log" 2>&1 || { tail -40 "$work/log"; exit 1; }
(cd "$work" && ls -l ./*.deb)
[ $# -eq 0 ] || { mkdir -p "$1" && cp "$work"/*.deb "$1"; }

if command -v lintian >/dev/null; then
    # The manual page comes with the tool's pages; a tree without them is not an error.
    suppress=
    [ -f "$root/man/tenmap.1" ] || suppress="--suppress-tags no-manual-page"
    lintian --allow-root --fail-on error,warning $suppress "$work"/*.changes
    echo "lintian: clean"
else
    echo "SKIPPED: lintian is not here"
fi

# check PREFIX: checks that the packages under PREFIX work.
check() {
    lib=$(dirname "$(find "$1/usr/lib" -name libtenmap.so.0)")
    PKG_CONFIG_SYSROOT_DIR="$1" PKG_CONFIG_PATH="$lib/pkgconfig" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
        pkg-config --cflags --libs tenmap >"$work/flags"
    cc "$root/tests/install/consumer.c" -I"$1/usr/include" -L"$lib" $(cat "$work/flags") -o "$work/consumer"
    LD_LIBRARY_PATH="$lib" "$work/consumer"
    "$1/usr/bin/tenmap" --version
    # Where Debian's man, bash, zsh and fish look.
    for page in man/man1/tenmap.1.gz bash-completion/completions/tenmap zsh/vendor-completions/_tenmap \
        fish/vendor_completions.d/tenmap.fish; do
        [ -f "$1/usr/share/$page" ] || { echo "no package has usr/share/$page" && exit 1; }
    done
    remote "$1/usr/bin/tenmap" -I"$1/usr/include" -L"$lib" -Wl,-rpath,"$lib"
}

# remote TENMAP FLAG...: checks that the tool and a program can open addresses. Nothing listens on
# port 1.
remote() {
    "$1" info http://127.0.0.1:1/x >"$work/said" 2>&1 || :
    grep -q 'cannot connect to the server' "$work/said" || { cat "$work/said"; exit 1; }
    shift
    cc "$root/examples/remote.c" "$@" -ltenmap-http -ltenmap -o "$work/remote"
    "$work/remote" http://127.0.0.1:1/x w >"$work/said" 2>&1 || :
    grep -q 'cannot connect to the server' "$work/said" || { cat "$work/said"; exit 1; }
}

for package in "$work"/*.deb; do
    dpkg-deb -x "$package" "$work/unpacked"
done
check "$work/unpacked"
echo "unpacked: ok"

if [ "$(id -u)" = 0 ] && ! dpkg -s libtenmap0 tenmap libtenmap-dev 2>/dev/null | grep -q 'ok installed'; then
    packages=$(ls "$work"/*.deb | grep -v dbgsym)
    names="libtenmap-http-dev libtenmap-dev tenmap libtenmap-http0 libtenmap0"
    trap 'dpkg --purge $names >/dev/null 2>&1; rm -rf "$work"' EXIT
    dpkg -i $packages >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    cc "$root/tests/install/consumer.c" $(pkg-config --cflags --libs tenmap) -o "$work/consumer"
    "$work/consumer"
    tenmap --version
    remote tenmap
    pkg-config --exists tenmap-http
    dpkg --purge $names >/dev/null
    [ ! -e /usr/include/tenmap.h ]
    echo "installed and removed: ok"
else
    echo "SKIPPED: installing wants root, and a machine without these packages"
fi
