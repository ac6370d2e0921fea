# Quantized models store weights as several tensors: codes and scales. Converting one of these would
# silently make a wrong model, so it is refused unless --raw asks for it.
# make FILE, then NAME DTYPE SHAPE BYTES of each tensor: all zero.
make() {
    file=$1
    shift
    header_of "$@" >"$file"
    truncate -s +"$data_bytes" "$file"
}
refused() {
    make scaled.safetensors "$@"
    t convert scaled.safetensors --to bf16 -n -o out.safetensors
}
allowed() {
    make plain.safetensors "$@"
    "$tool" convert plain.safetensors --to bf16 -o out.safetensors --force
}
# Names as in DeepSeek, compressed-tensors, ModelOpt, GPTQ and AWQ, bitsandbytes, MLX, gpt-oss and
# others.
refused norm.weight F32 [4] 16 m.weight F8_E4M3 [4,4] 16 m.weight_scale_inv F32 [1,1] 4
refused m.weight F8_E4M3 [4,4] 16 m.weight_scale BF16 [1] 2 m.input_scale F32 [1] 4
refused m.weight I8 [4,4] 16 m.weight_scale F32 [4,1] 16 m.weight_zero_point I8 [4,1] 4
refused m.weight_packed I32 [4,1] 16 m.weight_scale F16 [4,1] 8 m.weight_shape I64 [2] 16
refused e.gate_up_proj_packed I32 [4,1] 16 e.gate_up_proj_scale F16 [4,1] 8
refused m.weight U8 [4,2] 8 m.weight_scale F8_E4M3 [4,1] 4 m.weight_scale_2 F32 [] 4
refused m.qweight I32 [4,1] 16 m.qzeros I32 [1] 4 m.scales F16 [4] 8 m.g_idx I32 [4] 16
refused m.weight U8 [8,1] 8 m.weight.absmax F32 [1] 4 m.weight.quant_map F32 [2] 8
refused m.weight BF16 [8,1] 16 m.weight.absmax F32 [1] 4 m.weight.quant_state.bitsandbytes__nf4 U8 [8] 8
refused m.weight I8 [4,4] 16 m.SCB F32 [4] 16
refused m.weight U32 [4,1] 16 m.scales F16 [4] 8 m.biases F16 [4] 8
refused m.weight F8_E4M3 [4,4] 16 m.scale_weight F32 [] 4
refused m.weight F8_E4M3 [4,4] 16 m.scale F32 [1,1] 4
refused m._weight_qdata F8_E4M3 [4] 4 m._weight_scale F32 [4] 16
refused m.weight._data I8 [4] 4 m.weight._scale F32 [4] 16
refused m.W_q U8 [4] 4 m.scale F16 [4] 8 m.zero F16 [4] 8
refused m.codes I16 [4] 8 m.codebooks F16 [4] 8 m.scales F16 [4] 8
refused m.B I32 [4] 16 m.s F16 [4] 8
refused m.W_q F16 [4] 8 m.scale F32 [4] 16 m.zero F32 [4] 16
make scaled.safetensors m.down_proj_blocks U8 [4,2] 8 m.down_proj_scales U8 [4] 4 m.down_proj_bias BF16 [4] 8
t convert scaled.safetensors --rule '*_scales=f32' -o out.safetensors
t convert scaled.safetensors --rule '*_blocks=f32' -o out.safetensors
t convert scaled.safetensors --to f32 -n -o out.safetensors

# Nothing is written. --raw converts anyway; --keep and rules that do not touch these tensors need
# no --raw.
make scaled.safetensors norm.weight F32 [4] 16 m.weight F8_E4M3 [4,4] 16 m.weight_scale_inv F32 [1,1] 4
t convert scaled.safetensors --to bf16 -o out.safetensors
t convert scaled.safetensors --rule 'm.weight_scale_inv=bf16' -o out.safetensors
t convert scaled.safetensors --rule 'm.weight=bf16' -o out.safetensors --json
ls out.safetensors 2>/dev/null || echo "nothing was written"
t convert scaled.safetensors --to bf16 --raw -n -o out.safetensors
t convert scaled.safetensors --to bf16 --keep 'm.*' -n -o out.safetensors
t convert scaled.safetensors --rule 'norm*=f16' -n -o out.safetensors
# Codes and scales in different shards are found.
t split scaled.safetensors --max-shard-size 16 -o pieces
t convert pieces --to bf16 -o out.safetensors

# Not quantized: a parameter called scale, scales or absmax beside plain numbers, or beside nothing.
allowed norm.scale F32 [4] 16 norm.bias F32 [4] 16
allowed norm.weight F32 [4] 16 norm.scale F32 [4] 16 norm.weight_scale F32 [4] 16
allowed m.weight F16 [4] 8 m.scales F16 [4] 8 m.weight_scale_inv F32 [4] 16
allowed m.weight F32 [4] 16 m.weight.absmax F32 [1] 4
allowed q_norm.scale F8_E4M3 [4] 4 proj.weight F8_E4M3 [4] 4 proj.bias F8_E4M3 [4] 4
allowed logit_scale F32 [] 4 position_ids I64 [4] 32 token_type_ids I32 [4] 16
allowed bn.weight F32 [4] 16 bn.num_batches_tracked I64 [] 8 mask U8 [4] 4 scale F32 [] 4
allowed attn.W_q F32 [4] 16 attn.scale F32 [] 4
allowed A F32 [4] 16 B F32 [4] 16 s F32 [4] 16 codes F32 [4] 16 codebooks F32 [4] 16
t convert small.safetensors --to bf16 -o out.safetensors --force
