# Blocks, such as Q4_K, are read from GGUF but cannot be written: --to and --rule say so, whatever the
# tensor is stored in.
cp "$(dirname "$1")/../golden/good/gguf-every-type.gguf" types.gguf
t convert small.safetensors --to q4_k -o no.safetensors
t convert small.safetensors --rule 'embed*=q8_0' -o no.safetensors
t convert small.safetensors --quantize fp8-channel --to iq4_nl -o no.safetensors
t extract small.safetensors embed --to q4_0 -o no.safetensors
t drop small.safetensors ids --to q6_k -o no.safetensors
t convert types.gguf --to q4_k -o no.safetensors
# Without --to, the tensor that is stored in blocks is named.
t extract types.gguf '*' -o no.safetensors
ls no.safetensors 2>&1 || true
