# An interrupted command leaves nothing behind and reports the signal with its exit code. The input
# is a hole of 2 GB, so that making it costs nothing. env resets SIGHUP, which nohup would ignore.
# nice gives the interrupting shell priority over the command: a command that had already finished
# would test nothing.
header='{"t":{"dtype":"F32","shape":[500000000],"data_offsets":[0,2000000000]}}        '
printf '\120\0\0\0\0\0\0\0%-80s' "$header" >large.safetensors
truncate -s 2000000088 large.safetensors
for signal in INT TERM HUP; do
    for out in out.safetensors out; do
        mkdir -p room
        set -- --to bf16
        [ $out = out ] && set -- --to bf16 --max-shard-size 5GB
        nice -n 19 env --default-signal=HUP "$tool" convert large.safetensors "$@" -o room/$out 2>said &
        job=$!
        while ! find room -name '.*tenmap*' -o -name '.model*' -o -name '.out*' | grep -q .; do
            kill -0 $job 2>/dev/null || break
            sleep 0.01
        done
        kill -$signal $job
        status=0
        wait $job || status=$?
        echo "$signal, $out: exit $status, $(cat said)"
        find room -mindepth 1
    done
done

# A command that only reads also stops within a tensor: these are equal holes of 400 GB. It ends at
# once; otherwise it is killed, and the output shows that.
mkdir holes
size=400000000000
header="{\"a\":{\"dtype\":\"U8\",\"shape\":[$size],\"data_offsets\":[0,$size]},\"b\":{\"dtype\":\"U8\",\"shape\":[$size],\"data_offsets\":[$size,$((2 * size))]}}"
for name in a b; do
    printf '\240\0\0\0\0\0\0\0%-160s' "$header" >holes/$name.safetensors
    truncate -s $((2 * size + 168)) holes/$name.safetensors
done
for command in 'info --duplicates holes/a.safetensors' 'inventory holes -j 1'; do
    "$tool" $command >said 2>&1 &
    job=$!
    sleep 1
    kill -INT $job
    (sleep 20 && kill -KILL $job 2>/dev/null) &
    late=$!
    status=0
    wait $job || status=$?
    kill $late 2>/dev/null || true
    echo "${command%% *}: exit $status, $(cat said)"
done
