# merge does not apply a LoRA, so a LoRA among several inputs is refused unless --union asks for all
# tensors in one file.
{
    header_of layer.0.q_proj.lora_A.weight F32 '[2,4]' 32 layer.0.q_proj.lora_B.weight F32 '[4,2]' 32
    head -c 64 /dev/zero
} >lora.safetensors
{
    header_of layer.1.q_proj.lora_down.weight F32 '[2,4]' 32 layer.1.q_proj.lora_up.weight F32 '[4,2]' 32
    head -c 64 /dev/zero
} >second.safetensors
t merge small.safetensors lora.safetensors -o both.safetensors
t merge second.safetensors small.safetensors -o both.safetensors
t merge lora.safetensors second.safetensors -o both.safetensors
t merge sharded lora.safetensors --prefer last --dry-run -o both.safetensors
ls both.safetensors 2>&1 || true
t merge small.safetensors lora.safetensors --union -o both.safetensors
t ls both.safetensors lora
# A single adapter, whatever its shards, is only copied.
t merge lora.safetensors -o copy.safetensors
t merge small.safetensors layers.safetensors --union -o plain.safetensors
t merge --help | grep -i -e lora -e union
