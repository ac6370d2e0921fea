#!/bin/sh
# Makes the models of docs/recipes.md and of tests/cli/week.sh: those of FIXTURES, also as GGUF, a
# LoRA and a hub's cache.
#
#     sh tests/cli/recipes/models.sh FIXTURES FOLDER
set -eu
fixtures=$(realpath "$1")
cd "$2"
"$fixtures" .
"$fixtures" . gguf

# A LoRA of rank 2 of layers.safetensors. All values are 0.186 (0x3e3e3e3e).
header='{"__metadata__":{"format":"pt","ss_base_model":"layers","ss_steps":"100"},"model.layers.0.self_attn.q_proj.lora_A.weight":{"dtype":"F32","shape":[2,16],"data_offsets":[0,128]},"model.layers.0.self_attn.q_proj.lora_B.weight":{"dtype":"F32","shape":[16,2],"data_offsets":[128,256]}}'
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
{
    printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\0\0\0\0\0\0%s" "$header"
    head -c 256 /dev/zero | tr '\0' '\076'
} >lora.safetensors

# The same in PEFT's form: with settings next to it.
mkdir adapter
cp lora.safetensors adapter/adapter_model.safetensors
echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 4}' >adapter/adapter_config.json

# A cache as hubs lay it out: blobs are named by their SHA-256, snapshots link to them.
put_blob() {
    repo=hub/models--$1 revision=$2 file=$3
    mkdir -p "$repo/blobs" "$repo/refs" "$repo/snapshots/$revision"
    sum=$(sha256sum "$file" | cut -d' ' -f1)
    cp "$file" "$repo/blobs/$sum"
    ln -s "../../blobs/$sum" "$repo/snapshots/$revision/model.safetensors"
    printf '%s' "$revision" >"$repo/refs/main"
}
put_blob org--tiny 1234567890abcdef1234567890abcdef12345678 layers.safetensors
put_blob org--copy abcdef1234567890abcdef1234567890abcdef12 layers.safetensors
