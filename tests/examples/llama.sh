#!/bin/sh
# Tests the engine of examples/llama on a small random model: its command line, options that must
# not change its ids, an error message for every bad input, and its logits against plain Python.
# tests/peers/llama.sh compares it with transformers.
#     tests/examples/llama.sh EXAMPLES [TENMAP]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
examples=$1 tenmap=${2-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
model=$work/model
mkdir "$model"
"$examples/random" "$model"

fail() {
    echo "FAILED: $*"
    exit 1
}

run() { "$examples/llama" "$@"; }

# same WHAT ARGUMENT...: with these arguments, the output is the same as the first.
same() {
    what=$1
    shift
    run "$@" >"$work/again" || fail "$what"
    cmp -s "$work/first" "$work/again" || fail "$what: $(cat "$work/again") instead of $(cat "$work/first")"
}

run "$model" --ids 1,2,3 -n 40 >"$work/first"
grep -qE '^[0-9]+( [0-9]+){39}$' "$work/first" || fail "40 ids on one line: $(cat "$work/first")"
for threads in 1 2 3 4; do
    same "$threads threads" "$model" --ids 1,2,3 -n 40 --threads $threads
done
same "a folder with a slash at its end" "$model/" --ids 1,2,3 -n 40
same "the file instead of its folder" "$model/model.safetensors" --ids 1,2,3 -n 40
same "other orders of options" -n 40 --ids 1,2,3 --temperature 0 "$model" --seed 7

# Feeds the output back as a prompt: the cache holds what the prompt would have put there.
read -r a b c rest <"$work/first"
run "$model" --ids "1,2,3,$a,$b,$c" -n 37 >"$work/again"
[ "$rest" = "$(cat "$work/again")" ] || fail "a prompt at once and one by one"
long=$(seq -s, 0 99)
run "$model" --ids "$long" -n 3 >"$work/again"
grep -qE '^[0-9]+ [0-9]+ [0-9]+$' "$work/again" || fail "a prompt of 100 ids"

run "$model" --ids 1,2,3 -n 40 --eos "$c" >"$work/again"
case $(cat "$work/again") in
*"$c") ;;
*) fail "--eos $c: $(cat "$work/again")" ;;
esac
[ "$(wc -w <"$work/again")" -le 3 ] || fail "--eos $c goes on"
run "$model" --ids 5 -n 64 --temperature 1 --seed 1 >"$work/one"
run "$model" --ids 5 -n 64 --temperature 1 --seed 1 | cmp -s - "$work/one" || fail "the same seed"
run "$model" --ids 5 -n 64 --temperature 1 --seed 2 | cmp -s - "$work/one" && fail "another seed"
run "$model" --ids 5 -n 2 --time 2>"$work/time" >/dev/null
grep -qE '^first token: [0-9.]+ ms after the process started$' "$work/time" || fail "--time: $(cat "$work/time")"
grep -qE '^then: [0-9.]+ tokens per second$' "$work/time" || fail "--time: $(cat "$work/time")"

[ "$(run "$model" --ids 5 -n 0 --time 2>&1)" = "" ] || fail "-n 0 has no first token to time"

if [ -n "$tenmap" ]; then
    mkdir "$work/shards" "$work/f32" "$work/f16"
    "$tenmap" split "$model" -o "$work/shards" --max-shard-size 50KB >/dev/null
    "$tenmap" convert "$model/model.safetensors" --to f32 -o "$work/f32/model.safetensors" >/dev/null
    "$tenmap" convert "$model/model.safetensors" --to f16 -o "$work/f16/model.safetensors" >/dev/null
    for way in shards f32 f16; do # F16 holds all these values: none is too small
        cp "$model/config.json" "$work/$way"
        [ $way = f16 ] || same "$way" "$work/$way" --ids 1,2,3 -n 40
    done
    run "$work/f16" --ids 1,2,3 -n 40 | grep -qE '^[0-9]+( [0-9]+){39}$' || fail "f16"
else
    echo "SKIPPED: shards and other dtypes, for want of the tool"
fi

if command -v python3 >/dev/null; then
    PYTHONDONTWRITEBYTECODE=1 python3 "$here/llama_float64.py" "$examples/llama" "$model" || fail "logits"
else
    echo "SKIPPED: the logits, for want of python3"
fi

# refused STATUS MESSAGE ARGUMENT...
refused() {
    status=$1 message=$2 got=0
    shift 2
    run "$@" >"$work/out" 2>"$work/error" || got=$?
    [ "$got" -eq "$status" ] || fail "exit $got instead of $status: $message"
    grep -qF -- "$message" "$work/error" || fail "not said: $message, but: $(cat "$work/error")"
    [ ! -s "$work/out" ] || fail "ids in spite of: $message"
}

refused 2 'usage: llama FOLDER --ids' "$model"
refused 2 'not understood: "--ids"' "$model" --ids 1,,2
refused 2 'not understood: "--ids"' "$model" --ids 1,-2
refused 2 'not understood: "--ids"' "$model" --ids '1, 2'
refused 2 'not understood: "--ids"' "$model" --ids ''
refused 2 'not understood: "-n"' "$model" --ids 1 -n many
refused 2 'not understood: "--temperature"' "$model" --ids 1 --temperature -1
refused 1 'id 256 is not in the vocabulary, which has ids from 0 to 255' "$model" --ids 1,256
refused 1 'id 4294967297 is not in the vocabulary' "$model" --ids 4294967297
refused 1 'out of memory for the keys and values' "$model" --ids 1 -n 9000000000000000000
refused 1 'no such file or folder' "$work/none" --ids 1
mkdir "$work/empty" "$work/bad"
refused 1 'empty' "$work/empty" --ids 1
cp "$model/model.safetensors" "$work/bad"
refused 1 'a language model has one beside its weights' "$work/bad" --ids 1

# edited MESSAGE EXPRESSION: the config edited by sed is refused.
edited() {
    sed "$2" "$model/config.json" >"$work/bad/config.json"
    refused 1 "$1" "$work/bad" --ids 1
}
edited 'not a language model'"'"'s: it has no "model_type"' 's/"model_type"/"type"/'
edited 'a model of type "bert"; this engine knows llama, mistral, qwen2 and qwen3' 's/"qwen2"/"bert"/'
edited '"hidden_size" is missing or not a whole number' 's/"hidden_size": [0-9]*,//'
edited '"hidden_size" is missing or not a whole number' 's/"hidden_size": [0-9]*/"hidden_size": 6.4e1/'
edited '"vocab_size" is missing or not a whole number' 's/"vocab_size": [0-9]*/"vocab_size": 99999999999/'
edited '"num_key_value_heads" is missing or not a divisor' 's/"num_key_value_heads": 2/"num_key_value_heads": 3/'
edited '"head_dim" is missing or not an even number' 's/"hidden_act"/"head_dim": 15, &/'
edited '"rms_norm_eps" is missing or not a positive number' 's/1e-06/"small"/'
edited '"hidden_act" is missing or not "silu"' 's/"silu"/"gelu"/'
edited '"tie_word_embeddings" is missing or not true or false' 's/"tie_word_embeddings": true/"tie_word_embeddings": 1/'
edited 'rope of type "yarn"; this engine knows default, linear and llama3' \
    's/"rope_theta": 1000000.0/"rope_scaling": {"rope_type": "yarn", "factor": 4.0}/'
edited '"factor" is missing or not a positive number' \
    's/"rope_theta": 1000000.0/"rope_scaling": {"rope_type": "linear"}/'
edited 'lm_head.weight" is missing' 's/"tie_word_embeddings": true/"tie_word_embeddings": false/'
edited 'model.layers.2.self_attn.q_proj.weight" is missing' 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
edited 'mlp.gate_proj.weight"' 's/"intermediate_size": 128/"intermediate_size": 64/'
edited 'self_attn.q_norm.weight" is missing' 's/"qwen2"/"qwen3"/; s/"hidden_act"/"head_dim": 16, &/'
for text in '' '[]' '{' '{"model_type"' '{"model_type": "llama' '{"model_type": "llama", "a": [[[' '"llama"'; do
    printf %s "$text" >"$work/bad/config.json"
    refused 1 'config.json": ' "$work/bad" --ids 1
done
echo ok
