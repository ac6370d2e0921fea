# The table of architectures: check --config finds nothing in models with the shapes of published
# ones, and finds each dimension that config.json gives otherwise.
"${fixtures%/*}/cli_published" . || skip "no room for sparse files"
models='Llama-3-8B Mistral-7B-v0.1 Qwen2.5-7B Qwen3-30B-A3B DeepSeek-V3 gpt-oss-20b Mixtral-8x7B-v0.1
    Phi-3-mini-4k gemma-2-9b t5-base whisper-large-v3 clip-vit-large-patch14'
for model in $models; do
    t check --config "$model"
    "$tool" info --json --top 0 "$model" | grep '^  "params":'
done

# The number of warnings, and the first of them, with another value for one key.
wrong() { # MODEL KEY VALUE
    cp "$1/config.json" kept.json
    sed -i "s/\"$2\": [0-9]*/\"$2\": $3/" "$1/config.json"
    if "$tool" check --all --config "$1" >findings; then echo "$1: $2 is not compared"; fi
    printf '%s, %s %s: %s, first: ' "$1" "$2" "$3" "$(grep -c '^warning' findings)"
    grep -m1 '^warning' findings
    mv kept.json "$1/config.json"
}
wrong Llama-3-8B num_key_value_heads 32
wrong Mistral-7B-v0.1 intermediate_size 11008
wrong Qwen2.5-7B num_attention_heads 32
wrong Qwen3-30B-A3B moe_intermediate_size 1024
wrong Qwen3-30B-A3B num_experts 64
wrong Qwen3-30B-A3B head_dim 64
wrong DeepSeek-V3 kv_lora_rank 256
wrong DeepSeek-V3 q_lora_rank 768
wrong DeepSeek-V3 qk_rope_head_dim 32
wrong DeepSeek-V3 v_head_dim 64
wrong DeepSeek-V3 n_shared_experts 2
wrong DeepSeek-V3 num_nextn_predict_layers 0
wrong gpt-oss-20b num_local_experts 128
wrong gpt-oss-20b head_dim 128
wrong Mixtral-8x7B-v0.1 num_local_experts 16
wrong Mixtral-8x7B-v0.1 num_hidden_layers 34
wrong Phi-3-mini-4k num_key_value_heads 8
wrong Phi-3-mini-4k intermediate_size 8064
wrong gemma-2-9b head_dim 128
wrong t5-base d_kv 128
wrong t5-base num_layers 10
wrong t5-base d_ff 2048
wrong whisper-large-v3 encoder_ffn_dim 4096
wrong whisper-large-v3 num_mel_bins 80
wrong whisper-large-v3 decoder_layers 40
wrong clip-vit-large-patch14 patch_size 16
wrong clip-vit-large-patch14 projection_dim 512

# What is left out on purpose is not missing: the text encoder of a T5 alone; an adapter of a few
# layers. Layers of a vision tower are not those of the language model, which text_config describes.
tensors() { # FILE NAME DTYPE SHAPE BYTES...
    file=$1
    shift
    { header_of "$@"; head -c "$data_bytes" /dev/zero; } >"$file"
}
mkdir part adapter tower olmo2
cp t5-base/config.json part
sed -i 's/"num_layers": 12/"num_layers": 1/' part/config.json
tensors part/model.safetensors encoder.block.0.layer.0.layer_norm.weight BF16 [768] 1536
t check --config --level warning part
cp Llama-3-8B/config.json adapter
tensors adapter/adapter_model.safetensors model.layers.5.self_attn.q_proj.lora_A.weight F32 [1,8] 32 \
    model.layers.5.self_attn.q_proj.lora_B.weight F32 [8,1] 32
t check --config adapter
cat >tower/config.json <<'END'
{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 8, "num_hidden_layers": 1}}
END
tensors tower/model.safetensors vision_tower.vision_model.encoder.layers.3.self_attn.q_proj.weight F32 [1,2] 8 \
    language_model.model.layers.0.self_attn.k_norm.weight F32 [256] 1024 \
    language_model.model.layers.0.input_layernorm.weight F32 [9] 36
t check --config --level warning tower
# OLMo 2 normalizes all heads together.
cat >olmo2/config.json <<'END'
{"model_type": "olmo2", "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1}
END
tensors olmo2/model.safetensors model.layers.0.self_attn.q_norm.weight F32 [8] 32 \
    model.layers.0.self_attn.k_norm.weight F32 [4] 16
t check --config --level warning olmo2

# An architecture that is not in the table, or names that are not: a note, and the rest runs.
echo '{"model_type": "unheard_of"}' >olmo2/config.json
t check --config --values olmo2
echo '{"model_type": "gpt2", "n_layer": 2}' >olmo2/config.json
t check --config --json olmo2 | grep code
# Numbers that no model has neither crash nor match.
echo '{"model_type": "llama", "hidden_size": 18446744073709551615, "num_attention_heads": 18446744073709551615,
 "head_dim": 18446744073709551615, "num_hidden_layers": 18446744073709551615}' >olmo2/config.json
t check --config --level warning olmo2
