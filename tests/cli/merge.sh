# merge and split, and back.
t merge sharded -o one.safetensors
t merge small.safetensors layers.safetensors -o both.safetensors
t merge small.safetensors other.safetensors -o no.safetensors
t merge small.safetensors other.safetensors --prefer first -o first.safetensors
t merge small.safetensors other.safetensors --prefer last -o last.safetensors
grep -ao '__metadata__":{[^}]*}' first.safetensors
grep -ao '__metadata__":{[^}]*}' last.safetensors
t merge sharded/*.safetensors --meta joined=yes -o joined.safetensors
t merge small.safetensors layers.safetensors -o both.safetensors
t merge small.safetensors layers.safetensors -o small.safetensors --force
t ls small.safetensors 'l*weight' | tail -3
t merge -o no.safetensors
t merge small.safetensors small.safetensors -o no.safetensors

t split layers.safetensors --max-shard-size 12KB -o pieces
ls pieces
grep -c layers pieces/model.safetensors.index.json
grep total_size pieces/model.safetensors.index.json
t merge pieces -o again.safetensors
cmp layers.safetensors again.safetensors && echo the same bytes
t split layers.safetensors -o whole
ls whole
t split layers.safetensors --max-shard-size 5KB -o pieces
t split layers.safetensors --max-shard-size 5KB -o pieces --force
ls pieces | sed 's/-[0-9a-f]\{8\}-/-HEX-/'
t split pieces --max-shard-size 20KB -o fewer --dry-run | tail -1

# --dry-run and the report name the number of files that are written, wherever a shard ends.
mkdir counts
for size in 1 63 64 65 1000 4095 4096 4097 8192 12KB 20KB 1GB; do
    said=$("$tool" split layers.safetensors --max-shard-size $size -o counts/$size --dry-run --json | grep '"files"')
    "$tool" split layers.safetensors --max-shard-size $size -o counts/$size --json | grep -Fqx "$said" ||
        echo "$size: --dry-run says another number"
    echo "$size:" $said "$(ls counts/$size | grep -c 'safetensors$') written"
done
t split layers.safetensors --max-shard-size 5KB -o small.safetensors
t split layers.safetensors --max-shard-size 5KB -o no/no
t split layers.safetensors --max-shard-size much -o no
