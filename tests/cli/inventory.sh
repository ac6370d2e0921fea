# All models below a folder: whole, sharded, broken, adapters, and what they share.
command -v script >/dev/null || skip "there is no script (util-linux) to make a terminal"
mkdir -p all/base all/tuned all/loras all/shards all/empty all/.hidden
cp layers.safetensors all/base/model.safetensors
echo '{"architectures": ["LlamaForCausalLM"]}' >all/base/config.json
cp -r sharded all/split
# A fine-tune of the first model: ten layers are the same, under other names.
"$tool" convert layers.safetensors --rule 'model.layers.[01].*=f16' -o t.safetensors >/dev/null
"$tool" rename t.safetensors 's/^model/base.model/' -o all/tuned/weights.safetensors >/dev/null
cp small.safetensors all/loras/a.safetensors
cp other.safetensors all/loras/b.safetensors
cp small.safetensors all/.hidden/model.safetensors
cp sharded/model-0000?-of-00003.safetensors all/shards
cp truncated.safetensors pointer.safetensors all/loras
ln -s .. all/loop
t inventory all
t inventory all --no-duplicates --depth 0
t inventory --json all/tuned
t inventory all/empty
t inventory nosuch
t inventory small.safetensors
script -qec "stty cols 80 rows 24; $tool inventory all --color never 2>/dev/null" /dev/null </dev/null | tr -d '\r' | wc -L
# Files that are not models cost next to nothing.
mkdir many
(cd many && seq 20000 | xargs touch)
timeout 300 "$tool" inventory many
