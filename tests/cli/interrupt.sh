# An interrupted command leaves nothing behind and says so with its exit code. The input is a hole of
# 2 GB, so that making it costs nothing. Under nohup SIGHUP would be ignored, hence env. What interrupts goes
# before what is interrupted, hence nice: a command that was done already would be no test.
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
