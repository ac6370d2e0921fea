# A killed command leaves its temporary file. The next command that writes there removes it, unless
# it is in use.
header='{"t":{"dtype":"F32","shape":[500000000],"data_offsets":[0,2000000000]}}        '
printf '\120\0\0\0\0\0\0\0%-80s' "$header" >large.safetensors
truncate -s 2000000088 large.safetensors
mkdir room
# begin FILE: writes it in the background, until its temporary file has bytes; the lock comes first.
begin() {
    "$tool" get -q large.safetensors t --as f16 --bytes -o "room/$1" &
    job=$!
    while ! find room -name ".$1*" -size +0c | grep -q .; do
        kill -0 $job 2>/dev/null || break
        sleep 0.01
    done
    kill -STOP $job
}
begin killed.bin
kill -KILL $job
wait $job 2>/dev/null || true
find room -name '.*' | wc -l
begin live.bin
t get small.safetensors embed.weight -o room/x.npy
find room -name '.killed*' -o -name '.live*' | sed 's/\.tenmap-.*//'
kill -TERM $job
kill -CONT $job
wait $job 2>/dev/null || echo "exit $?"
ls -A room
# Files with such names that are not temporaries are not followed, not waited for, and not removed.
mkfifo room/.a.tenmap-AAAAAA.tmp
ln -s ../small.safetensors room/.b.tenmap-AAAAAA.tmp
touch room/.c.tenmap-AAAAAA.tmp2 room/.d.tenmap-AAAA.tmp room/e.tenmap-AAAAAA.tmp room/.f.tenmap-AAAAAA.tmp
t report -q small.safetensors -o room/r.html
ls -A room
# File names of any length work.
long=$(printf '%0250d' 0)
t get small.safetensors temperature --raw-values >/dev/null
"$tool" get small.safetensors temperature -o "room/$long.npy" && ls -A room | grep -c 0000.npy
