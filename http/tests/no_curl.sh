#!/bin/sh
# What the tool says about addresses if libcurl is absent, too old or incomplete, and that it does
# everything else without libcurl:
#     no_curl.sh TENMAP FIXTURES FOLDER      of the built fake libraries (fake_curl.c)
# The fakes come first in the loader's search path, under all names that libcurl is looked for by.
set -eu
tenmap=$1 fixtures=$2 fakes=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
names="libcurl.so.4 libcurl-gnutls.so.4 libcurl-nss.so.4 libcurl.so"

# without NAME [LIBRARY]: a folder that hides the system's libcurl by this file, or by empty ones.
without() {
    mkdir "$work/$1"
    for name in $names; do
        cp "${2:-/dev/null}" "$work/$1/$name"
    done
}
without absent
without old "$fakes/libfake_curl_old.so"
without lacking "$fakes/libfake_curl_lacking.so"

# expect CASE STATUS TEXT COMMAND...: the status, and text that the command prints.
expect() {
    folder=$work/$1 expected=$2 text=$3 status=0
    shift 3
    LD_LIBRARY_PATH=$folder "$@" >"$work/out" 2>&1 || status=$?
    if [ "$status" != "$expected" ] || ! grep -qF -e "$text" "$work/out"; then
        echo "$*, libcurl ${folder##*/}: status $status instead of $expected, or no \"$text\" in:"
        cat "$work/out"
        exit 1
    fi
    echo "libcurl ${folder##*/}: $(head -n 1 "$work/out")"
}
address=https://127.0.0.1:1/model.safetensors
expect absent 3 "libcurl was not found" "$tenmap" info $address
expect absent 3 "install" "$tenmap" info hf://org/model
expect old 3 "libcurl.so.4 is libcurl 7.73.0, and 7.74.0 or newer is needed: install" \
    "$tenmap" info $address
expect lacking 3 "lacks the function curl_url_set" "$tenmap" ls s3://bucket/model.safetensors
expect absent 0 "libcurl was not found" "$tenmap" --version
expect old 0 "7.73.0, and 7.74.0 or newer is needed" "$tenmap" --version

# Models on disk need no libcurl.
mkdir "$work/models"
"$fixtures" "$work/models" >/dev/null
model=$work/models/small.safetensors
LD_LIBRARY_PATH=$work/absent "$tenmap" info "$model" >"$work/without"
"$tenmap" info "$model" >"$work/with"
[ -s "$work/with" ] || { echo "info prints nothing"; exit 1; }
diff "$work/with" "$work/without"
echo "info ${model##*/} prints the same without libcurl"
