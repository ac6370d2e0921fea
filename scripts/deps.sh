#!/bin/sh
# Installs what building and testing need with apt; if it cannot, prints what to install.
set -eu

missing=
need() { # need PACKAGE COMMAND...: the package is missing if a command of it fails
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
compiles() { # compiles COMPILER LANGUAGE HEADER: whether a file that includes it compiles
    echo "#include <$3>" | "$1" -x "$2" -fsyntax-only -
}
cmocka() {
    printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\n' |
        cc -x c -fsyntax-only -
}

need gcc cc --version
need libc6-dev compiles cc c stdio.h
need g++ compiles c++ c++ vector
need make make --version
need cmake cmake --version
need libcmocka-dev cmocka
need pkg-config pkg-config --version
need python3 python3 --version
need libssl-dev compiles cc c openssl/evp.h
need libxxhash-dev compiles cc c xxhash.h
need libcurl4-openssl-dev compiles cc c curl/curl.h

[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "tenmap: please install the equivalents of these Debian packages:$missing" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "tenmap: please run: sudo apt-get install$missing" >&2
    exit 1
fi
echo "tenmap: installing$missing"
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null; }
