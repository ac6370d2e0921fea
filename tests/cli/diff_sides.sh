# diff names both sides, recognizes what they are, chooses the options with which values can be
# compared, and shows the most changed tensor first.
"$fixtures" . gguf
"$(dirname "$fixtures")/cli_quantized" .

# One side is GGUF: its names are matched, whichever side it is.
t diff llama.safetensors llama.gguf --top 1
t diff llama.gguf llama.safetensors --rtol 0.01 --atol 0.002
t diff llama.safetensors llama.gguf --json --headers | sed -n '/"chosen_options"/,/"in_both"/p'
# Who gives names decides alone.
t diff llama.safetensors llama.gguf --rename 's/^lm_head/output/' output.weight --any-metadata
t diff llama.safetensors llama.gguf --as-stored lm_head.weight
t diff llama.gguf llama.gguf

# One side is quantized: its weights are compared, not its codes.
"$tool" convert fp8 --dequantize --to bf16 -o bf16 >/dev/null
t diff bf16 fp8
t diff fp8 bf16 --json | sed -n '/"chosen_options"/,/"in_both"/p'
t diff bf16 fp8 --as-stored --headers
t diff fp8 fp8
t diff fp8 fp8 --dequantize
t diff fp8 mixed.safetensors --headers
# One that cannot be dequantized is compared as it is stored.
{ header_of m.W_q U8 '[8]' 8 m.scale F32 '[2]' 8 && head -c 16 /dev/zero; } >hqq.safetensors
{ header_of m.weight F32 '[4]' 16 && head -c 16 /dev/zero; } >plain.safetensors
t diff plain.safetensors hqq.safetensors

# One side is a LoRA: nothing of it can be compared, and the output says what to do.
lora() { header_of q_proj.lora_A.weight F32 '[1,4]' 16 q_proj.lora_B.weight F32 '[4,1]' 16 && head -c 32 /dev/zero; }
lora >lora.safetensors
{ header_of q_proj.weight F32 '[4,4]' 64 && head -c 64 /dev/zero; } >base.safetensors
t diff base.safetensors lora.safetensors
t diff lora.safetensors base.safetensors --json | sed -n '/"notes"/,/]/p'
t diff lora.safetensors lora.safetensors

# No name in common.
{ header_of h.0.weight F32 '[4,4]' 64 && head -c 64 /dev/zero; } >other_names.safetensors
t diff base.safetensors other_names.safetensors
t diff base.safetensors other_names.safetensors --rename 's/q_proj/h.0/'

# The most changed first: a tensor that was zero, then by relative change, whatever the size of the
# values.
tensors() { header_of a F32 '[2]' 8 b F32 '[2]' 8 c F32 '[2]' 8 d F32 '[2]' 8 && printf "$1"; }
zero='\0\0\0\0\0\0\0\0' one='\0\0\200\77\0\0\200\77' two='\0\0\0\100\0\0\0\100' thousand='\0\0\172\104\0\0\172\104' more='\0\100\172\104\0\100\172\104'
tensors "$thousand$one$zero$one" >before.safetensors
tensors "$more$two$one$one" >after.safetensors
t diff before.safetensors after.safetensors
t diff before.safetensors after.safetensors --as-stored --map-names
