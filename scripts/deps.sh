#!/bin/sh
# Gets what building or testing needs: with apt, as root; otherwise says what to install.
#
#     scripts/deps.sh [build | test]
#
# Fails if something is missing that nothing works without. What only some features or tests need is
# named, and left out.
set -eu
purpose=${1:-test}

missing= without=
is_there() { "$@" >/dev/null 2>&1; }
need() { # need PACKAGE COMMAND...: the package is missing if a command of it fails
    package=$1
    shift
    is_there "$@" || missing="$missing $package"
}
want() { # want PACKAGE COMMAND...: the same, for a package that the rest works without
    package=$1
    shift
    is_there "$@" || without="$without $package"
}
compiles() { # compiles COMPILER LANGUAGE HEADER: whether a file that includes it compiles
    echo "#include <$3>" | "$1" -x "$2" -fsyntax-only -
}
cmocka() {
    printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\n' |
        cc -x c -fsyntax-only -
}
reported() { [ -z "$without" ] || echo "tenmap: going on without$without (docs/install.md)" >&2; }

need gcc cc --version
need libc6-dev compiles cc c stdio.h
need make make --version
need cmake cmake --version
if [ "$purpose" = test ]; then
    need libcmocka-dev cmocka
    want g++ compiles c++ c++ vector
    want pkg-config pkg-config --version
    want python3 python3 --version
    want python3-venv python3 -c 'import ensurepip'
    want openssl openssl version
    want libcurl4-openssl-dev compiles cc c curl/curl.h
    want libxxhash-dev compiles cc c xxhash.h # compared with our own
    if [ "$(id -u)" = 0 ]; then # tests that mount file systems
        want libfuse3-dev pkg-config --exists fuse3
        want quota setquota --version
        want btrfs-progs mkfs.btrfs --version
        want e2fsprogs mkfs.ext4 -V
    fi
fi

[ -n "$missing$without" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    [ -n "$missing" ] || { reported && exit 0; }
    echo "tenmap: please install the equivalents of these Debian packages:$missing$without" >&2
    echo "tenmap: docs/install.md has the line for Fedora, Arch, Alpine, macOS and Windows" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    [ -n "$missing" ] || { reported && exit 0; }
    echo "tenmap: please run: sudo apt-get install$missing$without" >&2
    exit 1
fi
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
get() { # get PACKAGE...
    apt install -y --no-install-recommends "$@"
}
apt() { # a network that does not answer is given up soon
    apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 "$@" \
        >/dev/null 2>&1
}
echo "tenmap: installing$missing$without"
# shellcheck disable=SC2086 # lists of words
get $missing $without && exit 0
apt update || true
# shellcheck disable=SC2086
get $missing $without && exit 0
# shellcheck disable=SC2086
[ -z "$missing" ] || get $missing || {
    echo "tenmap: apt-get could not install:$missing" >&2
    exit 1
}
reported
