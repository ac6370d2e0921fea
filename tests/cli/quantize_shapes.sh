# fp8-block: weights whose dimensions are not multiples of 128 are kept, and those that loaders join
# with them. transformers refuses 704x256 in a grid of 6x2 scales, and would read 160x128 in one of 2x1
# with blocks of 80x128.
weights() {
    header_of "$@"
    head -c $data_bytes /dev/zero | tr '\0' '\075'
}
mkdir model
weights model.layers.0.mlp.down_proj.weight BF16 [256,704] 360448 \
    model.layers.0.mlp.gate_proj.weight BF16 [704,256] 360448 \
    model.layers.0.mlp.up_proj.weight BF16 [704,256] 360448 \
    model.layers.0.self_attn.q_proj.weight BF16 [256,256] 131072 \
    model.layers.0.self_attn.k_proj.weight BF16 [64,256] 32768 \
    model.layers.0.self_attn.v_proj.weight BF16 [64,256] 32768 \
    model.layers.0.self_attn.o_proj.weight BF16 [256,256] 131072 \
    model.layers.1.self_attn.q_proj.weight BF16 [256,256] 131072 \
    model.layers.1.self_attn.k_proj.weight BF16 [128,256] 65536 \
    model.layers.1.self_attn.v_proj.weight BF16 [128,256] 65536 >model/model.safetensors
echo '{"model_type": "llama"}' >model/config.json
t convert model --quantize fp8-block -o fp8/
t ls fp8 --dtype 'f8*'
cat fp8/config.json
t convert model --quantize fp8-block --json -n -o none/ | grep kept_for_loaders
# Other schemes take these shapes.
t convert model --quantize fp8-channel -o channel/ | tail -1
t convert model --quantize fp8-channel --json -n -o none/ | grep kept_for_loaders
# A rule is obeyed, with a warning.
t convert model --quantize fp8-block --rule '*.gate_proj.weight=quantize' --rule '*.up_proj.weight=quantize' -o ruled/
t ls ruled --dtype 'f8*'
# Nothing is left to quantize.
weights a.weight F32 [160,128] 81920 >odd.safetensors
t convert odd.safetensors --quantize fp8-block -o none.safetensors
