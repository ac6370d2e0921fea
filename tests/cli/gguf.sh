# GGUF files behind every command; the files are golden ones.
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
t convert types.gguf --to bf16 -o out.safetensors
t ls out.safetensors --dtype BF16 --tsv
t diff types.gguf out.safetensors --quiet
t diff shapes.gguf shapes.gguf
t hash shapes.gguf
t extract types.gguf t12 -o part.safetensors
