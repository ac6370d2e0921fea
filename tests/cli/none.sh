# A model without tensors is a model: every command accepts it.
t ls none.safetensors
t ls --tree none.safetensors
t ls --json none.safetensors
t info none.safetensors
t check none.safetensors
t stats none.safetensors
t stats --hist --json none.safetensors
t report -q none.safetensors -o none.html
t get none.safetensors weight
t diff none.safetensors none.safetensors
t diff none.safetensors small.safetensors --headers
t meta none.safetensors
t convert none.safetensors --to bf16 -o a.safetensors
t rename none.safetensors 's/a/b/' -o b.safetensors
t drop none.safetensors weight -o c.safetensors
t merge none.safetensors small.safetensors -o d.safetensors
t merge none.safetensors a.safetensors -o e.safetensors
t split none.safetensors -o shards
t realign none.safetensors --to 64 --reorder -o f.safetensors
t hash --model none.safetensors f.safetensors
t bench none.safetensors
