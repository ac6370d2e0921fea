# Every example of --help, and of each command's --help, runs: it may find differences (exit 1), but
# nothing that is wrong. Only examples with addresses of a hub are not run.

golden=$(cd "$(dirname "$1")/../golden" && pwd)
# model BYTE FILE NAME DTYPE SHAPE SIZE...: writes these tensors; all bytes are BYTE.
model() {
    byte=$1 file=$2
    shift 2
    header_of "$@" >"$file"
    head -c "$data_bytes" /dev/zero | tr '\0' "$byte" >>"$file"
}
# llama BYTE FILE: a Llama of 24 layers.
llama() {
    set -- "$1" "$2" model.norm.weight F32 '[16]' 64 model.embed_tokens.weight BF16 '[32,16]' 1024 \
        lm_head.weight BF16 '[32,16]' 1024
    for layer in $(seq 0 23); do
        at=model.layers.$layer
        for part in input post_attention; do set -- "$@" $at.${part}_layernorm.weight BF16 '[16]' 32; done
        for part in q k v o; do set -- "$@" $at.self_attn.${part}_proj.weight BF16 '[16,16]' 512; done
        for part in gate up; do set -- "$@" $at.mlp.${part}_proj.weight BF16 '[32,16]' 1024; done
        set -- "$@" $at.mlp.down_proj.weight BF16 '[16,32]' 1024
    done
    model "$@"
}
# The models that examples name.
make_models() {
    mkdir llama tuned pointers loras unet .zfunc .config .config/fish .config/fish/completions
    llama '\076' llama/model.safetensors
    llama '\075' tuned/model.safetensors
    cat >llama/config.json <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "num_hidden_layers": 24,
 "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 32,
 "max_position_embeddings": 64, "torch_dtype": "bfloat16"}
JSON
    cp llama/config.json tuned
    for folder in base f32 bf16 a b models/llama data/llama; do mkdir -p $folder && cp llama/* $folder; done
    model '\076' more.safetensors ids I64 '[1]' 8 layer.0.weight F32 '[4,8]' 128 head.weight F32 '[2]' 8 \
        vision_tower.w F32 '[2]' 8 f8 F8_E4M3 '[8]' 8 mask U8 '[8]' 8
    "$tool" merge llama/model.safetensors more.safetensors -o model.safetensors
    "$tool" meta model.safetensors set ss_steps 100 format pt
    for copy in base tuned new merged; do cp llama/model.safetensors $copy.safetensors; done
    printf 'merge_method: linear\nmodels:\n- {model: a, parameters: {weight: 1}}\n' >recipe.yml
    head -c 60000 llama/model.safetensors >cut.safetensors
    hub=.cache/huggingface/hub/models--org--name
    mkdir -p $hub/blobs $hub/snapshots/1234567
    blob=$(sha256sum llama/model.safetensors | cut -d' ' -f1)
    cp llama/model.safetensors "$hub/blobs/$blob"
    ln -s "../../blobs/$blob" $hub/snapshots/1234567/model.safetensors
    model '\076' m.safetensors w F32 '[4]' 16
    model '\076' loras/one.safetensors q_proj.lora_A.weight F32 '[2,8]' 64 q_proj.lora_B.weight F32 '[8,2]' 64
    mkdir loras/adapter
    q=base_model.model.model.layers.0.self_attn.q_proj
    model '\076' loras/adapter/adapter_model.safetensors $q.lora_A.weight F32 '[2,16]' 128 $q.lora_B.weight F32 '[16,2]' 128
    echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 4}' >loras/adapter/adapter_config.json
    model '\076' unet.safetensors mid.to_q.weight F32 '[4]' 16
    model '\076' vae.safetensors decoder.weight F32 '[4]' 16
    cp unet.safetensors unet/model.safetensors
    "$tool" convert base --quantize fp8-channel -q -o base-fp8
    cp -r base-fp8 DeepSeek-V3
    "$fixtures" . gguf
    rm llama.safetensors
    for copy in model llama-Q4_K_M b; do cp llama.gguf $copy.gguf; done
    cp "$golden/good/gguf-version-2.gguf" model-f16.gguf
    cp "$golden/good/torch-plain.pt" pytorch_model.bin
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' \
        "$(sha256sum model.safetensors | cut -d' ' -f1)" "$(wc -c <model.safetensors)" >pointers/model.safetensors
    (cd llama && sha256sum config.json) | sed "s,  ,  llama/," >SHA256SUMS
}
mkdir given bin
ln -s "$tool" bin/tenmap
command -v jq >/dev/null || { printf '#!/bin/sh\ncat\n' >bin/jq && chmod +x bin/jq; }
command -v xxd >/dev/null || { printf '#!/bin/sh\ncat\n' >bin/xxd && chmod +x bin/xxd; }
(cd given && make_models) >/dev/null

examples_of() { "$tool" "$@" --help | sed -n '/^Examples:/,$p' | grep -e '^  tenmap' -e '^  eval' | sed 's/^  //'; }
{
    examples_of
    for command in $("$tool" --help | sed -n '/^Examples:/q; s/^  \([a-z]*\) .*/\1/p'); do examples_of "$command"; done
} >lines
PATH=$PWD/bin:$PATH EDITOR=true
export PATH EDITOR
ran=0
while IFS= read -r line; do
    case $line in *hf://*) continue ;; esac
    shell=sh
    case $line in eval*) command -v bash >/dev/null && shell=bash || continue ;; esac
    rm -rf run && cp -r given run
    status=0
    # /data is a folder of the machine; here it is one of the test.
    (cd run && HOME=$PWD $shell -c "$(printf '%s' "$line" | sed 's, /data, data,')") >said 2>&1 </dev/null || status=$?
    ran=$((ran + 1))
    [ $status -le 1 ] && ! grep '^tenmap: ' said || { echo "exit $status: $line" && cat said; }
done <lines
[ $ran -ge 60 ] || echo "only $ran examples were found"
echo "the others run"
