# Numbers in names: gaps are shown, and a number is recognized next to every separator.
numbered() { # FILE NAME...: a model of one-byte tensors with these names
    file=$1 json= at=0
    shift
    for name; do
        json="$json,\"$name\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[$at,$((at + 1))]}"
        at=$((at + 1))
    done
    json="{${json#,}}"
    printf "\\$(printf %o $((${#json} % 256)))\\$(printf %o $((${#json} / 256)))\0\0\0\0\0\0%s" "$json" >"$file"
    head -c "$at" /dev/zero | tr '\0' x >>"$file"
}
layers() { # PATTERN NUMBER...: three tensors for each number
    pattern=$1
    shift
    for n; do
        for kind in attn.q attn.v mlp.up; do
            printf "$pattern " "$n" "$kind"
        done
    done
}

# A missing layer is visible in the tree, and check reports it.
t ls --fold layers.safetensors -x 'model.layers.5.*' -x 'model.layers.8.*'
"$tool" drop layers.safetensors 'model.layers.5.*' 'model.layers.8.*' -o gap.safetensors >/dev/null
t check gap.safetensors
t check --json gap.safetensors
t check layers.safetensors
# torch's Sequential numbers layers without parameters too; their gaps are not reported.
numbered sequence.safetensors net.0.weight net.0.bias net.2.weight net.2.bias net.4.weight net.4.bias
t check --level warning sequence.safetensors
numbered half.safetensors $(layers 'h.%s.%s' 0 1 2 7 8 9)
t check --level warning half.safetensors

# Separators other than dots.
numbered dash.safetensors $(layers 'block-%s.%s' 0 1 2 3)
t ls --fold dash.safetensors
t info --top 0 dash.safetensors
numbered flat.safetensors w_a_000 w_a_001 w_a_002 w_b_000 w_b_001 w_b_002
t ls --fold flat.safetensors
t info --top 0 flat.safetensors
kohya=
for part in unet_down_blocks unet_up_blocks; do
    for i in 0 1 2; do
        for k in 0 1; do
            for end in lora_down.weight lora_up.weight alpha; do
                kohya="$kohya lora_${part}_${i}_attentions_${k}_proj_in.$end"
            done
        done
    done
done
numbered kohya.safetensors $kohya
t ls --fold kohya.safetensors
t info --top 0 kohya.safetensors
t ls --tree --depth 1 kohya.safetensors down
# Numbers inside a word count nothing.
numbered words.safetensors conv1.weight conv2.weight fc_2d.weight x.12345678901.weight
t ls --fold words.safetensors
