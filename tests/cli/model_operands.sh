# Several models in one command: files, and folders of single models.
t check small.safetensors misaligned.safetensors truncated.safetensors nosuch.safetensors --level warning
t check --json --level error small.safetensors truncated.safetensors
t info --top 0 small.safetensors layers.safetensors
t info --json --top 0 small.safetensors layers.safetensors | grep -e '^\[' -e '"model"' -e '^\]'
t stats small.safetensors other.safetensors temperature embed
t stats --json small.safetensors other.safetensors temperature
t stats --tsv small.safetensors other.safetensors

# A folder of adapters stands for all of them, sorted by number; a sharded model is one model.
mkdir loras
for i in 1 2 10; do cp small.safetensors "loras/lora-$i.safetensors"; done
t check loras
t check loras/ sharded
t hash loras | cut -d' ' -f3-
t stats loras temperature
cp sharded/model.safetensors.index.json loras
t check loras | tail -1

# Each path is named once. Many 8-bit float values are subnormal, so check does not report these.
t check sharded
mkdir -p far/away
cp misaligned.safetensors far/away
t check far/away/misaligned.safetensors
header='{"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},"b":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[8,16]}}        '
printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s\001\0\001\0\001\0\001\0\001\001\001\001\001\001\001\001" "$header" >tiny.safetensors
t check --values tiny.safetensors
