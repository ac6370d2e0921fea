# The offset of the data, and which tensors it aligns.
t realign small.safetensors --to 64 -o out.safetensors
start() { head -c 8 "$1" | od -An -tu8 | awk '{print ($1 + 8) % 4096}'; }
start small.safetensors
start out.safetensors
t realign small.safetensors --to 4KiB -o page.safetensors --force --meta aligned=4096
start page.safetensors
t realign layers.safetensors -o layers64.safetensors
t realign layers.safetensors --to 512 -o layers512.safetensors | tail -2
t realign layers.safetensors --to 512 --reorder -o order512.safetensors | tail -2
t realign small.safetensors --to 32 --reorder -o order.safetensors --json
t ls -s file order.safetensors
t realign sharded --to 512 -o shards512 --dry-run | tail -2
t realign sharded --to 512 -o shards512 | tail -2
t realign misaligned.safetensors --in-place
t ls -s file misaligned.safetensors
t realign sharded --in-place
t realign small.safetensors --in-place -o x.safetensors
t realign small.safetensors --to 48 -o x.safetensors
t realign small.safetensors --to 4MiB -o x.safetensors
t realign small.safetensors --to 64
t realign small.safetensors --to 64 -o out.safetensors
