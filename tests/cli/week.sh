# Twenty jobs of a week with models: each is what someone wants, and the commands that do it.
root=$(cd "$(dirname "$1")/../.." && pwd)
mkdir week
cd week
sh "$root/tests/cli/recipes/models.sh" "$fixtures" .
"$(dirname "$fixtures")/cli_quantized" .
mkdir published && "$(dirname "$fixtures")/cli_published" published
number=0
job() {
    number=$((number + 1))
    echo "== $number. $*"
}

job is the download whole?
"$tool" check sharded | tail -n 1
"$tool" check truncated.safetensors >said || echo "exit $?"
grep -c '^error' said >count && [ "$(cat count)" -ge 1 ] && echo "a truncated file is found"

job is it the file that the hub has?
"$tool" hash small.safetensors | sha256sum -c -
t hash --verify pointer.safetensors small.safetensors

job what is it?
"$tool" info published/Llama-3-8B | sed -n 2p
"$tool" info llama.gguf | sed -n 2p

job does it fit into 24 GB?
"$tool" fit --memory 24GB --as bf16 published/Llama-3-8B >said && echo yes
"$tool" fit --memory 8GB --as bf16 published/Llama-3-8B >said || echo "no: exit $?"

job which layers has it?
t ls --fold layers.safetensors

job what is in this tensor?
t get layers.safetensors 'model.norm.weight[:4]'
t get layers.safetensors model.norm.weight -o norm.npy
head -c 6 norm.npy | tail -c 5 && echo

job make it smaller
t convert plain --to f16 -o half/
grep dtype half/config.json
t diff plain half --any-dtype --any-metadata --rtol 0.001

job a name that promises another format is refused
t convert small.safetensors --to f16 -o small.gguf
[ -e small.gguf ] || echo "nothing was written"

job a plain model of a quantized one
t convert fp8 --dequantize --to bf16 -o from-fp8/
grep -c quantization_config from-fp8/config.json || :

job quantize it, and see what that costs
"$tool" convert plain --quantize int8-channel -q -o int8/ >said
"$tool" diff plain int8 --top 1 | grep -e chose -e 'quantization of' || :

job a GGUF file as SafeTensors
t convert llama.gguf --to bf16 -o from-gguf.safetensors

job what did the GGUF file lose?
"$tool" diff llama.safetensors llama.gguf >said || :
grep -A 2 'by dtype' said

job what is this LoRA for, and can it be merged?
"$tool" info lora.safetensors | grep adapter
t merge layers.safetensors lora.safetensors -o merged.safetensors

job what did the fine-tune change?
"$tool" convert layers.safetensors --rule '*.3.mlp*=f6_e3m2' -q -o tuned.safetensors >/dev/null 2>&1
"$tool" diff layers.safetensors tuned.safetensors --any-dtype --tsv | cut -f1,2,9

job a page about it for someone else
"$tool" report tuned.safetensors --compare layers.safetensors -q -o tuned.html
grep -c '<title>tuned.safetensors' tuned.html

job shards that can be uploaded, and one file again
t split layers.safetensors --max-shard-size 12KB -o pieces
t merge pieces -o whole.safetensors
[ "$("$tool" hash --model pieces | cut -d' ' -f1)" = "$("$tool" hash --model layers.safetensors | cut -d' ' -f1)" ] &&
    echo "the same model"

job without its last layers, or one layer alone
t drop layers.safetensors 'model.layers.1[01].*' -o pruned.safetensors
t extract layers.safetensors 'model.layers.3.*' -o layer3.safetensors

job names as another program wants them
t rename layers.safetensors 's/^model\.//' -o renamed.safetensors
"$tool" ls renamed.safetensors --tsv | cut -f1 | grep -c '^model\.' || :

job remove what the training program wrote
t meta lora.safetensors rm 'ss_*'
t meta lora.safetensors

job what is on this disk, and what is there twice?
"$tool" inventory hub --json | grep -o '"path": "[^"]*model.safetensors"' | wc -l
"$tool" inventory hub | tail -n 1

[ $number = 20 ] || echo "there are $number jobs"
