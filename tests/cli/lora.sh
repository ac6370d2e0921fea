# lora adds the products of LoRA adapters to their base: W + scale * alpha / rank * (B @ A). Every
# dialect gives the same numbers, which are small enough to be computed by hand.

# floats NUMBER...: prints them as F32.
floats() {
    for number; do
        case $number in
        0) printf '\0\0\0\0' ;;
        1) printf '\0\0\200\077' ;;
        -1) printf '\0\0\200\277' ;;
        2) printf '\0\0\0\100' ;;
        3) printf '\0\0\100\100' ;;
        4) printf '\0\0\200\100' ;;
        8) printf '\0\0\0\101' ;;
        0.5) printf '\0\0\0\077' ;;
        *) echo "no bytes for $number" >&2 && return 1 ;;
        esac
    done
}
# values FILE OUT TENSOR...: shows these tensors of an output.
values() {
    from=$1
    shift
    for tensor; do "$tool" get "$from" "$tensor"; done
}

# The base: W is 2 x 3, the embedding 4 x 2, one convolution 2 x 1 x 1 x 2, another 2 x 2 x 1 x 1.
mkdir base
{
    header_of layers.0.q.weight F32 '[2,3]' 24 layers.0.q.bias F32 '[2]' 8 embed.weight F32 '[4,2]' 32 \
        conv.weight F32 '[2,1,1,2]' 16 point.weight F32 '[2,2,1,1]' 16 head.weight F32 '[2,2]' 16 ids I64 '[1]' 8
    floats 1 0 0 0 1 0 # W
    floats 1 1 # bias
    floats 0 0 0 0 1 1 0 0 # embedding
    floats 1 1 0 0 # convolution
    floats 1 0 0 1 # convolution of one point
    floats 0 0 0 0 1 0 # head, ids
} >base/model.safetensors
echo '{"model_type": "test", "torch_dtype": "float32"}' >base/config.json
echo '{}' >base/tokenizer.json

# peft FOLDER SETTINGS: begins an adapter; its tensors come from stdin.
peft() {
    mkdir "$1"
    printf '{"peft_type": "LORA", %s}' "$2" >"$1/adapter_config.json"
    cat >"$1/adapter_model.safetensors"
}
at=base_model.model

echo "Linear layers, embeddings, convolutions, and tensors that are stored whole."
{
    header_of $at.layers.0.q.lora_A.weight F32 '[1,3]' 12 $at.layers.0.q.lora_B.weight F32 '[2,1]' 8 \
        $at.embed.lora_embedding_A F32 '[1,4]' 16 $at.embed.lora_embedding_B F32 '[2,1]' 8 \
        $at.conv.lora_A.weight F32 '[1,1,1,2]' 8 $at.conv.lora_B.weight F32 '[2,1,1,1]' 8 \
        $at.point.lora_A.weight F32 '[1,2,1,1]' 8 $at.point.lora_B.weight F32 '[2,1,1,1]' 8 \
        $at.head.modules_to_save.default.weight F32 '[2,2]' 16 $at.layers.0.q.bias F32 '[2]' 8 \
        $at.score.weight F32 '[1,2]' 8
    floats 1 2 3 1 -1 # q: A, B
    floats 1 0 0 2 1 3 # embedding: A, B
    floats 1 2 0 1 # conv
    floats 1 1 1 -1 # point
    floats 1 2 3 4 2 3 8 8 # head, bias, score
} | peft all '"r": 1, "lora_alpha": 2, "modules_to_save": ["head", "score"]'
t lora base all -o merged
values merged layers.0.q.weight embed.weight conv.weight point.weight head.weight layers.0.q.bias score.weight ids
ls merged
t lora base all -o dry --dry-run --json
[ ! -e dry ] && echo "nothing was written"

echo "Scales: of all adapters, of one, and of both; several are added in order."
t lora base all:0.5 -o half.safetensors
values half.safetensors layers.0.q.weight
t lora base all:0.5 all/adapter_model.safetensors:0.25 -o two.safetensors --scale 2
values two.safetensors layers.0.q.weight

echo "rsLoRA, and ranks and alphas by module."
factors() { # FOLDER SETTINGS: rank 2 for q, whose product is [1 2 3] in row 0 and 0 in row 1
    {
        header_of $at.layers.0.q.lora_A.weight F32 '[2,3]' 24 $at.layers.0.q.lora_B.weight F32 '[2,2]' 16
        floats 1 2 3 0 0 0 1 0 0 0
    } | peft "$1" "$2"
}
factors rs '"r": 2, "lora_alpha": 4, "use_rslora": true'
t lora base rs -o rs.safetensors
values rs.safetensors layers.0.q.weight
factors pattern '"r": 8, "lora_alpha": 4, "rank_pattern": {"layers.\\d.q": 2}, "alpha_pattern": {"other": 1, "^layers.0.q": 2}'
t lora base pattern -o pattern.safetensors
values pattern.safetensors layers.0.q.weight

echo "A layer that stores its weight as inputs x outputs."
{
    header_of $at.layers.0.q.lora_A.weight F32 '[1,2]' 8 $at.layers.0.q.lora_B.weight F32 '[3,1]' 12
    floats 1 -1 1 2 3
} | peft fan '"r": 1, "lora_alpha": 1, "fan_in_fan_out": true'
t lora base fan -o fan.safetensors
values fan.safetensors layers.0.q.weight

echo "DoRA: rows get the norms of the magnitudes; of an embedding and of a transposed layer, columns."
{
    header_of $at.layers.0.q.lora_A.weight F32 '[1,3]' 12 $at.layers.0.q.lora_B.weight F32 '[2,1]' 8 \
        $at.layers.0.q.lora_magnitude_vector F32 '[2]' 8 $at.embed.lora_embedding_A F32 '[1,4]' 16 \
        $at.embed.lora_embedding_B F32 '[2,1]' 8 $at.embed.lora_magnitude_vector F32 '[2]' 8 \
        $at.conv.lora_A.weight F32 '[1,1,1,2]' 8 $at.conv.lora_B.weight F32 '[2,1,1,1]' 8 \
        $at.conv.lora_magnitude_vector F32 '[1,2,1,1]' 8
    floats 3 4 0 1 0 # q: A, B; W + BA = [4 4 0; 0 1 0]
    floats 8 2 # q: magnitudes
    floats 3 0 0 4 1 0 # embedding: column 0 becomes [3 0 1 4], column 1 stays [0 0 1 0]
    floats 1 2
    floats 2 -1 1 0 8 8 # conv: [3 0; 0 0]
} | peft dora '"r": 1, "lora_alpha": 1, "use_dora": true'
t lora base dora -o dora.safetensors
values dora.safetensors layers.0.q.weight embed.weight conv.weight

echo "kohya: underscores for dots, and an alpha for each module; without one it is the rank."
{
    header_of lora_unet_layers_0_q.lora_down.weight F32 '[1,3]' 12 lora_unet_layers_0_q.lora_up.weight F32 '[2,1]' 8 \
        lora_unet_layers_0_q.alpha F32 '[]' 4 lora_unet_conv.lora_down.weight F32 '[1,1,1,2]' 8 \
        lora_unet_conv.lora_up.weight F32 '[2,1,1,1]' 8 lora_te_text.lora_down.weight F32 '[1,3]' 12 \
        lora_te_text.lora_up.weight F32 '[2,1]' 8 lora_te_text.alpha F32 '[]' 4 \
        lora_unet_head.diff F32 '[2,2]' 16 lora_unet_layers_0_q.diff_b F32 '[2]' 8 lora_unet_point.alpha F32 '[]' 4
    floats 1 2 3 1 -1 2 1 2 0 1 0 0 0 0 0 1
    floats 1 2 3 4 1 -1 1
} >kohya.safetensors
t lora base kohya.safetensors -o kohya
values kohya layers.0.q.weight conv.weight head.weight layers.0.q.bias

echo "diffusers and AI-toolkit, old and new."
same() { # KEY_A KEY_B: an adapter with these keys gives what the first did.
    {
        header_of "$1" F32 '[1,3]' 12 "$2" F32 '[2,1]' 8
        floats 1 2 3 1 -1
    } >dialect.safetensors
    "$tool" lora base dialect.safetensors -q -o dialect --force >said 2>&1 || cat said
    "$tool" get dialect layers.0.q.weight | cmp - expected && echo "$1"
}
"$tool" lora base all:0.5 -q -o expected.safetensors >said
"$tool" get expected.safetensors layers.0.q.weight >expected
same unet.layers.0.q.lora_A.weight unet.layers.0.q.lora_B.weight
same transformer.layers.0.q.lora_A.default.weight transformer.layers.0.q.lora_B.default.weight
same diffusion_model.layers.0.q.lora_down.weight diffusion_model.layers.0.q.lora_up.weight
same unet.layers.0.q.lora.down.weight unet.layers.0.q.lora.up.weight
same layers.0.processor.q_lora.down.weight layers.0.processor.q_lora.up.weight
same text_encoder.layers.0.q.lora_linear_layer.down.weight text_encoder.layers.0.q.lora_linear_layer.up.weight
same lycoris_layers_0_q.lora_down.weight lycoris_layers_0_q.lora_up.weight

echo "A base whose names have the prefix of a single file, and one component of several."
t rename base 's/^/model.diffusion_model./' -o single.safetensors
t lora single.safetensors kohya.safetensors -o from_single.safetensors
{
    header_of text_encoder.layers.0.q.lora_A.weight F32 '[1,3]' 12 text_encoder.layers.0.q.lora_B.weight F32 '[2,1]' 8 \
        text_encoder_2.layers.0.q.lora_A.weight F32 '[1,3]' 12 text_encoder_2.layers.0.q.lora_B.weight F32 '[2,1]' 8
    floats 1 2 3 1 -1 3 3 3 1 1
} >encoders.safetensors
t lora base encoders.safetensors -o no
t lora base encoders.safetensors --component text_encoder_2 -o second.safetensors
values second.safetensors layers.0.q.weight

echo "llama.cpp: factors of a base in GGUF are named after whole tensors."
{
    printf GGUF && le 3 4 && le 1 8 && le 1 8
    text_pair general.architecture llama
    word blk.0.attn_q.weight && le 2 4 && le 3 8 && le 2 8 && le 0 4 && le 0 8
} >base.gguf
truncate -s $((($(wc -c <base.gguf) + 31) / 32 * 32)) base.gguf
floats 1 0 0 0 1 0 0 0 >>base.gguf
{
    printf GGUF && le 3 4 && le 2 8 && le 3 8
    text_pair general.architecture llama && text_pair general.type adapter
    word adapter.lora.alpha && le 6 4 && le $((0x40000000)) 4
    word blk.0.attn_q.weight.lora_a && le 2 4 && le 3 8 && le 1 8 && le 0 4 && le 0 8
    word blk.0.attn_q.weight.lora_b && le 2 4 && le 1 8 && le 2 8 && le 0 4 && le 32 8
} >adapter.gguf
truncate -s $((($(wc -c <adapter.gguf) + 31) / 32 * 32)) adapter.gguf
floats 1 2 3 0 0 0 0 0 1 -1 0 0 0 0 0 0 >>adapter.gguf
t lora base.gguf adapter.gguf -o gguf.safetensors
values gguf.safetensors blk.0.attn_q.weight
t lora base.gguf kohya.safetensors -o no

echo "A quantized base is written as plain numbers."
{
    header_of layers.0.q.weight F32 '[2,4]' 32
    floats 1 0 0 0 0 1 0 0
} >square.safetensors
"$tool" convert square.safetensors --quantize fp8-channel -q -o fp8 >said
{
    header_of layers.0.q.lora_A.weight F32 '[1,4]' 16 layers.0.q.lora_B.weight F32 '[2,1]' 8
    floats 1 2 3 0.5 1 -1
} | peft small_adapter '"lora_alpha": 1'
t lora fp8 small_adapter --to f16 -o plain
values plain layers.0.q.weight
t lora fp8 small_adapter -o shards --max-shard-size 10
echo "Or as codes and scales again: those of the merged values."
t lora fp8 small_adapter --quantize fp8-channel -o again
t ls again
"$tool" convert plain --to f32 --quantize int8-channel -q -o one >said
t lora fp8 small_adapter --to f32 --quantize int8-channel -q -o two
t diff one two
t lora base all --quantize fp8-block -o no
echo "A DoRA too: its norms are measured first."
t lora base dora --quantize int8-channel -o dora8

echo "As many patterns as modules: each is compiled once, and names are not compiled at all."
set --
for i in $(seq 100); do
    set -- "$@" l.$i.q.lora_A.weight F32 '[1,3]' 12 l.$i.q.lora_B.weight F32 '[2,1]' 8
done
{ header_of "$@" && head -c "$data_bytes" /dev/zero; } >adapter_model.safetensors
set --
for i in $(seq 100); do set -- "$@" l.$i.q.weight F32 '[2,3]' 24; done
{ header_of "$@" && head -c "$data_bytes" /dev/zero; } >many
{
    printf '{"peft_type": "LORA", "r": 1, "lora_alpha": 1, "alpha_pattern": {"l.[1-4].q": 8'
    seq -f ', "x.%.0f": 4' 6000
    printf ', "l\\\\.\\\\d{2}\\\\.q": 4, "100.q": 2}}'
} >adapter_config.json
timeout 60 "$tool" lora many adapter_model.safetensors -o out.safetensors -n --json | tr -d ' \n' |
    grep -o '"factor":[0-9]*' | uniq -c
rm adapter_config.json adapter_model.safetensors many
