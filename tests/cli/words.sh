# Words that users know from other programs: dtypes, slices; and hints that can be followed.
t convert small.safetensors --to float16 -o a.safetensors
t ls a.safetensors -d half
t convert small.safetensors --to bfloat16 --rule temperature=fp16 -o b.safetensors
t ls b.safetensors layer.0.bias temperature
t convert small.safetensors --to fp8 -o no.safetensors
t convert small.safetensors --to f8_e4m4 -o no.safetensors
t convert small.safetensors --to float -o no.safetensors
t convert small.safetensors --rule layer=fp8 -o no.safetensors
t convert small.safetensors --to nonsense -o no.safetensors
t get small.safetensors 'embed.weight[0:2, 1]'
t get small.safetensors 'embed.weight[0:2]' --as half
t get small.safetensors 'embed.weigth[0:2]'
t get small.safetensors 'bytes[9]'
# Completion offers only what is possible.
"$tool" completion bash >completion
echo "to i32: $(grep -c -- '--to.*i32' completion), to f16: $(grep -c -- '--to.*f16' completion)"
# A truncated hint shows that it is truncated.
long=$(printf 'x%.0s' $(seq 100))
header="{\"$long\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"
printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%sx" "$header" >long.safetensors
t ls long.safetensors nothing
# Messages name options instead of the library's names.
header='{"a":{"dtype":"F31","shape":[1],"data_offsets":[0,1]}}'
printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%sx" "$header" >unknown.safetensors
t ls unknown.safetensors
t ls small.safetensors --max-header 10B

# Packed words are not parameters: 64 x 8 numbers of 4 bits in 8 x 8 words. Neither are scales.
header='{"l.qweight":{"dtype":"I32","shape":[8,8],"data_offsets":[0,256]},"l.qzeros":{"dtype":"I32","shape":[2,1],"data_offsets":[256,264]},"l.scales":{"dtype":"F16","shape":[2,8],"data_offsets":[264,296]},"norm":{"dtype":"F16","shape":[8],"data_offsets":[296,312]}}'
{ printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))\\0\\0\\0\\0\\0\\0%s" "$header"; head -c 312 /dev/zero; } >gptq.safetensors
t info --top 0 gptq.safetensors
t info --json --top 0 gptq.safetensors | grep -e params -e elements -e quantized
