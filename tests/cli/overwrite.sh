# No command overwrites its input, or an existing file without --force, or anything that is not a
# regular file.
before=$(sha256sum *.safetensors sharded/*)
kept() {
    files=$(echo "$before" | awk '{ print $2 }')
    [ "$before" = "$(sha256sum $files)" ] && echo "every model is as before" || echo "a model is LOST"
}
ln small.safetensors hard.bin
ln -s small.safetensors soft.bin
ln sharded/model-00002-of-00003.safetensors hard.npy
ln sharded/model.safetensors.index.json hard.html

# get: the file, a shard, the index; by their own paths and by other paths to them.
t get small.safetensors ids --bytes -o small.safetensors
t get small.safetensors ids --bytes -o small.safetensors --force
t get small.safetensors ids --bytes -o ./sharded/../small.safetensors --force
t get small.safetensors ids --bytes -o hard.bin --force
t get small.safetensors ids --bytes -o soft.bin --force
t get soft.bin ids --bytes -o small.safetensors --force
t get sharded model.norm.weight -o hard.npy --force
t get sharded model.norm.weight --bytes -o sharded/model.safetensors.index.json --force
t get sharded/model.safetensors.index.json model.norm.weight --bytes -o hard.html --force
kept

# get: an existing file.
echo precious >x.npy
chmod 640 x.npy
t get small.safetensors ids -o x.npy
cat x.npy
ln -s nowhere dangling.npy
t get small.safetensors ids -o dangling.npy
t get small.safetensors ids -f -o x.npy
stat -c %a x.npy
head -c 6 x.npy | tail -c 5 && echo
t get small.safetensors ids --force

# report: the same for both models, and for pictures.
t report -q sharded --no-stats -o hard.html --force
t report -q small.safetensors --compare sharded --no-stats -o hard.html --force
t report -q small.safetensors --no-stats --treemap hard.bin --force
t report -q small.safetensors --no-stats --heatmap soft.bin --force
echo precious >page.html
t report -q small.safetensors --no-stats -o page.html
t report -q small.safetensors --no-stats --treemap page.html
cat page.html
t report -q small.safetensors --no-stats -o page.html --force
grep -c '<html' page.html
t report -q small.safetensors --no-stats -o new.html --treemap ./new.html
t report -q small.safetensors --no-stats -o page.html --heatmap page.html --force
[ -e new.html ] || echo "no mistake left a file"

# Models: never a file of the input, including its index.
cp sharded/model.safetensors.index.json sharded/other.json
t merge sharded/other.json -o sharded/other.json --force
t merge sharded/other.json -o sharded/model-00001-of-00003.safetensors --force
kept

# Anything that exists and is not a file stays as it is, with or without --force; stdout may be
# anything. (The device is behind a link, so that a faulty tool cannot damage the machine.)
printf '#!/bin/sh\nexec timeout 300 "%s" "$@"\n' "$tool" >impatient
chmod +x impatient
tool=./impatient
mkfifo fifo
ln -s /dev/null null
for out in fifo null; do
    t get small.safetensors ids --bytes -o $out
    t get small.safetensors ids --bytes -o $out --force
    t report -q small.safetensors --no-stats -o $out --force
    t convert small.safetensors --to f16 -o $out
    t extract small.safetensors ids -o $out --force
done
t split small.safetensors -o fifo --force
t get small.safetensors ids --bytes -o sharded --force
stat -c '%n: %F' fifo null
"$tool" get small.safetensors ids --bytes -o /proc/self/fd/1 >there
"$tool" get small.safetensors ids --bytes -o - | cmp - there
"$tool" get small.safetensors ids --bytes -o /dev/stdout | cmp - there
"$tool" report -q small.safetensors --no-stats -o /dev/stdout | grep -c '<html'
"$tool" get small.safetensors ids --bytes -o - 1<>small.safetensors || echo "exit $?"
t report -q small.safetensors --no-stats -o - --treemap /dev/stdout
kept
