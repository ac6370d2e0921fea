# A LoRA is recognized whatever the program that wrote it calls its factors, and is not taken for
# the model that it adapts. Targets are names of modules; embeddings, whole tensors, rsLoRA, DoRA
# and the base are reported.
tensors() { # FILE NAME DTYPE SHAPE BYTES...
    file=$1
    shift
    { header_of "$@"; head -c "$data_bytes" /dev/zero | tr '\0' '\100'; } >"$file"
}
who() { "$tool" info --top 0 "$1" | sed -n '2,/size/p' | grep -v ' size '; }

echo "Old diffusers: the attention processors of a UNet, and its text encoder."
unet=down_blocks.0.attentions.0.transformer_blocks.0.attn1
tensors old.safetensors $unet.processor.to_q_lora.down.weight F32 [4,16] 256 \
    $unet.processor.to_q_lora.up.weight F32 [16,4] 256 \
    $unet.processor.to_out_lora.down.weight F32 [4,16] 256 \
    up_blocks.1.attentions.0.transformer_blocks.0.attn1.processor.to_k_lora.down.weight F32 [4,16] 256 \
    text_encoder.text_model.encoder.layers.0.self_attn.q_proj.lora_linear_layer.down.weight F32 [4,16] 256
who old.safetensors
tensors under.safetensors ${unet}_to_q_lora_down.weight F32 [8,16] 512 ${unet}_to_q_lora_up.weight F32 [16,8] 512 \
    ${unet}_to_q.alpha F32 [] 4
who under.safetensors
tensors xlabs.safetensors double_blocks.0.processor.qkv_lora1.down.weight F32 [16,32] 2048 \
    double_blocks.0.processor.qkv_lora1.up.weight F32 [96,16] 6144 \
    double_blocks.0.processor.proj_lora2.down.weight F32 [16,32] 2048
who xlabs.safetensors

echo "A numbered module keeps the name before its number."
tensors peft_unet.safetensors unet.$unet.to_out.0.lora_A.weight F32 [4,16] 256 \
    unet.$unet.to_out.0.lora_B.weight F32 [16,4] 256 unet.$unet.to_q.lora_A.weight F32 [4,16] 256 \
    unet.mid_block.ff.net.0.proj.lora_A.weight F32 [4,16] 256 unet.mid_block.ff.net.2.lora_A.weight F32 [4,16] 256
who peft_unet.safetensors
tensors sequential.safetensors 0.lora_A.weight F32 [4,16] 256 1.2.lora_A.weight F32 [4,16] 256
who sequential.safetensors
tensors kohya.safetensors lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_out_0.lora_down.weight F16 [4,8] 64 \
    lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_out_0.dora_scale F16 [8,1] 16
who kohya.safetensors

echo "PEFT: an embedding, an adapter with a name, modules that are saved whole, rsLoRA and DoRA."
base=base_model.model.model
mkdir peft
tensors peft/adapter_model.safetensors $base.embed_tokens.lora_embedding_A F32 [8,64] 2048 \
    $base.embed_tokens.lora_embedding_B F32 [16,8] 512 $base.layers.0.self_attn.q_proj.lora_A.tone.weight F32 [8,16] 512 \
    $base.layers.0.self_attn.q_proj.lora_B.tone.weight F32 [16,8] 512 \
    base_model.model.lm_head.weight F32 [4,4] 64 base_model.model.score.modules_to_save.default.weight F32 [4,4] 64 \
    base_model.model.score.modules_to_save.default.bias F32 [4] 16
who peft
cat >peft/adapter_config.json <<'END_CONFIG'
{"peft_type": "LORA", "lora_alpha": 16, "use_rslora": true, "use_dora": true, "modules_to_save": ["lm_head", "score"],
 "base_model_name_or_path": "maker/base-8B"}
END_CONFIG
who peft
"$tool" info --json peft | grep '"adapter"'
tensors dora.safetensors $base.layers.0.mlp.up_proj.lora_A.weight F32 [8,16] 512 \
    $base.layers.0.mlp.up_proj.lora_B.weight F32 [16,8] 512 \
    $base.layers.0.mlp.up_proj.lora_magnitude_vector F32 [16] 64
who dora.safetensors

echo "MLX stores factors transposed; torchtune, which has .weight, does not."
tensors mlx.safetensors model.layers.0.self_attn.q_proj.lora_a F32 [16,8] 512 \
    model.layers.0.self_attn.q_proj.lora_b F32 [8,16] 512
who mlx.safetensors
tensors torchtune.safetensors layers.0.attn.q_proj.lora_a.weight F32 [8,16] 512
who torchtune.safetensors

echo "llama.cpp: the factors are named after whole tensors, and alpha is metadata."
{
    printf GGUF && le 3 4 && le 2 8 && le 4 8
    text_pair general.architecture llama && text_pair general.type adapter
    text_pair general.base_model.0.name Base && word adapter.lora.alpha && le 6 4 && le $((0x41800000)) 4
    word blk.0.attn_q.weight.lora_a && le 2 4 && le 16 8 && le 8 8 && le 0 4 && le 0 8
    word blk.0.attn_q.weight.lora_b && le 2 4 && le 8 8 && le 16 8 && le 0 4 && le 512 8
} >lora.gguf
truncate -s $((($(wc -c <lora.gguf) + 31) / 32 * 32 + 1024)) lora.gguf
"$tool" info --top 0 lora.gguf | sed -n '2,/size/p' | grep -e base -e adapter

echo "A model that holds adapters beside its own weights is no adapter."
tensors both.safetensors model.layers.0.self_attn.q_proj.base_layer.weight F32 [16,16] 1024 \
    model.layers.0.self_attn.q_proj.lora_A.vision.weight F32 [8,16] 512 \
    model.layers.0.mlp.gate_proj.weight F32 [4,4] 64 model.layers.0.mlp.gate_proj.lora_A.vision.weight F32 [2,4] 32
"$tool" info --json both.safetensors | grep '"adapter"' || echo "no adapter"
t merge both.safetensors small.safetensors --dry-run -o union.safetensors
