# GGUF files with every command; the files are golden ones.
golden=$(dirname "$1")/../golden
cp "$golden/good/gguf-metadata.gguf" metadata.gguf
cp "$golden/good/gguf-shapes.gguf" shapes.gguf
cp "$golden/good/gguf-every-type.gguf" types.gguf
cp "$golden/bad/gguf-truncated.gguf" cut.gguf

t ls shapes.gguf
t ls types.gguf --dtype Q4_K
t meta metadata.gguf
t meta metadata.gguf get array
t meta metadata.gguf get f32
t meta metadata.gguf --tsv
t meta metadata.gguf set a b
t check types.gguf
t check cut.gguf
t stats shapes.gguf rows
t get shapes.gguf rows[0,30:34]
t get types.gguf t12[:4] --tsv
t get types.gguf t12[:4] --as q4_k
t get types.gguf t12[:4] --as q8_0
t convert types.gguf --to bf16 -o out.safetensors
t ls -s file out.safetensors --dtype BF16 --tsv
t diff types.gguf out.safetensors --as-stored --quiet
t diff shapes.gguf shapes.gguf
t hash shapes.gguf
t extract types.gguf t12 -o part.safetensors
t extract types.gguf t12 t24 --to f16 -o part.safetensors
t ls part.safetensors
t drop types.gguf 't[0-9]' 't1?' --to bf16 -o part.safetensors --force
t split types.gguf -o parts --max-shard-size 4kb

# What a file's metadata says about it.
"$fixtures" . gguf
t info llama.gguf
t info llama.gguf --json --top 0
t info shapes.gguf

# The same model in both formats: names, experts, and rows of heads in llama.cpp's order.
t diff llama.safetensors llama.gguf --map-names
t diff llama.gguf llama.safetensors --map-names --rtol 0.01 --atol 0.002
t diff llama.safetensors llama.gguf --map-names 'blk.0.attn_k.bias' 'model.layers.1.*' -x blk.1.ffn_gate_inp
t diff llama.safetensors llama.gguf --map-names --headers --json
t diff llama.safetensors llama.gguf lm_head.weight output.weight --any-metadata --as-stored
t diff llama.safetensors llama.gguf lm_head.weight --rename 's/lm_head/output/' --any-metadata
t diff llama.safetensors llama.gguf --rename 's/.*/output.weight/'
t diff llama.safetensors llama.gguf --rename 's/('

# A changed block is seen by a comparison and by a report.
cp llama.gguf other.gguf
size=$(wc -c <other.gguf)
printf '\177' | dd of=other.gguf bs=1 seek=$((size - 5)) conv=notrunc 2>/dev/null
t diff llama.gguf other.gguf
t report -q other.gguf --compare llama.gguf -o page.html
sed -n '/^"metadata":/p; /^"stats":/,/^"max":/p; /^"diff":/,/^"change":/p' page.html

# Arrays are shown by their first elements, but compared to their last.
LC_ALL=C sed 's/\(.*\)the/\1thy/' llama.gguf >words.gguf
t diff llama.gguf words.gguf
t diff llama.gguf words.gguf --json

# Block values that mean nothing without the scale tensor beside them.
t get nvfp4.gguf w.weight[0,:4]
t convert nvfp4.gguf --to bf16 -o out.safetensors --force
t convert nvfp4.gguf --dequantize --to bf16 -o out.safetensors --force
t get out.safetensors w.weight[0,:4]
t extract nvfp4.gguf w.weight --to bf16 -o out.safetensors --force
t info nvfp4.gguf --top 0
