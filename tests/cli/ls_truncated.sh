# ls --partial lists the tensors of a truncated file, and which share of each is there. No other
# command opens it, and a file that is cut inside its header stays closed.
head -c 20000 layers.safetensors >cut.safetensors
t ls cut.safetensors
t ls --partial cut.safetensors 'model.layers.[34].*'
t ls --partial -l cut.safetensors 'model.layers.3.*'
t ls --partial --json cut.safetensors model.layers.3.self_attn.q_proj.weight
t ls --partial --tree --depth 2 cut.safetensors
t stats --partial cut.safetensors
head -c 3000 layers.safetensors >header.safetensors
t ls --partial header.safetensors
t ls --partial pointer.safetensors
t ls --partial small.safetensors ids
golden=$(dirname "$1")/../golden
head -c -10 "$golden/good/gguf-shapes.gguf" >cut.gguf
t ls --partial cut.gguf
