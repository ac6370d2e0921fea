#!/bin/sh
# Writes the bindings with the library inside, as a release has them:
#     scripts/bindings-tree.sh FOLDER
# FOLDER/rust is the workspace of the crates tenmap-sys and tenmap, FOLDER/go the Go package. Each
# has the two files of scripts/amalgamate.py and the license. FOLDER must not exist or be empty.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: bindings-tree.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ -z "$(ls -A "$folder")" ] || { echo "$folder is not empty" >&2; exit 1; }
# What version control does not track (targets, generated files) stays where it is.
copy() {
    (cd "$root/bindings" && find "$1" -type f ! -path '*/target/*' ! -name Cargo.lock \
        ! -name LICENSE ! -name 'tenmap.[ch]' -print | LC_ALL=C sort >"$folder/list")
    [ -s "$folder/list" ] || { echo "there is nothing in bindings/$1" >&2; exit 1; }
    (cd "$root/bindings" && tar -cf - -T "$folder/list") | tar -xf - -C "$folder"
    rm "$folder/list"
}
copy rust
copy go
python3 "$root/scripts/amalgamate.py" "$folder/rust/tenmap-sys/c"
cp "$folder/rust/tenmap-sys/c/tenmap.c" "$folder/rust/tenmap-sys/c/tenmap.h" "$folder/go"
for place in rust/tenmap-sys rust/tenmap go; do
    cp "$root/LICENSE" "$folder/$place/LICENSE"
done
echo "$(find "$folder" -type f | wc -l) files in $folder"
