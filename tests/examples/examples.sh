#!/bin/sh
# Runs the examples on a demo model, and checks that the README shows examples/read.c unchanged.
set -eu
source=$1 examples=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP

"$examples/demo" "$folder/model.safetensors"
"$examples/read" "$folder/model.safetensors" | grep -qx '0.0485840*'
"$examples/show" "$folder" | grep -q '\[32, 64\] *model.layers.1.mlp.down_proj.weight = '
"$examples/engine" "$folder" | grep -q '^2 layers, width 32, vocabulary 128, BF16 weights, tied head$'
"$examples/stream" "$folder" | grep -q '^3 layers of at most [0-9]* bytes, .* resident at the end, sum [0-9a-f]*$'
if [ -x "$examples/modern" ]; then
    "$examples/modern" "$folder" | grep -q '^BF16     model.layers.1.mlp.down_proj.weight$'
    "$examples/modern" "$folder" model.layers.0.mlp.up_proj.weight | grep -qx -- '-10.0562'
else
    echo "SKIPPED: examples/modern.cpp was not built, for want of a C++ compiler"
fi
if "$examples/read" "$folder/none" 2>"$folder/error"; then exit 1; fi
grep -q 'no such file or folder' "$folder/error"

# The README's C block is the example without its first comment line.
awk '/^```c$/{on=1; next} /^```$/{if (on) exit} on' "$source/README.md" > "$folder/shown"
tail -n +2 "$source/examples/read.c" | cmp - "$folder/shown"
echo ok
