# fit: weights and KV cache against calculations by hand, from the published configurations. Models
# are headers of published ones, without data.
"${fixtures%/*}/cli_published" . || skip "no room for sparse files"
"$fixtures" . gguf

field() { # MODEL KEY OPTION...: a number of fit --json
    model=$1 key=$2
    shift 2
    "$tool" fit --json "$@" "$model" | sed 's/[{,]/\n/g' | sed -n "s/^ *\"$key\": \([0-9]*\).*/\1/p" | head -1
}
agree() { # WHAT GOT EXPECTED
    if [ "$2" = "$3" ]; then echo "$1: $2"; else echo "$1: $2, by hand: $3"; fi
}

# Keys and values, layers, KV heads, size of a head, tokens, bytes of F16; windows cut the tokens.
cache() { # MODEL TOKENS VALUES
    agree "$1, $2 tokens" "$(field "$1" bytes --context "$2")" $(($3 * 2))
}
cache Llama-3-8B 8192 $((2 * 32 * 8 * 128 * 8192))
cache Llama-3-8B 8k $((2 * 32 * 8 * 128 * 8192))
cache Mistral-7B-v0.1 32k $((2 * 32 * 8 * 128 * 4096))
cache Qwen2.5-7B 32k $((2 * 28 * 4 * 128 * 32768))
cache Qwen3-30B-A3B 40960 $((2 * 48 * 4 * 128 * 40960))
cache DeepSeek-V3 128k $((61 * (512 + 64) * 131072))
cache gpt-oss-20b 128k $((2 * 8 * 64 * (12 * 131072 + 12 * 128)))
cache gpt-oss-20b 100 $((2 * 8 * 64 * 24 * 100))
cache Mixtral-8x7B-v0.1 32k $((2 * 32 * 8 * 128 * 32768))
cache Phi-3-mini-4k 4096 $((2 * 32 * 32 * 96 * 2047))
cache gemma-2-9b 8192 $((2 * 8 * 256 * (21 * 8192 + 21 * 4096)))
cache t5-base 512 $((2 * 12 * 12 * 64 * (512 + 512)))
cache whisper-large-v3 448 $((2 * 32 * 20 * 64 * (448 + 1500)))
cache clip-vit-large-patch14 77 0
# Without layer_types, every second layer of gpt-oss has a window.
cp -r gpt-oss-20b no-types
sed -i 's/"layer_types": \[[^]]*\],//' no-types/config.json
cache no-types 128k $((2 * 8 * 64 * (12 * 131072 + 12 * 128)))
# Qwen 2.5 with windows: in the layers from max_window_layers on.
cp -r Qwen2.5-7B windows
sed -i 's/"use_sliding_window": false, "sliding_window": 131072, "max_window_layers": 28/"use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 20/' windows/config.json
cache windows 32k $((2 * 4 * 128 * (20 * 32768 + 8 * 4096)))
# Several sequences, and other dtypes of the cache: 34 bytes for 32 values, and 18.
agree "batch of 16" "$(field Llama-3-8B bytes --batch 16)" $((16 * 2 * 2 * 32 * 8 * 128 * 8192))
agree "q8_0" "$(field Llama-3-8B bytes --cache-dtype q8_0)" $((2 * 32 * 8 * 128 * 8192 / 32 * 34))
agree "q4_0" "$(field Llama-3-8B bytes --cache-dtype q4_0)" $((2 * 32 * 8 * 128 * 8192 / 32 * 18))
agree "f8_e4m3" "$(field Llama-3-8B bytes --cache-dtype f8_e4m3)" $((2 * 32 * 8 * 128 * 8192))

# Parameters that one token uses: of experts, as many as the router chooses. DeepSeek's last layer
# predicts further tokens, and does not count.
active() { # MODEL EXPECTED
    agree "$1, active" "$(field "$1" active_params)" "$2"
}
active Qwen3-30B-A3B $((30532122624 - 48 * 3 * 2048 * 768 * (128 - 8)))
active Mixtral-8x7B-v0.1 $((46702792704 - 32 * 3 * 4096 * 14336 * (8 - 2)))
active gpt-oss-20b $((20914757184 - 24 * (3 * 2880 * 2880 + 3 * 2880) * (32 - 4)))
expert=$((3 * 7168 * 2048))
attention=$((7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168))
active DeepSeek-V3 $((2 * 129280 * 7168 + 7168 + 61 * (attention + 2 * 7168) + 3 * 3 * 7168 * 18432 +
    58 * (256 * 7168 + 256 + 9 * expert)))

# Weights. Llama 3 8B: 32 layers of these matrices, an embedding and a head, 65 norms.
weights() { # MODEL AS EXPECTED
    agree "$1 as $2" "$(field "$1" weight_bytes --as "$2")" "$3"
}
matrices=$((32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336)))
embedding=$((128256 * 4096)) norms=$((65 * 4096))
weights Llama-3-8B stored $((2 * (matrices + 2 * embedding + norms)))
weights Llama-3-8B bf16 $((2 * (matrices + 2 * embedding + norms)))
weights Llama-3-8B fp8 $((matrices + 2 * (2 * embedding + norms)))
weights Llama-3-8B int4 $((matrices / 256 * 133 + 2 * (2 * embedding + norms)))
weights Llama-3-8B q8_0 $(((matrices + 2 * embedding) / 32 * 34 + 4 * norms))
weights Llama-3-8B q6_k $(((matrices + 2 * embedding) / 256 * 210 + 4 * norms))
# Of 32 layers, 16 have more bits: 0 to 3, 28 to 31, and 6, 9, ... 27. Values and down projections
# are in Q6_K there; the head always is.
more=$((16 * (1024 * 4096 + 4096 * 14336) + embedding))
weights Llama-3-8B q5_k_m $(((matrices + 2 * embedding - more) / 256 * 176 + more / 256 * 210 + 4 * norms))
weights Llama-3-8B q4_k_m $(((matrices + 2 * embedding - more) / 256 * 144 + more / 256 * 210 + 4 * norms))
# Gemma's embedding is its head as well.
matrices=$((42 * (2 * 4096 * 3584 + 2 * 2048 * 3584 + 3 * 3584 * 14336)))
embedding=$((256000 * 3584)) norms=$(((42 * 4 + 1) * 3584))
more=$((21 * (2048 * 3584 + 3584 * 14336) + embedding))
weights gemma-2-9b q4_k_m $(((matrices + embedding - more) / 256 * 144 + more / 256 * 210 + 4 * norms))
# gpt-oss as stored: experts in MXFP4, 17 bytes for 32 values, and the rest in BF16.
experts=$((24 * 32 * 3 * 2880 * 2880))
weights gpt-oss-20b stored $((experts / 32 * 17 + 2 * (20914757184 - experts)))

# Mixtral: with eight experts, keys and values are in Q8_0 in every GGUF, also in Q6_K.
experts=$((32 * 8 * 3 * 4096 * 14336)) others=$((32 * 2 * 4096 * 4096 + 2 * 32000 * 4096))
keys=$((32 * 2 * 1024 * 4096)) plain=$((65 * 4096 + 32 * 8 * 4096))
weights Mixtral-8x7B-v0.1 q6_k $(((experts + others) / 256 * 210 + keys / 32 * 34 + 4 * plain))

# Files that llama.cpp made, by name, bytes and the beginning of their SHA-256. They have metadata, most
# of it the vocabulary, and all the tensors: the rest must be less than 10 MB.
file() { # MODEL BYTES
    ours=$(field "$1" weight_bytes --as q4_k_m)
    rest=$(($2 - ours))
    if [ $rest -gt 0 ] && [ $rest -lt 10000000 ]; then echo "$1: all but $rest of $2 bytes"
    else echo "$1: $ours bytes, but the file has $2"; fi
}
file Mistral-7B-v0.1 4368438912 # mistral-7b-v0.1.Q4_K_M.gguf, ce6253d2e91adea0
file Qwen2.5-7B 4683074240      # Qwen2.5-7B-Instruct-Q4_K_M.gguf, 65b8fcd92af6b4fe
file Qwen3-30B-A3B 18556685824  # Qwen3-30B-A3B-Q4_K_M.gguf, 0d003f6662faee78

# What it prints, and yes or no as the exit code.
t fit Llama-3-8B
t fit --memory 8GB --context 32k Qwen2.5-7B
t fit --memory 8GB --context 32k --as q4_k_m Qwen2.5-7B
t fit --memory 24GiB --batch 4 --tsv gpt-oss-20b
t fit --memory 1TB --json DeepSeek-V3
t fit --as bf16 t5-base whisper-large-v3 clip-vit-large-patch14
# As long as the context may be, one token more does not fit.
t fit --memory 16GB --as q6_k --tsv Llama-3-8B
most=$("$tool" fit --memory 7GB --as q6_k --tsv Llama-3-8B | awk -F '\t' 'NR == 2 { print $8 }')
agree "longest context" "$most" $(((7000000000 - $(field Llama-3-8B weight_bytes --as q6_k)) / (2 * 2 * 32 * 8 * 128)))
t fit --memory 7GB --as q6_k --context "$most" Llama-3-8B
t fit --memory 7GB --as q6_k --context $((most + 1)) Llama-3-8B

# GGUF has the same in its metadata: windows in every second layer of gpt-oss, DeepSeek's vectors,
# and layers without attention, which have no heads.
count_pair() { word "$1" && le 4 4 && le "$2" 4; }
gguf() { # ARCHITECTURE PAIRS, then pairs from stdin: one tensor of 4 x 32 zeros
    printf GGUF && le 3 4 && le 1 8 && le $(($2 + 1)) 8 && text_pair general.architecture "$1" && cat
    word token_embd.weight && le 2 4 && le 32 8 && le 4 8 && le 0 4 && le 0 8
}
finish() { # FILE: alignment and data
    size=$(wc -c <"$1")
    truncate -s $(((size + 31) / 32 * 32 + 512)) "$1"
}
{
    count_pair gpt-oss.block_count 4 && count_pair gpt-oss.embedding_length 32
    count_pair gpt-oss.attention.head_count 8 && count_pair gpt-oss.attention.head_count_kv 2
    count_pair gpt-oss.attention.key_length 16 && count_pair gpt-oss.attention.value_length 24
    count_pair gpt-oss.attention.sliding_window 128 && count_pair gpt-oss.context_length 4096
} | gguf gpt-oss 8 >windows.gguf && finish windows.gguf
cache windows.gguf 4096 $((2 * (16 + 24) * (2 * 4096 + 2 * 128)))
{
    count_pair deepseek2.block_count 5 && count_pair deepseek2.attention.head_count 16
    count_pair deepseek2.attention.kv_lora_rank 512 && count_pair deepseek2.rope.dimension_count 64
} | gguf deepseek2 4 >latent.gguf && finish latent.gguf
cache latent.gguf 1000 $((5 * (512 + 64) * 1000))
# Layers that predict further tokens are in block_count, but have no cache.
{
    count_pair deepseek2.block_count 5 && count_pair deepseek2.attention.head_count 16
    count_pair deepseek2.attention.kv_lora_rank 512 && count_pair deepseek2.rope.dimension_count 64
    count_pair deepseek2.nextn_predict_layers 1
} | gguf deepseek2 5 >further.gguf && finish further.gguf
cache further.gguf 1000 $((4 * (512 + 64) * 1000))
# A file may list the layers with windows, whatever its architecture is, or say that every n-th has
# none. OLMo 3 has the architecture olmo2, and by default every fourth layer has no window.
window_pairs() { # ARCHITECTURE: 6 pairs, with 8 layers
    count_pair "$1.block_count" 8 && count_pair "$1.attention.head_count" 2
    count_pair "$1.attention.head_count_kv" 2 && count_pair "$1.attention.key_length" 16
    count_pair "$1.attention.value_length" 16 && count_pair "$1.attention.sliding_window" 64
}
for architecture in gemma3 other; do
    {
        window_pairs $architecture && word $architecture.attention.sliding_window_pattern && le 9 4 && le 7 4 && le 8 8
        le 1 1 && le 0 2 && le 1 1 && le 0 4
    } | gguf $architecture 7 >listed-$architecture.gguf && finish listed-$architecture.gguf
    cache listed-$architecture.gguf 1000 $((2 * 2 * 16 * (6 * 1000 + 2 * 64)))
done
{ window_pairs gemma3 && count_pair gemma3.attention.sliding_window_pattern 3; } | gguf gemma3 7 >third.gguf && finish third.gguf
cache third.gguf 1000 $((2 * 2 * 16 * (2 * 1000 + 6 * 64)))
window_pairs olmo2 | gguf olmo2 6 >olmo3.gguf && finish olmo3.gguf
cache olmo3.gguf 1000 $((2 * 2 * 16 * (2 * 1000 + 6 * 64)))
{
    count_pair other.block_count 4 && count_pair other.attention.head_count 8
    count_pair other.attention.key_length 16
    word other.attention.head_count_kv && le 9 4 && le 5 4 && le 4 8 && le 2 4 && le 0 4 && le 4 4 && le 0 4
    text_pair general.base_model.0.name Base && text_pair general.base_model.0.organization Maker
} | gguf other 6 >hybrid.gguf && finish hybrid.gguf
cache hybrid.gguf 1000 $((2 * 16 * (2 + 4) * 1000))
t fit --as stored hybrid.gguf
# Without any metadata of that kind, only the weights are known.
t fit llama.gguf
t fit --memory 1MB layers.safetensors
# An adapter has no cache of its own; an unknown architecture is taken as an ordinary one.
{ header_of m.layers.0.self_attn.q_proj.lora_A.weight F32 [2,8] 64; head -c 64 /dev/zero; } >lora.safetensors
t fit --as stored lora.safetensors
mkdir other
cp layers.safetensors other
echo '{"model_type": "unheard_of", "num_hidden_layers": 12, "num_attention_heads": 4, "hidden_size": 16}' >other/config.json
t fit --context 100 --as stored other
# Numbers that no model has.
echo '{"model_type": "llama", "num_hidden_layers": 90000, "num_attention_heads": 18446744073709551615,
 "head_dim": 18446744073709551615, "max_position_embeddings": 18446744073709551615}' >other/config.json
t fit --context 1M --as stored --memory 1GB --tsv other

# More context than the model was made for is a limit as well, if that is asked for.
t fit --memory 24GB --context 32k --as int4 Llama-3-8B
# No memory is not no limit.
t fit --memory 0 Llama-3-8B
t fit --memory 0GB --tsv Llama-3-8B

t fit --context 32q Llama-3-8B
t fit --context 0 Llama-3-8B
t fit --batch 0 Llama-3-8B
t fit --as q4 Llama-3-8B
t fit nothing.safetensors
