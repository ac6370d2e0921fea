# A folder in gives a folder out, and config.json follows the dtype of the weights.
mkdir one
cp layers.safetensors one/model.safetensors
printf '{\n  "dtype": "bfloat16",\n  "model_type": "llama"\n}\n' >one/config.json
echo '{}' >one/tokenizer.json
t convert one --to f16 -o half
ls half
cat half/config.json
t convert one --to f16 --single -o single
ls single
t merge one -o merged
ls merged
t split one -o pieces
# Norms that are kept are few: the dtype is that of most elements.
t convert one --to f16 --keep norm -o most
grep dtype most/config.json
t convert one --rule 'model.norm*=f16' -o few
grep dtype few/config.json
# No config.json can say that weights are F8 without scales: they are converted when they are loaded.
t convert one --to f8_e4m3 -o small-floats
grep dtype small-floats/config.json
# Where config.json is not copied or not replaced, the tool prints what the output needs.
t convert one --to f16 -o half.safetensors
t convert one --to f16 --no-config -o bare
ls bare
mkdir there && cp one/config.json there
t convert one --to f16 -o there
t convert one/model.safetensors --to f16 -o one/half.safetensors
grep dtype one/config.json
t convert one --to f32 -o dry -n --json | grep '"config"'
t extract one model.layers.1. --to f32 -o part
grep dtype part/config.json
cp -r one itself
t convert itself --to f16 -o itself --force
grep dtype itself/config.json
# Both keys, at the top and in the part for text.
printf '{"torch_dtype": "bfloat16", "text_config": {"dtype": "bfloat16"}}\n' >one/config.json
t convert one --to f32 -o both
cat both/config.json
# What is not an object stays as it is.
echo '[]' >one/config.json
t convert one --to f32 -o odd
cat odd/config.json
t convert one --to f32 -o odd.safetensors
