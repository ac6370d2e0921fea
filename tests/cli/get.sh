t get small.safetensors layer.0.weight
t get small.safetensors embed.weight
t get small.safetensors embed.weight '[0:2, :4]'
t get small.safetensors embed.weight '[-1]'
t get small.safetensors embed.weight -1
t get small.safetensors embed.weight '..., 0'
t get small.safetensors embed.weight '2, -1'
t get small.safetensors embed.weight '[4:2]'
t get small.safetensors embed.weight ':100, 3:'
t get small.safetensors temperature
t get small.safetensors mask
t get small.safetensors ids
t get small.safetensors 'ids*' --json
t get small.safetensors layer.0.scale --raw-values
t get small.safetensors embed.weight --tsv
t get small.safetensors embed.weight '[1:3]' --json
t get small.safetensors layer.0.wide --precision 0
t get small.safetensors layer.0.bias --as bf16
t get layers.safetensors model.embed_tokens.weight
t get layers.safetensors model.layers.3.input_layernorm.weight
t get layers.safetensors model.layers.0.mlp.up_proj.weight -p 2 '[:3]'
t get sharded model.norm.weight '[:4]'
"$tool" get layers.safetensors model.embed_tokens.weight --all | wc -l
t get hostile.safetensors '*red*'

# Exports: a .npy header padded to 64 bytes, F32 for dtypes that numpy lacks, raw bits if asked,
# bytes alone.
t get small.safetensors embed.weight '[0]' -o x.npy
od -A d -c x.npy
t get small.safetensors layer.0.weight '[0]' -o x.npy --force
tail -c 16 x.npy | od -A n -t f4
t get small.safetensors layer.0.weight '[0]' --raw -o x.npy --force
head -c 64 x.npy | tail -c 54 | tr -d '\n' && tail -c 8 x.npy | od -A n -t x2 --endian=little
t get small.safetensors temperature -o x.npy --force
head -c 75 x.npy | tail -c 65 && echo
t get small.safetensors layer.0.weight --bytes -o x.bin
od -A d -t x1 x.bin
t get small.safetensors embed.weight '1, :2' --bytes --as f16 -o x.bin --force
od -A d -t x1 x.bin
"$tool" get small.safetensors embed.weight -o - >piped.npy
"$tool" get small.safetensors embed.weight -o x.npy --force
cmp piped.npy x.npy
"$tool" get small.safetensors ids --bytes -o /dev/stdout | od -A n -t u8 -w40 --endian=little
ls -A | grep -c '^\.' || true

t get small.safetensors layer
t get small.safetensors nosuch
t get small.safetensors embed.weight 6
t get small.safetensors embed.weight -7
t get small.safetensors embed.weight '[1, 2, 3]'
t get small.safetensors embed.weight '::2'
t get small.safetensors embed.weight 'a:b'
t get small.safetensors embed.weight '[1'
t get small.safetensors embed.weight '[..., ...]'
t get small.safetensors embed.weight '[1,,2]'
t get small.safetensors embed.weight --as i64
t get small.safetensors embed.weight --as f99
t get small.safetensors embed.weight --as bf16 -o x.npy
t get small.safetensors embed.weight -o x.txt
t get small.safetensors embed.weight -o nosuch/x.npy
t get small.safetensors embed.weight -o sharded --bytes
t get small.safetensors embed.weight --bytes
t get small.safetensors embed.weight --json -o x.npy
t get small.safetensors embed.weight --precision 40
t get small.safetensors
t get truncated.safetensors a
t get --help

# An interrupt leaves neither the file nor a partial file.
mkdir empty
printf '\107\0\0\0\0\0\0\0{"a":{"dtype":"U8","shape":[1073741824],"data_offsets":[0,1073741824]}}' >large.safetensors
truncate -s $((8 + 71 + 1073741824)) large.safetensors
nice -n 19 "$tool" get large.safetensors a --bytes -o empty/x.bin 2>told &
child=$!
while [ -z "$(ls -A empty)" ] && kill -0 $child 2>/dev/null; do sleep 0.01; done
kill -INT $child
status=0
wait $child || status=$?
echo "interrupted: exit $status, $(ls -A empty | wc -l) files left"
cat told
rm large.safetensors
