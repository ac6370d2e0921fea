# What a file only declares costs nothing, whatever the command: each command ends at once. A
# command that takes minutes fails, however busy the machine is.
within() {
    status=0
    timeout -k 1 300 "$tool" "$@" 2>&1 || status=$?
    [ $status = 0 ] || echo "exit $status"
}

# A dimension of 2^40, but no elements.
header_of e F32 '[1099511627776,0]' 0 f U8 '[2,0,3]' 0 >empty.safetensors
within get empty.safetensors e
within get empty.safetensors e '[5:, :]'
within get empty.safetensors e -1
within get empty.safetensors f
within get empty.safetensors f '[:, 0:0, 1]'
within get small.safetensors embed.weight '[:, 3:3]'
within get empty.safetensors e --all
within get empty.safetensors e --tsv
within get empty.safetensors e --raw-values
within get empty.safetensors e --json | tail -n 4
within get empty.safetensors e -o e.npy
head -c 128 e.npy | tail -c 118 | tr -s ' \n'
within get empty.safetensors e --bytes -o e.bin
for command in ls info 'info --duplicates' stats 'stats --hist' check 'check --values' 'hash --model' 'report --no-stats -o -' \
    'report -o -' 'diff empty.safetensors' 'diff --map-names empty.safetensors' 'convert --to f16 -n -o c' \
    'convert --to f16 -o c' 'convert --quantize int8-channel -o q' 'split -o s' 'merge -o m' 'report --heatmap -' 'report --treemap -'; do
    printf '%s: ' "$command"
    within $command empty.safetensors >said && echo "$(grep -x 'exit .*' said || echo fine)"
done

# config.json is edited in one pass, however often it repeats a key.
"$(dirname "$fixtures")/cli_quantized" .
# edit HEAD EACH TAIL: edits a file that has EACH, which begins with a key, 40,000 times.
edit() {
    awk -v head="$1" -v each="$2" -v tail="$3" \
        'BEGIN { printf("%s", head); for (i = 0; i < 40000; i++) printf("%s", each); print tail }' >fp8/config.json
    rm -rf edited
    within convert fp8 --dequantize --to f16 -o edited/ >said
    grep -x 'exit .*' said || grep config said
    [ ! -e edited/config.json ] || sed 's/, "k/,\n"k/g' edited/config.json | uniq -c
}
edit '{"a": 1' ', "quantization_config": {"bits": 8}' '}'
edit '{"quantization_config": 1, "a": 1' ', "quantization_config": 2, "k": "float32"' ', "quantization": 2}'
edit '{"a": 1' ', "k": {"dtype": "float32", "c": 1}' ', "z": {"torch_dtype": "x"}}'
edit '{"a": 1' ', "k": {"c": 1, "dtype": "float32"}' '}'
edit '{"a": 1' ', "k": {"c": 1, "quantization_config": {}}' '}'
edit '{"k": {' '"quantization_config": 0,' '"quantization": 0, "dtype": 1}}'

# `inventory` counts hard links to one file as one file, and copies of it do not make it compare all
# pairs of tensors.
mkdir links links/copies
awk 'BEGIN { for (i = 0; i < 20000; i++) printf("%08d", i) }' >data
set --
for i in $(seq 400); do set -- "$@" "t$i" U8 '[400]' 400; done
header_of "$@" >links/0.safetensors
cat data >>links/0.safetensors
for i in $(seq 249); do
    ln links/0.safetensors links/$i.safetensors
done
for i in $(seq 100); do cp links/0.safetensors links/copies/$i.safetensors; done
within inventory links -j 1 | sed -n '/Duplicates/,$p' | sed -n '1,5p; $p'
# Many pairs are listed, but not thousands times thousands of them.
for i in $(seq 250 1500); do ln links/0.safetensors links/$i.safetensors; done
within inventory links -j 1 | tail -n 1
within inventory links -j 1 --json | sed -n '/"shared"/,$p'
# The file is not read again in another folder either, where config.json may name it differently.
mkdir apart
for i in 1 2; do
    mkdir apart/$i
    ln layers.safetensors apart/$i/model.safetensors
done
echo '{"architectures": ["Other"]}' >apart/2/config.json
within inventory apart --no-duplicates
