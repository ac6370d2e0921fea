# --dequantize: quantized weights as the values that they stand for, wherever tensors are shown, and
# as plain models.
"$(dirname "$fixtures")/cli_quantized" .

# Without the option, a model is shown as it is stored; info still identifies it, with its real
# parameters.
t ls fp8
t info fp8
t info gptq | head -8
t info gptq --json | grep -e params -e scheme | head -5
t info mixed.safetensors | head -6
t info plain | head -7

# With the option, weights replace their codes and scales.
t ls fp8 --dequantize
t ls gptq --dequantize
t info fp8 --dequantize
t stats mixed.safetensors --dequantize
t get mixed.safetensors 'b.weight[0:2,0:8]' --dequantize
t get gptq 'model.layers.0.q_proj.weight[2:4,30:34]' --dequantize

# The plain model. config.json is copied without what no longer applies.
t convert fp8 --dequantize --to bf16 -o bf16
ls bf16
cat bf16/config.json
t diff fp8 bf16 --dequantize --any-dtype
t convert fp8 --dequantize -n -o f16
t convert gptq --dequantize -o gptq.safetensors
t diff gptq gptq.safetensors --dequantize
t convert gptq --dequantize --to bf16 -o gptq-bf16/ --json
cat gptq-bf16/config.json
t convert gptq --dequantize --to bf16 --no-config -o bare/
ls bare
mkdir kept && echo '{"mine": 1}' >kept/config.json
t convert gptq --dequantize -o kept
cat kept/config.json
t convert gptq --dequantize -o kept --force
cat kept/config.json
# In place: config.json describes the new model.
cp -r fp8 same
t convert same --dequantize --to bf16 -o same --force
cat same/config.json
t ls same
# A file beside the input: config.json still describes the input.
t convert gptq/model.safetensors --dequantize -o gptq/plain.safetensors
grep -c quantization_config gptq/config.json
rm gptq/plain.safetensors
# Values that do not fit the dtype are counted, as in every conversion.
t convert mixed.safetensors --dequantize --to f4 --strict -o lost.safetensors
t convert mixed.safetensors --dequantize --to f4 --saturate -o lost.safetensors
t convert mixed.safetensors --dequantize --rule 'b.weight=f8_e5m2' --to f32 -o ruled.safetensors
t ls -s file ruled.safetensors

# extract and hash: the values, the same as those of a plain model.
t extract gptq q_proj --dequantize -o one.safetensors
t ls one.safetensors
"$tool" hash --model gptq.safetensors >plain.hash
"$tool" hash --model gptq --dequantize | cut -d' ' -f1 >parts.hash
cut -d' ' -f1 plain.hash | cmp - parts.hash || echo "the plain model has another fingerprint"
t hash gptq --dequantize

# A model that only looks quantized opens as it is; with the option, the error says what is missing.
t ls looks.safetensors
t ls looks.safetensors --dequantize
t info looks.safetensors | tail -3
t convert looks.safetensors --dequantize -o none.safetensors --force
t stats unsure.safetensors --dequantize
t convert plain --dequantize --to f32 -o wide/
grep dtype wide/config.json
t convert gptq --dequantize --raw -o raw.safetensors
# Reports and pictures show the weights, not their codes and scales.
t report fp8 --dequantize --treemap map.svg -q
grep -o 'up_proj\.[a-z_]*, [^<]*' map.svg
# A scheme that the tool cannot dequantize.
hqq='{"m.W_q":{"dtype":"U8","shape":[8],"data_offsets":[8,16]},"m.scale":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '
{ printf "\\$(printf %03o ${#hqq})\\0\\0\\0\\0\\0\\0\\0%s" "$hqq"; printf '0123456789abcdef'; } >hqq.safetensors
t info hqq.safetensors | head -6
t convert hqq.safetensors --dequantize --to bf16 -o plain.safetensors
# A config.json that is not JSON, or that names another method, is named in the error message.
cp -r gptq broken && echo '{"quantization_config": ' >broken/config.json
t ls broken --dequantize
t ls broken
