# Between folders, a model's companion files are copied. Norms and biases can be left as they are.
echo '{"model_type": "llama"}' >sharded/config.json
echo '{}' >sharded/generation_config.json
echo '{}' >sharded/tokenizer.json
echo 'text' >sharded/README.md
echo '{"tokens": 1}' >sharded/tokenizer_config.json
t convert sharded --to f16 -o half
ls half
t split sharded --max-shard-size 20KB -o pieces --dry-run | tail -2
t convert sharded --to f16 -o bare --no-config
ls bare
t convert sharded --to f16 -o one.safetensors
ls ./*.json 2>&1 || true
mkdir deep
t convert sharded --to f16 -o deep/one.safetensors --copy-config --json | grep copied
ls deep
# Existing files stay, unless --force is given. Copying into the input itself is refused.
mkdir kept && echo 'mine' >kept/config.json
t convert sharded --to f16 -o kept
cat kept/config.json
t convert sharded --to f16 -o kept --force
cat kept/config.json
t convert sharded --to f16 -o sharded --force

# No file is created with a name that a terminal would obey or not show, or that is not UTF-8.
cp -r sharded odd
for name in '\302\2335m' '\177' '\033[7m' '\342\200\256' '\342\200\213' '\233' '\303\251'; do
    echo '{}' >"odd/tokenizer$(printf "$name").json"
done
t convert odd --to f16 -o plain >/dev/null
ls plain | grep tokenizer

# A config.json that is not a file, or not JSON, is reported, and the new one has what the model
# needs.
rm odd/config.json && mkfifo odd/config.json
t convert odd --quantize fp8-channel -o new | grep -e 'cannot be changed' -e 'quantization_config'
head -n 2 new/config.json
rm -rf new odd/config.json && echo '[1]' >odd/config.json
t convert odd --quantize fp8-channel -o new | grep -e 'cannot be changed' -e 'quantization_config'
# Such a config.json in the output folder is not lost.
t convert odd --quantize fp8-channel --force -o odd | grep -e 'cannot be changed' -e 'quantization_config'
cat odd/config.json

# --min-rank.
t convert layers.safetensors --to f16 --min-rank 2 -o matrices.safetensors
t ls -s file matrices.safetensors model.norm model.embed layers.0.
t convert layers.safetensors --to f16 --min-rank 2 --rule model.norm.weight=bf16 -o ruled.safetensors
t ls ruled.safetensors model.norm
