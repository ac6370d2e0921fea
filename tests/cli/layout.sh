# layout moves elements bit for bit: its inverse gives the same file back. Which experts a layer has,
# and how many heads, is checked against config.json.

# model FOLDER MODEL_TYPE 'KEY: VALUE, ...' NAME DTYPE SHAPE BYTES...: any bytes, so NaNs of all kinds.
model() {
    mkdir -p "$1"
    printf '{"model_type": "%s", %s}\n' "$2" "$3" >"$1/config.json"
    out=$1/model.safetensors
    shift 3
    header_of "$@" >"$out"
    seq 100000 | tr '0123456789\n' '\000\177\200\376\001\070\300\100\274\373\377' | head -c "$data_bytes" >>"$out"
    "$tool" rename "$out" s/none/none/ -o "$out" -f -q 2>/dev/null # in the order of the writer
}
same() { cmp "$1/model.safetensors" "$2/model.safetensors" && echo "$1 and $2 are the same file"; }

# Mixtral: the module of the experts has another name if they are stacked.
set -- model.embed_tokens.weight F32 '[4,3]' 48
for layer in 0 1; do
    at=model.layers.$layer.block_sparse_moe
    set -- "$@" $at.gate.weight BF16 '[3,3]' 18
    for e in 0 1 2; do
        set -- "$@" $at.experts.$e.w1.weight BF16 '[2,3]' 12 $at.experts.$e.w2.weight BF16 '[3,2]' 12 \
            $at.experts.$e.w3.weight BF16 '[2,3]' 12
    done
done
model mixtral mixtral '"num_local_experts": 3' "$@"
t layout mixtral --stack-experts -o stacked --dry-run
t layout mixtral --stack-experts -o stacked
t ls stacked
t layout stacked --split-experts -o back
same mixtral back
t layout mixtral --stack-experts --only 'model.layers.1.*' -o one --json
t layout mixtral --stack-experts -o shards --max-shard-size 60B
t layout shards --split-experts -o single --single
same mixtral single
t layout mixtral/model.safetensors --stack-experts -o one.safetensors
# Without config.json, --as says how they are arranged, and the names how many there are.
cp mixtral/model.safetensors mixtral.safetensors
mkdir bare && mv mixtral.safetensors bare
t layout bare/mixtral.safetensors --stack-experts -o bare/out.safetensors
t layout bare/mixtral.safetensors --stack-experts --as mixtral -o bare/out.safetensors
t layout bare/mixtral.safetensors --stack-experts --as moe -o bare/out.safetensors
t layout bare/mixtral.safetensors --stack-experts --as qwen3_moe -o bare/out.safetensors -f
t layout bare/out.safetensors --stack-experts --as mixtral -o bare/again.safetensors

# gpt-oss: stacked on the hub, gate and up take turns, biases, MXFP4 as blocks and scales.
at=model.layers.0.mlp.experts
set -- $at.gate_up_proj BF16 '[2,3,4]' 48 $at.gate_up_proj_bias BF16 '[2,4]' 16 $at.down_proj BF16 '[2,2,3]' 24 \
    $at.down_proj_bias BF16 '[2,3]' 12
model gpt-oss gpt_oss '"num_local_experts": 2' "$@"
t layout gpt-oss --split-experts -o split
t ls split
t get gpt-oss $at.gate_up_proj[0]
t get split $at.0.up_proj.weight
t layout split --stack-experts -o gpt-oss-back
same gpt-oss gpt-oss-back
set -- $at.gate_up_proj_blocks U8 '[2,4,1,16]' 128 $at.gate_up_proj_scales U8 '[2,4,1]' 8 \
    $at.gate_up_proj_bias BF16 '[2,4]' 16 $at.down_proj_blocks U8 '[2,32,1,16]' 1024 \
    $at.down_proj_scales U8 '[2,32,1]' 64 $at.down_proj_bias BF16 '[2,32]' 128
model mxfp4 gpt_oss '"num_local_experts": 2' "$@"
t layout mxfp4 --split-experts -o mxfp4-split
t ls mxfp4-split --dequantize
t layout mxfp4-split --stack-experts -o mxfp4-back
same mxfp4 mxfp4-back

# Llama 4: stacked with the inputs first, gate before up; the language model of a larger one.
at=language_model.model.layers.0.feed_forward.experts
set -- $at.gate_up_proj F16 '[2,3,4]' 48 $at.down_proj F16 '[2,2,3]' 24 language_model.model.layers.0.feed_forward.router.weight F16 '[2,3]' 12
mkdir -p llama4
model llama4 llama4 '"text_config": {"model_type": "llama4_text", "num_local_experts": 2}' "$@"
t layout llama4 --split-experts -o llama4-split -q
t ls llama4-split
t layout llama4-split --stack-experts -o llama4-back -q
same llama4 llama4-back

# DeepSeek's FP8: scales of blocks of 128 x 128 move with their weights.
set --
for e in 0 1; do
    at=model.layers.3.mlp.experts.$e
    for part in gate up; do
        set -- "$@" $at.${part}_proj.weight F8_E4M3 '[256,128]' 32768 $at.${part}_proj.weight_scale_inv F32 '[2,1]' 8
    done
    set -- "$@" $at.down_proj.weight F8_E4M3 '[128,256]' 32768 $at.down_proj.weight_scale_inv F32 '[1,2]' 8
done
model deepseek deepseek_v3 '"n_routed_experts": 2' "$@"
t layout deepseek --stack-experts -o deepseek-stacked
t ls deepseek-stacked
t layout deepseek-stacked --split-experts -o deepseek-back -q
same deepseek deepseek-back
t layout deepseek --stack-experts --dequantize --to bf16 -o deepseek-bf16
t layout deepseek --stack-experts --to bf16 -o no
model blocks deepseek_v3 '"n_routed_experts": 2, "quantization_config": {"weight_block_size": [512, 512]}' "$@"
t layout blocks --stack-experts -o no

# Fused rows: biases follow; the numbers of heads are from config.json or the command line.
set --
for layer in 0 1; do
    at=model.layers.$layer
    set -- "$@" $at.self_attn.q_proj.weight BF16 '[8,4]' 64 $at.self_attn.k_proj.weight BF16 '[4,4]' 32 \
        $at.self_attn.v_proj.weight BF16 '[4,4]' 32 $at.self_attn.q_proj.bias BF16 '[8]' 16 \
        $at.self_attn.k_proj.bias BF16 '[4]' 8 $at.self_attn.v_proj.bias BF16 '[4]' 8 \
        $at.mlp.gate_proj.weight BF16 '[6,4]' 48 $at.mlp.up_proj.weight BF16 '[6,4]' 48 \
        $at.mlp.down_proj.weight BF16 '[4,6]' 48
done
set -- "$@" vision_tower.layers.0.self_attn.q_proj.weight BF16 '[2,2]' 8 vision_tower.layers.0.self_attn.k_proj.weight BF16 '[2,2]' 8 \
    vision_tower.layers.0.self_attn.v_proj.weight BF16 '[2,2]' 8
heads='"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 8'
model qwen qwen2 "$heads" "$@"
t layout qwen --fuse qkv --fuse gate_up -o fused
t ls fused
t layout fused --split qkv --split gate_up -o qwen-back
same qwen qwen-back
cp fused/model.safetensors bare/fused.safetensors
t layout bare/fused.safetensors --split qkv -o bare/split.safetensors
t layout bare/fused.safetensors --split qkv --heads 4 --kv-heads 2 -o bare/split.safetensors
t layout bare/fused.safetensors --split qkv --heads 3 -o no.safetensors
t layout qwen --fuse qkv --heads 4 -o no
t layout fused --fuse qkv -o no
t layout qwen --split qkv -o no

# Transposed, in any dtype; also the last two axes of more.
t layout qwen --transpose '*.mlp.*' -o transposed
t layout transposed --transpose '*.mlp.*' -o straight -q
same qwen straight
t layout gpt-oss --transpose gate_up_proj --only '*proj' -o turned
t ls turned
t layout qwen --transpose '*.bias' -o no
t layout qwen --transpose nosuch -o no
"$fixtures" . gguf
t layout llama.gguf --transpose blk.0.ffn_up.weight --to bf16 -o no
t layout llama.gguf --fuse qkv -o no
t layout qwen --fuse gate_up --transpose '*.mlp.*' -o no

# Refused: a missing expert, one too many, unlike ones, parts that are not known.
refused() { # MESSAGE PATTERN: without the tensors of this name
    "$tool" drop mixtral "$1" -o refused -f -q >/dev/null && t layout refused --stack-experts -o no
}
refused 'model.layers.1.block_sparse_moe.experts.1.w3.weight'
refused '*.1.block_sparse_moe.experts.2.*'
refused '*.w2.weight'
refused '*.experts.*'
"$tool" drop mixtral '*.w3.weight' -o refused -f -q >/dev/null && t layout refused --stack-experts -o no
sed 's/3/2/' mixtral/config.json >refused/config.json
cp mixtral/model.safetensors refused
t layout refused --stack-experts -o no
cp stacked/model.safetensors refused
t layout refused --split-experts -o no
echo '{"model_type": "jamba"}' >refused/config.json
t layout refused --split-experts -o no
t layout refused --split-experts --as gpt_oss -o no
at=model.layers.0.mlp.experts
one="$at.0.gate_proj.weight F32 [2,3] 24 $at.0.up_proj.weight F32 [2,3] 24 $at.0.down_proj.weight F32 [3,2] 24"
model odd qwen3_moe '"num_experts": 2' $one $at.1.gate_proj.weight F32 '[3,3]' 36 $at.1.up_proj.weight F32 '[3,3]' 36 \
    $at.1.down_proj.weight F32 '[3,3]' 36
t layout odd --stack-experts -o no
model odd qwen3_moe '"num_experts": 1' $one $at.0.gate_proj.weight_scale F32 '[]' 4 $at.0.up_proj.weight_scale F32 '[]' 4
t layout odd --stack-experts -o no
model odd qwen3_moe '"num_experts": 1' $one $at.0.gate_proj.qweight I32 '[2]' 8
t layout odd --stack-experts -o no
model odd qwen3_moe '"num_experts": 1' $one $at.gate_up_proj F32 '[1,4,3]' 48
t layout odd --stack-experts -o no
t layout odd --split-experts -o no
at=model.layers.0.self_attn
model odd llama "$heads" $at.q_proj.weight F32 '[2,2]' 16 $at.k_proj.weight F32 '[2,2]' 16
t layout odd --fuse qkv -o no
model odd llama "$heads" $at.q_proj.qweight I32 '[2,2]' 16 $at.k_proj.qweight I32 '[2,2]' 16 $at.v_proj.qweight I32 '[2,2]' 16
t layout odd --fuse qkv -o no
model odd llama "$heads" $at.q_proj.weight I32 '[2,2]' 16 $at.q_proj.scales F16 '[2,2]' 8 $at.q_proj.biases F16 '[2,2]' 8
t layout odd --transpose q_proj.weight -o no
# Blocks of interleaved rows would have one scale for gate and up.
at=model.layers.0.mlp.experts
model odd gpt_oss '"num_local_experts": 1' $at.0.gate_proj.weight F8_E4M3 '[128,128]' 16384 \
    $at.0.gate_proj.weight_scale_inv F32 '[1,1]' 4 $at.0.up_proj.weight F8_E4M3 '[128,128]' 16384 \
    $at.0.up_proj.weight_scale_inv F32 '[1,1]' 4 $at.0.down_proj.weight F8_E4M3 '[128,128]' 16384 \
    $at.0.down_proj.weight_scale_inv F32 '[1,1]' 4
t layout odd --stack-experts -o no
model odd gpt_oss '"num_local_experts": 1' $at.gate_up_proj F8_E4M3 '[1,128,256]' 32768 \
    $at.gate_up_proj_scale_inv F32 '[1,1,2]' 8 $at.down_proj F8_E4M3 '[1,128,128]' 16384
t layout odd --split-experts -o no
# Shapes without elements take no space in a file, but each expert is a tensor.
model odd mixtral '"x": 1' $at.gate_up_proj F32 '[0,4,3]' 0 $at.down_proj F32 '[0,3,2]' 0
t layout odd --split-experts -o no
set --
for i in $(seq 20); do
    set -- "$@" $i.mlp.experts.gate_up_proj F32 '[32768,0,3]' 0 $i.mlp.experts.down_proj F32 '[32768,3,0]' 0
done
model odd mixtral '"x": 1' "$@"
t layout odd --split-experts -o no
at=model.layers.0.self_attn
model odd llama '"num_attention_heads": 2, "num_key_value_heads": 2' $at.q_proj.weight F32 '[5,2]' 40 \
    $at.k_proj.weight F32 '[4,2]' 32 $at.v_proj.weight F32 '[4,2]' 32
t layout odd --fuse qkv -o no
t layout mixtral -o no
t layout mixtral --fuse kv -o no
t layout mixtral --fuse qkv --split qkv -o no
t layout mixtral --stack-experts --split-experts -o no
t layout mixtral --stack-experts --to q4_k -o no
t layout mixtral --stack-experts
ls -d no no.safetensors 2>/dev/null || echo "nothing was written"
