t info small.safetensors
t info sharded
t info misaligned.safetensors
t info hostile.safetensors
t info --json sharded
t info --json hostile.safetensors
t info --top 0 small.safetensors
t info --top 1 --color always small.safetensors
t info pointer.safetensors
t info nosuch
t info --jsn small.safetensors
t info --help
rm sharded/model-00002-of-00003.safetensors
t info sharded
t info --partial sharded
