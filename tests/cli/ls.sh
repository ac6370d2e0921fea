t ls small.safetensors
t ls sharded 'model.layers.1*.input*'
t ls hostile.safetensors
t ls small.safetensors nosuch
t ls truncated.safetensors
t ls pointer.safetensors
t ls
t ls --nosuch small.safetensors
