# SHA-256, as printed by sha256sum.
t hash small.safetensors
t hash sharded small.safetensors >sums
sed 1d sums | sha256sum -c
t hash sharded/model.safetensors.index.json | tail -2
t hash pointer.safetensors --json
odd=$(printf 'a\\b\nc')
cp small.safetensors "$odd"
"$tool" hash "$odd" >sums && sha256sum -c --quiet sums && cat sums
t hash truncated.safetensors empty.safetensors -j 1

# Verifies against Git LFS pointers: one, and a folder of them.
pointer() { printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "$1" "$2"; }
pointer $(sha256sum <small.safetensors | cut -d' ' -f1) $(wc -c <small.safetensors) >right
pointer $(sha256sum <other.safetensors | cut -d' ' -f1) $(wc -c <small.safetensors) >wrong
pointer $(sha256sum <small.safetensors | cut -d' ' -f1) 12 >short
t hash small.safetensors --verify right
t hash small.safetensors --verify wrong
t hash small.safetensors --verify short
t hash small.safetensors --verify wrong --json
mkdir pointers
for file in sharded/*.safetensors; do
    pointer $(sha256sum <$file | cut -d' ' -f1) $(wc -c <$file) >pointers/$(basename $file)
done
t hash sharded --verify pointers
cp wrong pointers/model-00002-of-00003.safetensors
t hash sharded --verify pointers
t hash sharded --verify right
t hash small.safetensors --verify small.safetensors
t hash small.safetensors --verify nosuch

# Verifies against a digest, the file of sha256sum, and the names in a hub's cache.
digest=$(sha256sum <small.safetensors | cut -d' ' -f1)
t hash small.safetensors --verify $digest
t hash other.safetensors --verify $digest
t hash sharded --verify $digest
"$tool" hash sharded small.safetensors >SHA256SUMS
t hash sharded small.safetensors --verify SHA256SUMS
t hash other.safetensors --verify SHA256SUMS
# Without files, all of the list; one that is missing or changed does not hide the others.
t hash --verify SHA256SUMS
cp SHA256SUMS three
{ echo "$digest  nosuch.safetensors" && echo "$digest *other.safetensors"; } >>three
t hash --verify three
t hash --verify three --json -q
"$tool" hash "$odd" small.safetensors >escaped
t hash --verify escaped
t hash --verify escaped "$odd"
t hash --verify sha256:$digest small.safetensors
t hash --verify ${digest%?} small.safetensors
t hash --verify sha256:1234 small.safetensors
t hash --verify $digest
t hash --verify cache
t hash --verify small.safetensors
t hash --verify right
: >nothing
t hash --verify nothing
t hash --verify nothing small.safetensors
mkdir -p hub/blobs hub/snapshots/main
cp small.safetensors hub/blobs/$digest
ln -s ../../blobs/$digest hub/snapshots/main/model.safetensors
t hash hub/snapshots/main/model.safetensors --verify cache --json
t hash small.safetensors --verify cache
cp other.safetensors hub/blobs/$digest
t hash hub/snapshots/main/model.safetensors --verify cache

# Fingerprints do not depend on order, shards, alignment and metadata. They depend on the values.
t hash --tensors small.safetensors
t hash --tensors small.safetensors --json
t hash --model layers.safetensors sharded
t split layers.safetensors --max-shard-size 5KB -o pieces --meta other=metadata
t realign layers.safetensors --to 4KiB --reorder -o order.safetensors | tail -1
t hash -m pieces order.safetensors --json
t rename layers.safetensors 's/norm/n/' -o renamed.safetensors
t hash -m renamed.safetensors
"$tool" hash -t layers.safetensors | cut -d' ' -f1 | sort | head -n -1 >a
"$tool" hash -t renamed.safetensors | cut -d' ' -f1 | sort | head -n -1 >b
comm -3 a b | wc -l

# Chunks of 16 MiB: neither their number nor that of the threads changes anything.
header='{"t":{"dtype":"U8","shape":[50000001],"data_offsets":[0,50000001]}}'
printf '\110\0\0\0\0\0\0\0%-72s' "$header" >large.safetensors
truncate -s 50000081 large.safetensors
for threads in 1 2 3; do t hash -m -j $threads large.safetensors; done

# Mistakes.
t hash
t hash nosuch.safetensors
t hash -t small.safetensors layers.safetensors
t hash -m small.safetensors --verify right
t hash -m truncated.safetensors
t hash .
