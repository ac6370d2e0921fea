# blend: methods, recipes, and what is refused. Values are small enough to check by hand.
python=$(command -v python3 || true)
[ -n "$python" ] || skip "python3 writes the models"

# model FILE NAME=DTYPE:VALUES...: F32, BF16 (both of F32 values) or I64.
cat >model.py <<'END'
import json, struct, sys
header, data = {}, b""
for given in sys.argv[2:]:
    name, rest = given.split("=")
    dtype, values = rest.split(":")
    values = [float(x) for x in values.split(",")]
    if dtype == "I64":
        raw = struct.pack(f"<{len(values)}q", *map(int, values))
    elif dtype == "BF16":
        raw = b"".join(struct.pack("<f", x)[2:] for x in values)
    else:
        raw = struct.pack(f"<{len(values)}f", *values)
    header[name] = {"dtype": dtype, "shape": [len(values)], "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data)
END
model() { "$python" model.py "$@"; }
model base w=F32:1,1,1,1,1,1,1,1 n=BF16:1,2 ids=I64:1,2,3
model a w=F32:2,1,1.5,-3,1,1.25,1,0 n=BF16:3,2 ids=I64:1,2,3
model b w=F32:3,1,0.5,5,1,1.25,2,1 n=BF16:1,4 ids=I64:1,2,3
show() { "$tool" get "$1" w --json | tr -d ' \n' | sed 's/.*"values":\[\([^]]*\)\].*/w \1\n/'; }
show a

# linear: weights, divided by their sum unless --normalize no.
t blend a b -o o --force && show o
t blend a:3 b:1 -o o --force && show o
t blend a:1 b:-1 --normalize no -o o --force && show o
t blend a:1 b:-1 -o o --force
t blend a:0 b:0 --normalize no -o o --force
show o
t ls o

# slerp: ends, the middle of two orthogonal vectors, and nearly parallel ones.
model x w=F32:2,0,0 && model y w=F32:0,2,0
t blend x y --method slerp -o o --force && show o
t blend x y --method slerp --t 0 -o o --force && t diff x o
t blend x x y --method slerp -o o
t blend x:1 y --method slerp -o o
t blend base base --method slerp -o o

# task arithmetic: 1 + 0.5 * ((a - 1) + (b - 1)).
t blend a:0.5 b:0.5 --method task_arithmetic --base base -o o --force && show o
t blend a:0.5 b:0.5 --method task_arithmetic --base base --lambda 2 -o o --force && show o

# ties: of a's differences 1,0,.5,-4,0,.25,0,-1 a density of 0.5 leaves four; of b's 2,0,-.5,4,0,.25,1,0 too.
t blend a b --method ties --base base --density 0.5 -o o --force && show o
t blend a b --method ties --base base --density 0.5 --normalize no -o o --force && show o
t blend a --method ties --base base --density 0.25 -o o --force && show o
t blend a --method ties --base base --density 0 -o o --force && show o
# Of equal magnitudes, the first ones are left.
model c w=F32:2,0,2,0,2,0,2,0 n=BF16:1,2 ids=I64:1,2,3
t blend c --method ties --base base --density 0.375 -o o --force && show o

# dare: the same seed gives the same bytes with any number of threads, another seed others.
t blend c --method dare_linear --base base --density 0.5 -o o --force && show o
t blend c --method dare_linear --base base --density 0.5 --rescale density -o o --force && show o
t blend c --method dare_linear --base base --density 0.5 --rescale no --seed 1 -o o --force && show o
for threads in 1 3; do
    "$tool" blend a b --method dare_ties --base base --density 0.5 -j $threads -o dare$threads
done
cmp dare1 dare3 && echo the same file

# Recipes: YAML and JSON, filters, lists over layers, comments.
cat >recipe.yml <<'END'
# The average of two fine-tunes.
merge_method: linear
models:
- model: a
  parameters:
    weight: {value: 1}
- model: "b"
  parameters:
    weight:
      - filter: n    # a part of the name
        value: 0.0
      - value: 3
dtype: float32
END
t blend recipe.yml -o o --force && show o
t get o n
cat >recipe.json <<'END'
{"merge_method": "ties", "base_model": "base",
	"models": [{"model": "a", "parameters": {"weight": 1, "density": 0.5}},
	           {"model": "b", "parameters": {"weight": 1, "density": 0.5}}],
 "parameters": {"normalize": true, "int8_mask": true}}
END
t blend recipe.json -o o --force && show o
t blend recipe.json -o o --force --to bf16 --json
t blend recipe.json --method linear -o o
t blend recipe.json a -o o

# Layers: stacked, with values that change from layer to layer, and config.json that follows.
mkdir tall
cp layers.safetensors tall/model.safetensors
cat >tall/config.json <<'END'
{"num_hidden_layers": 12, "torch_dtype": "float32",
 "layer_types": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]}
END
cat >stack.yml <<'END'
merge_method: passthrough
slices:
  - sources:
      - {model: tall, layer_range: [0, 3]}
  - sources:
      - model: tall
        layer_range: [1, 3]
        parameters: {scale: [{filter: o_proj, value: 0}, {filter: q_proj, value: 2}]}
END
t blend stack.yml -o stacked -n --json
t blend stack.yml -o stacked
t stats stacked 'model.layers.[14].self_attn.[oq]_proj.weight'
cat stacked/config.json
t ls stacked '*norm*'
t extract layers.safetensors model.layers.1.mlp.up_proj.weight -o one.safetensors
t extract stacked model.layers.3.mlp.up_proj.weight -o three.safetensors
t diff --rename 's/layers.1/layers.3/' one.safetensors three.safetensors
cat >gradient.yml <<'END'
merge_method: slerp
base_model: tall
slices:
- base_model: tall
  sources:
  - {model: tall, layer_range: [0, 5]}
  - {model: layers.safetensors, layer_range: [4, 9]}
parameters:
  t: [0, 1]
END
t blend gradient.yml -o graded
sed -i 's/4, 9/9, 14/' gradient.yml
t blend gradient.yml -o none
sed -i 's/9, 14/0, 4/' gradient.yml
t blend gradient.yml -o none

# Quantized weights and GGUF files are blended by their values.
"$tool" convert layers.safetensors --rule '*q_proj*=quantize' --quantize int8-channel -q -o eight >quantized
"$tool" convert eight --dequantize -q -o plain.safetensors >dequantized
t blend eight layers.safetensors:3 -o of_codes.safetensors
t blend plain.safetensors layers.safetensors:3 -o of_values.safetensors
t diff of_codes.safetensors of_values.safetensors --any-dtype
"$fixtures" . gguf
cp llama.gguf second.gguf
t blend llama.gguf second.gguf:2 -o of_blocks.safetensors --to f32
t convert llama.gguf --to f32 -o plain.safetensors --force | tail -1
t diff plain.safetensors of_blocks.safetensors

# Models that do not match.
header_of q_proj.lora_A.weight F32 '[2,8]' 64 q_proj.lora_B.weight F32 '[8,2]' 64 >lora
head -c 128 /dev/zero >>lora
model short w=F32:1,2 n=BF16:1,2 ids=I64:1,2,3
model other w=F32:1,1,1,1,1,1,1,1 n=BF16:1,2 ids=I64:1,2,4
model extra w=F32:1,1,1,1,1,1,1,1 n=BF16:1,2 more=F32:1 ids=F32:1,2,3
t blend a short -o none
t blend a other -o none
t blend a extra -o none
t blend a small.safetensors -o none
t blend a lora -o none
t blend a b --method ties -o none
t blend a base --method ties --base base -o none
t blend a b --density 0.5 -o none
t blend a b --base a -o none
t blend a b --method ties --base base --density 2 -o none
t blend a b --to i8 -o none
t blend a b -o o
ls none 2>/dev/null || echo nothing is written

# Recipes that are refused, with the line.
refused() { # LINES...
    printf '%s\n' "$@" >bad.yml
    "$tool" blend bad.yml -o none 2>&1 || echo "exit $?"
}
refused 'merge_method: linear' 'models: [{model: a, weight: 1}]'
refused 'merge_method: linear' 'modles: []'
refused 'merge_method: breadcrumbs'
refused 'merge_method: linear' 'models:' '  - model: &x a'
refused 'merge_method: linear' 'models:' '	- model: a'
refused 'merge_method: linear' 'models: [{model: a}]'
refused 'merge_method: linear' 'models: []'
refused 'models: [{model: a}]'
refused 'merge_method: linear' 'slices: []' 'models: [{model: a}]'
refused 'merge_method: linear' 'models: [{model: a}, {model: a}]'
refused 'merge_method: linear' 'models: [{model: a}]' 'parameters: {density: 1}'
refused 'merge_method: linear' 'models: [{model: a}]' 'parameters: {wieght: 1}'
refused 'merge_method: linear' 'models: [{model: a}]' 'parameters: {weight: heavy}'
refused 'merge_method: linear' 'models: [{model: a}]' 'tokenizer_source: union'
refused 'merge_method: linear' 'models: [{model: a}]' 'modules: {}'
refused 'merge_method: linear' 'models: [{model: a}]' 'dtype: int3'
refused 'merge_method: slerp' 'models: [{model: a}, {model: b}]' 'parameters: {t: 1}'
refused 'merge_method: passthrough' 'slices: [{sources: [{model: a, layer_range: [0, 1]}]}]'
refused 'merge_method: passthrough' 'slices: [{sources: [{model: a, layer_range: [1, 1]}]}]'
refused 'merge_method: linear' 'models: |' '  text'
refused 'merge_method: linear' 'models: [{model: org/name, parameters: {weight: 1}}]'
t blend missing.yml -o none

echo "Many integers that differ, found by many threads: one of them is told."
names=$(seq -f 'ids%.0f=I64:1' 64)
model many $names
model differ $(seq -f 'ids%.0f=I64:2' 64)
"$tool" blend many differ -o none -j 8 2>&1 | sed 's/ids[0-9]*/ids*/'
