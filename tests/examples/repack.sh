#!/bin/sh
# Runs examples/repack: a second run uses the cache, a model that was written again does not, many
# processes at once make one complete file, and a broken cache is made again.
#     repack.sh EXAMPLES-FOLDER
set -eu
examples=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
model=$folder/model.safetensors cache=$folder/cache

# Runs it, and checks how it got the panels: "repacked" or "cached".
expect() {
    "$examples/repack" "$model" "$cache" >"$folder/said"
    grep -q "^$1: " "$folder/said" || { echo "expected $1:"; cat "$folder/said"; exit 1; }
    sed 's/.*sum //' "$folder/said" >"$folder/sum"
    if [ -f "$folder/first" ]; then cmp "$folder/first" "$folder/sum"; fi
}
files() { find "$cache" -type f | wc -l; }

mkdir "$cache"
"$examples/demo" "$model"
expect repacked
cp "$folder/sum" "$folder/first"
expect cached
expect cached
[ "$(files)" -eq 1 ]

# Written again: other times, so another fingerprint, even if every byte is the same.
cp "$model" "$folder/copy"
sleep 0.1
cp "$folder/copy" "$model"
expect repacked
expect cached
[ "$(files)" -eq 2 ]

# Only what is in the file counts, and when it was written, not its path.
mv "$model" "$folder/moved.safetensors"
model=$folder/moved.safetensors
expect cached

# Many at once: every one gets a whole cache, and nothing else is left.
rm "$cache"/*
for i in 1 2 3 4 5 6 7 8; do
    "$examples/repack" "$model" "$cache" >"$folder/said.$i" &
done
wait
for i in 1 2 3 4 5 6 7 8; do
    sed 's/.*sum //' "$folder/said.$i" | cmp - "$folder/first"
done
[ "$(files)" -eq 1 ]

# A cache that another program cut off is made again.
for file in "$cache"/*; do
    head -c 1000 "$file" >"$folder/cut"
    cp "$folder/cut" "$file"
done
expect repacked
expect cached
[ "$(files)" -eq 1 ]

# Without a folder for it, the error says so.
if "$examples/repack" "$model" "$folder/none" 2>"$folder/error"; then exit 1; fi
grep -q '^repack: ' "$folder/error"
echo ok
