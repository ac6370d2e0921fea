# lora refuses what it cannot apply exactly: adapters for other models or of other kinds, unknown
# scales, shapes that do not match, values that are not finite. The message names the key, and
# nothing is written.
zeros() { header_of "$@" && head -c "$data_bytes" /dev/zero; }
zeros q.weight F32 '[4,6]' 96 q.bias F32 '[4]' 16 conv.weight F32 '[4,2,3,3]' 288 embed.weight F32 '[8,6]' 192 \
    square.weight F32 '[4,4]' 64 a.b_c.weight F32 '[4,4]' 64 a_b.c.weight F32 '[4,4]' 64 norm.weight F32 '[6]' 24 >base
# adapter NAME DTYPE SHAPE BYTES...: an adapter without settings.
adapter() { zeros "$@" >adapter.safetensors; }
# refused: says why the adapter is refused.
refused() { t lora base adapter.safetensors "$@" -o out; }
with() { # SETTINGS: adapter_config.json
    printf '{"peft_type": "LORA", %s}' "$1" >adapter_config.json
    refused
    rm adapter_config.json
}

echo "For another model: which keys, which shapes."
adapter lora_unet_k.lora_down.weight F32 '[1,6]' 24 lora_unet_k.lora_up.weight F32 '[4,1]' 16
refused
adapter unet.squared.lora_A.weight F32 '[1,6]' 24 unet.squared.lora_B.weight F32 '[4,1]' 16 \
    unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16
refused
adapter x.1.lora_A.weight F32 '[1,6]' 24 x.1.lora_B.weight F32 '[4,1]' 16 x.2.lora_A.weight F32 '[1,6]' 24 \
    x.3.lora_A.weight F32 '[1,6]' 24 x.4.lora_A.weight F32 '[1,6]' 24 x.5.lora_A.weight F32 '[1,6]' 24
refused
adapter lora_unet_a_b_c.lora_down.weight F32 '[1,4]' 16 lora_unet_a_b_c.lora_up.weight F32 '[4,1]' 16
refused
adapter unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16
refused --component text_encoder

echo "Shapes that do not match. Nothing broadcasts."
pair() { # A-SHAPE A-BYTES B-SHAPE B-BYTES [MODULE]
    adapter unet."${5:-q}".lora_A.weight F32 "$1" "$2" unet."${5:-q}".lora_B.weight F32 "$3" "$4"
    refused
}
pair '[1,5]' 20 '[4,1]' 16
pair '[1,1]' 4 '[4,1]' 16
pair '[1,6]' 24 '[1,1]' 4
pair '[2,6]' 48 '[4,1]' 16
pair '[1,4]' 16 '[6,1]' 24
pair '[6]' 24 '[4]' 16
pair '[1,2,3,1]' 24 '[4,1,1,1]' 16 conv
pair '[1,18]' 72 '[4,1]' 16 conv
pair '[1,2,3,3]' 72 '[4,1,3,3]' 144 conv
pair '[1,6]' 24 '[4,1]' 16 norm
adapter unet.q.diff F32 '[4,1]' 16
refused
adapter unet.q.diff_b F32 '[1]' 4
refused
adapter unet.square.diff_b F32 '[4]' 16
refused
adapter unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16 unet.q.dora_scale F32 '[1,6]' 24
refused
adapter unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16 unet.q.dora_scale F32 '[1]' 4
refused

echo "Ranks and scales."
pair '[0,6]' 0 '[4,0]' 0
adapter base_model.model.q.lora_A.weight F32 '[1,6]' 24 base_model.model.q.lora_B.weight F32 '[4,1]' 16
refused
with '"r": 1'
with '"r": 1, "lora_alpha": 1, "use_dora": true'
with "\"r\": 1, \"lora_alpha\": 1, \"alpha_pattern\": {\"$(printf '%0300d' 1)\": 2}"
with '"r": 2, "lora_alpha": 2'
with '"r": 1, "lora_alpha": "many"'
with '"r": 1, "lora_alpha": 0'
with '"r": 1, "lora_alpha": 1, "alpha_pattern": {"(?i)Q": 2}'
with '"r": 1, "lora_alpha": 1, "alpha_pattern": {"(q": 2}'
adapter unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16 unet.q.alpha F32 '[2]' 8
refused
{
    header_of unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16 unet.q.alpha F32 '[]' 4
    head -c 40 /dev/zero && printf '\0\0\200\177'
} >adapter.safetensors
refused

echo "Settings that cannot be read are no missing ones: the scale would be another."
adapter unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16
printf '{"lora_alpha": 16,' >adapter_config.json
refused
rm adapter_config.json
mkfifo adapter_config.json
refused
rm adapter_config.json
"$tool" meta adapter.safetensors set lora_adapter_metadata '{"unet.lora_alpha": 16,' -q
refused

echo "Patterns that would take hours to compile."
adapter base_model.model.q.lora_A.weight F32 '[1,6]' 24 base_model.model.q.lora_B.weight F32 '[4,1]' 16
with '"r": 1, "lora_alpha": 1, "alpha_pattern": {"((((q{99}){99}){99}){99})": 2}'
with '"r": 1, "lora_alpha": 1, "alpha_pattern": {"(q{2,99999})": 2}'

echo "Values that are not finite."
{
    header_of unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16
    head -c 24 /dev/zero && printf '\0\0\200\177\0\0\300\177\0\0\0\0\0\0\0\0'
} >adapter.safetensors
refused

echo "Factors without their other half, or twice."
adapter unet.q.lora_A.weight F32 '[1,6]' 24
refused
adapter unet.q.lora_magnitude_vector F32 '[4]' 16
refused
adapter unet.q.lora_A.one.weight F32 '[1,6]' 24 unet.q.lora_A.two.weight F32 '[1,6]' 24
refused

echo "fan_in_fan_out that the shapes contradict."
adapter base_model.model.q.lora_A.weight F32 '[1,4]' 16 base_model.model.q.lora_B.weight F32 '[6,1]' 24 \
    base_model.model.square.lora_A.weight F32 '[1,4]' 16 base_model.model.square.lora_B.weight F32 '[4,1]' 16
with '"r": 1, "lora_alpha": 1'

echo "Adapters of other kinds."
for key in hada_w1_a lokr_w1 oft_blocks oft_R.weight boft_R ia3_l on_input vera_lambda_b lora_E lora_mid.weight \
    lora_a token_adapter.trainable_tokens_delta; do
    adapter "lora_unet_q.$key" F32 '[4,4]' 64
    refused
done
adapter base_model.model.q.lora_A.weight F32 '[1,6]' 24 base_model.model.q.lora_B.weight F32 '[4,1]' 16
printf '{"peft_type": "LOHA"}' >adapter_config.json
refused
rm adapter_config.json
with '"r": 1, "lora_alpha": 1, "init_lora_weights": "pissa_niter_4"'
with '"r": 1, "lora_alpha": 1, "target_parameters": ["experts.gate_up_proj"]'
with '"r": 1, "lora_alpha": 1, "layer_replication": [[0, 1]]'
with '"r": 1, "lora_alpha": 1, "use_qalora": true'

echo "Whole tensors of another shape, keys of no LoRA, models that are no adapter."
adapter base_model.model.q.lora_A.weight F32 '[1,6]' 24 base_model.model.q.lora_B.weight F32 '[4,1]' 16 \
    base_model.model.embed.weight F32 '[8,5]' 160
with '"r": 1, "lora_alpha": 1'
adapter base_model.model.q.lora_A.weight F32 '[1,6]' 24 base_model.model.q.lora_B.weight F32 '[4,1]' 16 \
    base_model.model.embed.weight F32 '[9,6]' 216
with '"r": 1, "lora_alpha": 1'
rm out
adapter base_model.model.q.lora_A.weight F32 '[1,6]' 24 base_model.model.q.lora_B.weight F32 '[4,1]' 16 \
    base_model.model.norm.weight F32 '[6]' 24 base_model.model.norm.modules_to_save.default.weight F32 '[6]' 24
with '"r": 1, "lora_alpha": 1'
adapter unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16 unet.other F32 '[1]' 4
refused
t lora base base -o out
adapter unet.q.lora_A.weight F32 '[1,6]' 24 unet.q.lora_B.weight F32 '[4,1]' 16
t lora base adapter.safetensors:0 -o out
t lora base adapter.safetensors --scale 0 -o out
t lora base missing:0.5 -o out
t lora base -o out
rm -f out/config.json
ls out 2>/dev/null || echo "nothing is left"
