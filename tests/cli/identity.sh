# What a model is, according to its config.json, its names and its metadata; and whether they agree.
mkdir llama
"$tool" convert sharded --to bf16 -o llama/model.safetensors >/dev/null
cat >llama/config.json <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 32,
 "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 12, "vocab_size": 64,
 "rope_scaling": {"factor": 8.0, "list": [1, [2, 3], {}]}, "tie_word_embeddings": true}
END
t info --top 0 llama
t info --json --top 0 llama/model.safetensors | grep -e architecture -e tied
t check --config llama --level warning

# Another vocabulary, and one layer too few; then one too many.
sed -i 's/"vocab_size": 64/"vocab_size": 96/; s/"num_hidden_layers": 12/"num_hidden_layers": 14/' llama/config.json
t check --config llama --level warning
t check --config --json llama/model.safetensors | grep config.json
sed -i 's/"num_hidden_layers": 14/"num_hidden_layers": 10/; s/"intermediate_size": 32/"intermediate_size": 48/' llama/config.json
t check --config llama --level warning
t check --all --config llama --level warning | sort | uniq -c | sort -rn | head -3
echo '{"model_type": "unheard_of"}' >llama/config.json
t check --config llama
echo '{"model_type": ' >llama/config.json
t info --top 0 llama | head -3
rm llama/config.json
t check --config llama

# Recognized by names; adapters, with their rank, alpha and targets.
tensors() { # FILE NAME DTYPE SHAPE BYTES...
    file=$1
    shift
    { header_of "$@"; head -c "$data_bytes" /dev/zero | tr '\0' '\100'; } >"$file"
}
who() { "$tool" info --top 0 "$1" | sed -n '2,/size/p'; }
tensors gpt.safetensors h.0.attn.c_attn.weight F32 [2,6] 48 && who gpt.safetensors
tensors unknown.safetensors a F32 [2,6] 48 && who unknown.safetensors
mkdir peft
tensors peft/adapter_model.safetensors base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight F32 [8,16] 512 \
    base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight F32 [16,8] 512 \
    base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight F32 [4,16] 256
who peft
echo '{"peft_type": "LORA", "lora_alpha": 32}' >peft/adapter_config.json
who peft
# The base of an adapter is on the first line, and in JSON.
echo '{"peft_type": "LORA", "lora_alpha": 32, "base_model_name_or_path": "maker/base-8B"}' >peft/adapter_config.json
who peft
"$tool" info --json peft | grep base_model
# The first line of a model: experts, context length and vocabulary; the context from its tokenizer.
mkdir first
cat >first/config.json <<'END'
{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 1, "vocab_size": 64,
 "num_experts": 4, "num_experts_per_tok": 1}
END
tensors first/model.safetensors model.embed_tokens.weight BF16 [64,2] 256 \
    model.layers.0.mlp.experts.0.up_proj.weight BF16 [4,2] 16 model.layers.0.mlp.experts.1.up_proj.weight BF16 [4,2] 16 \
    model.layers.0.mlp.experts.2.up_proj.weight BF16 [4,2] 16 model.layers.0.mlp.experts.3.up_proj.weight BF16 [4,2] 16
who first
echo '{"model_max_length": 32768}' >first/tokenizer_config.json
who first
"$tool" info --json first | grep -e '"params":' -e active_params -e context_length -e vocabulary -e stored_as | grep -v dtype
tensors kohya.safetensors lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_attn1_to_q.lora_down.weight F16 [16,4] 128 \
    lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_attn1_to_q.alpha F16 [] 2
who kohya.safetensors
tensors twice.safetensors model.embed_tokens.weight F32 [4] 16 lm_head.weight F32 [4] 16 && who twice.safetensors

# In JSON, an adapter and a quantization are objects, and info, diff and report have the same ones.
objects() { # FILE PATTERN: the matches in all three, without spaces, and how many have it
    {
        "$tool" info --top 0 --json "$1"
        "$tool" diff --headers --json "$1" "$1" | sed '/"b": {/,$d'
        "$tool" report -q --no-stats "$1" -o - | grep '^"model":'
    } | tr -d ' \n' | grep -o "$2" | sort | uniq -c
}
objects peft '"adapter":{[^}]*}'
objects kohya.safetensors '"adapter":{[^}]*}'
tensors fp8.safetensors x.weight F8_E4M3 [4,4] 16 x.weight_scale_inv F32 [1,1] 4
objects fp8.safetensors '"quantization":{[^]]*]}'
tensors gptq.safetensors x.qweight I32 [4,4] 64 x.scales F16 [1,4] 8
objects gptq.safetensors '"quantization":{[^}]*}'
# A target's name cannot end the script element that the report stores it in.
tensors hostile_target.safetensors 'm.</script>&'"'"'\"x.lora_A.weight' F32 [2,6] 48
"$tool" report -q --no-stats hostile_target.safetensors -o - | grep '^"model":'
