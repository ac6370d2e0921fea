# extract and drop.
t extract layers.safetensors 'model.layers.1?.input*' -o out.safetensors
t ls out.safetensors
t extract layers.safetensors --dtype f32 --except norm -o f32.safetensors --dry-run
t extract layers.safetensors layers.3 --dtype f32 -o f32.safetensors --json
t extract sharded layers.3 layers.10 -o some
ls some
t drop small.safetensors 'layer*' ids -o rest.safetensors
t ls -s file rest.safetensors
t drop sharded 'model.layers.*' -o rest
t ls -s file rest
t extract small.safetensors nosuch -o no.safetensors
t extract small.safetensors -o no.safetensors
t drop small.safetensors '*' -o no.safetensors
t drop small.safetensors ids -o rest.safetensors
t extract small.safetensors ids
ls no.safetensors 2>/dev/null || true
# A tensor of an unknown dtype can be read if asked, but not written.
header='{"q":{"dtype":"Q4_0","shape":[2],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}'
printf '\160\0\0\0\0\0\0\0%-112swxyz1' "$header" >odd.safetensors
t drop odd.safetensors a -o no.safetensors
t drop odd.safetensors a -o no.safetensors --lenient
t drop odd.safetensors q -o known.safetensors --lenient
