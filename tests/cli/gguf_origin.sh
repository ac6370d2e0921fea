# A model that is written from GGUF keeps llama.cpp's names and, for Llama and its descendants, the
# order of the rows of query and key projections: the tool says so.
"$fixtures" . gguf
t convert llama.gguf --to bf16 -o out.safetensors
t extract llama.gguf 'blk.0.attn_*' --to f16 -n --json -o part.safetensors | grep '"llama_cpp_names"'
t extract llama.gguf 'blk.0.ffn_*' --to f16 -o ffn.safetensors
t drop llama.gguf 'blk.*' --to f16 -o rest.safetensors
# The architecture decides whether rows are permuted: Qwen's are not.
LC_ALL=C sed 's/llama/qwen2/g' llama.gguf >qwen2.gguf
t convert qwen2.gguf --to bf16 -o qwen2.safetensors
# Renamed tensors have other names, but the same order of rows.
string() { printf "\\$(printf %03o ${#1})\0\0\0\0\0\0\0%s" "$1"; }
{
    printf 'GGUF\003\0\0\0\001\0\0\0\0\0\0\0\002\0\0\0\0\0\0\0'
    string general.architecture && printf '\010\0\0\0' && string llama
    string llama.attention.head_count && printf '\004\0\0\0\001\0\0\0'
    string blk.0.attn_q.weight && printf '\002\0\0\0\004\0\0\0\0\0\0\0\002\0\0\0\0\0\0\0'
    printf '\0\0\0\0\0\0\0\0\0\0\0\0'
} >floats.gguf
while [ $(($(wc -c <floats.gguf) % 32)) != 0 ]; do printf '\0' >>floats.gguf; done
head -c 32 /dev/zero >>floats.gguf
# Without --to, only the format changes; SafeTensors would not change at all, and blocks cannot stay.
t convert floats.gguf -o floats.safetensors
t ls floats.safetensors
t convert llama.gguf -o no.safetensors
t convert llama.safetensors -o no.safetensors
t rename floats.gguf 's/^blk\.0\.attn_q/model.layers.0.self_attn.q_proj/' -o renamed.safetensors
# Models of other origin have nothing to say, whatever they are called.
t convert llama.safetensors --to f16 -o plain.safetensors
t rename llama.safetensors 's/^model\.layers/blk/' -o names.safetensors
t convert llama.safetensors --to f16 --json -n -o no.safetensors | grep llama_cpp || true
