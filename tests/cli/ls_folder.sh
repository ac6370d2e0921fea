# ls of a folder with several models says which one it lists and what it left out.
mkdir several
cp small.safetensors several/model.safetensors
t ls several ids
cp other.safetensors several/adapter_model.safetensors
t ls several ids
for i in 1 2 10 11; do cp other.safetensors several/extra-$i.safetensors; done
t ls several ids
t ls --tsv several ids 2>/dev/null
cp other.safetensors sharded/consolidated.safetensors
t ls sharded model.norm.weight
