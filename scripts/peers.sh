#!/bin/sh
# Gets the peers that tests compare with, where a registry answers:
#
#     scripts/peers.sh FOLDER
#
# FOLDER/python becomes an environment with numpy, ml_dtypes, safetensors and gguf, beside what
# python3 has. It is left out if python3 has all four. FOLDER/nginx/usr/sbin/nginx becomes the nginx
# of Debian's package, unpacked and not installed, so that no service starts. It is left out if
# nginx is installed. What is already there is kept. A registry that does not answer is given up
# within seconds, and the tests that need what is missing report that they are skipped. Exits with
# 77 if Python's packages could not be had.
set -u
folder=$1
mkdir -p "$folder" || exit 1
folder=$(cd "$folder" && pwd)
packages="numpy ml_dtypes safetensors gguf"
python=$folder/python/bin/python
log=$folder/log

# At most five minutes, if there is a command that can limit it.
limited() {
    if command -v timeout >/dev/null 2>&1; then timeout 300 "$@"; else "$@"; fi
}

has_packages() { # has_packages PYTHON
    "$1" -c 'import numpy, ml_dtypes, safetensors, gguf' 2>/dev/null
}

# Wheels only: compiling numpy would take longer than all tests.
get_packages() {
    has_packages "$python" || has_packages python3 && return
    echo "tenmap: fetching $packages into $folder"
    # shellcheck disable=SC2086 # a list of words
    { python3 -m venv --system-site-packages "$folder/python" &&
        limited "$python" -m pip install -q --disable-pip-version-check --retries 0 --timeout 5 \
            --only-binary :all: --no-compile $packages; } >"$log" 2>&1 &&
        has_packages "$python" && return
    rm -rf "$folder/python"
    return 1
}

has_nginx() {
    [ -x "$folder/nginx/usr/sbin/nginx" ] ||
        PATH=$PATH:/usr/sbin:/sbin command -v nginx >/dev/null 2>&1
}

# The package that holds the program differs between releases.
get_nginx() {
    has_nginx && return
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || return
    for package in nginx nginx-light nginx-core; do
        rm -rf "$folder/nginx" && mkdir "$folder/nginx" || return
        (cd "$folder/nginx" &&
            limited apt-get -q -o Acquire::Retries=0 -o Acquire::http::Timeout=5 download $package &&
            dpkg-deb -x ./$package*.deb .) >"$log" 2>&1
        has_nginx && "$folder/nginx/usr/sbin/nginx" -v >"$log" 2>&1 && return
    done
    rm -rf "$folder/nginx"
    return 1
}

get_nginx || echo "tenmap: without nginx, a test of models behind a web server is skipped"
get_packages || {
    grep -v '^ *$' "$log" | tail -n 1
    echo "tenmap: without $packages, the tests that compare with them are skipped"
    exit 77
}
