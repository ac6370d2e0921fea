# Limits of the process and the system: the tool prints an error message and leaves nothing behind.
# A write beyond `ulimit -f` would end the tool with SIGXFSZ, and a FIFO would keep it waiting.
limited() (
    echo "limited:"
    ulimit -f 8
    t "$@"
)
header='{"t":{"dtype":"F32","shape":[500000],"data_offsets":[0,2000000]}}'
printf '\120\0\0\0\0\0\0\0%-80s' "$header" >large.safetensors
truncate -s 2000088 large.safetensors
mkdir room
limited get large.safetensors t -o room/a.npy
limited get large.safetensors t --bytes -o room/a.bin
limited report -q large.safetensors -o room/r.html
limited report -q layers.safetensors --no-stats --treemap room/t.svg --heatmap room/h.svg
limited convert large.safetensors --to f16 -o room/c.safetensors
limited split large.safetensors -o room/s
limited realign large.safetensors --to 64 -o room/a.safetensors
find room -mindepth 1
(
    ulimit -f 8
    "$tool" get large.safetensors t --raw-values >values 2>said
) || echo "stdout: exit $?, $(sed 's/output: the .*/output/' said)"
# The editor inherits SIGXFSZ as it was, not ignored.
cat >editor <<'DONE'
ignored=$(sed -n 's/SigIgn:[[:space:]]*//p' /proc/self/status)
[ $((0x$ignored >> 24 & 1)) = 0 ] && echo "the editor has SIGXFSZ as it was" >seen
DONE
if [ -r /proc/self/status ]; then
    EDITOR='sh ./editor' "$tool" meta small.safetensors edit
    cat seen
else
    echo "the editor has SIGXFSZ as it was"
fi

# Anything that is not a regular file is refused at once, without waiting.
mkfifo fifo fifo.json
at_once() {
    printf '$ tenmap %s\n' "$*"
    status=0
    timeout 300 "$tool" "$@" 2>&1 || status=$?
    echo "exit $status"
}
for command in "info" "hash --model" "check" "diff small.safetensors" "report --compare fifo" "merge small.safetensors -o x"; do
    at_once $command fifo
done
at_once hash --model fifo.json
at_once hash fifo
at_once hash small.safetensors fifo
at_once hash fifo.json
at_once hash /dev/zero
at_once hash small.safetensors --verify fifo
at_once hash small.safetensors --verify /dev/zero
mkdir pointers
mkfifo pointers/small.safetensors
at_once hash small.safetensors --verify pointers
