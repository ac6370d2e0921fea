# extract and drop.
t extract layers.safetensors 'model.layers.1?.input*' -o out.safetensors
t ls out.safetensors
t extract layers.safetensors --dtype f32 --except norm -o f32.safetensors --dry-run
t extract layers.safetensors layers.3 --dtype f32 -o f32.safetensors --json
t extract sharded layers.3 layers.10 -o some
ls some
t drop small.safetensors 'layer*' ids -o rest.safetensors
t ls rest.safetensors
t drop sharded 'model.layers.*' -o rest
t ls rest
t extract small.safetensors nosuch -o no.safetensors
t extract small.safetensors -o no.safetensors
t drop small.safetensors '*' -o no.safetensors
t drop small.safetensors ids -o rest.safetensors
t extract small.safetensors ids
ls no.safetensors 2>/dev/null || true
