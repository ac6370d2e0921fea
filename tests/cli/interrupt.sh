# An interrupted command leaves nothing behind and reports the signal with its exit code. The input
# is a hole of 2 GB, so that making it costs nothing. env resets SIGHUP, which nohup would ignore.
# nice gives the interrupting shell priority over the command: a command that had already finished
# would test nothing.
header='{"t":{"dtype":"F32","shape":[500000000],"data_offsets":[0,2000000000]}}        '
printf '\120\0\0\0\0\0\0\0%-80s' "$header" >large.safetensors
truncate -s 2000000088 large.safetensors
header='{"t":{"dtype":"F32","shape":[20000,25000],"data_offsets":[0,2000000000]}}'
printf '\120\0\0\0\0\0\0\0%-80s' "$header" >matrix.safetensors
truncate -s 2000000088 matrix.safetensors
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
header_of m.weight F32 '[500000,1000]' 2000000000 >adapted.safetensors
truncate -s $(($(wc -c <adapted.safetensors) + 2000000000)) adapted.safetensors
{
    header_of m.lora_down.weight F32 '[1,1000]' 4000 m.lora_up.weight F32 '[500000,1]' 2000000
    head -c 2004000 /dev/zero
} >adapter.safetensors
# catches_int PID: whether the process has a handler for SIGINT. Until then it ignores the signal,
# because shells start commands in the background so. True where that is not known.
catches_int() {
    [ -r /proc/self/status ] || return 0
    caught=$(sed -n 's/SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null) || return 0
    case $caught in *[2367abefABEF]) return 0 ;; *) return 1 ;; esac
}
# interrupted SIGNAL ARGUMENT...: runs the tool until it ends or a second has passed, sends the
# signal, and sets $status: 137 if it did not end within 20 seconds. SIGINT waits for its handler,
# which a busy machine may delay.
interrupted() {
    signal=$1
    shift
    "$tool" "$@" >said 2>&1 </dev/null &
    job=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ! kill -0 $job 2>/dev/null || sleep 0.1
    done
    tries=0
    while [ $signal = INT ] && [ $tries -lt 200 ] && kill -0 $job 2>/dev/null && ! catches_int $job; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -$signal $job 2>/dev/null || true
    (sleep 20 && kill -KILL $job 2>/dev/null) &
    late=$!
    status=0
    { wait $job || status=$?; } 2>/dev/null
    kill $late 2>/dev/null || true
}
for command in 'info --duplicates holes/a.safetensors' 'inventory holes -j 1' \
    'blend holes/a.safetensors holes/b.safetensors -o room/out'; do
    interrupted INT $command
    echo "${command%% *}: exit $status, $(cat said)"
done

# So does every other command, unless it is done before. Shells make commands in the background
# ignore SIGINT, and those that leave nothing behind do not catch it; SIGTERM ends them.
commands=$("$tool" --help | sed -n '/^Examples:/q; s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    set -- "$command" holes/a.safetensors
    case $command in
    check) set -- check --values holes/a.safetensors ;;
    diff) set -- diff holes/a.safetensors holes/b.safetensors ;;
    get) set -- get large.safetensors t -o room/t.npy ;;
    report) set -- report holes/a.safetensors -o room/report.html ;;
    rename) set -- rename large.safetensors s/t/u/ -o room/out.safetensors ;;
    convert) set -- convert large.safetensors --to f16 -o room/out.safetensors ;;
    extract) set -- extract large.safetensors t -o room/out ;;
    layout) set -- layout matrix.safetensors --transpose t -o room/out.safetensors ;;
    lora) set -- lora adapted.safetensors adapter.safetensors -o room/out.safetensors ;;
    merge | split) set -- "$command" large.safetensors -o room/out ;;
    blend) set -- blend large.safetensors -o room/out ;;
    drop) set -- drop holes/a.safetensors a b -o room/out ;;
    realign) set -- realign large.safetensors --to 4096 -o room/out.safetensors ;;
    completion) set -- completion bash ;;
    inventory) set -- inventory holes ;;
    esac
    interrupted TERM "$@"
    case $status in
    64) echo "$command: there is no command line for it here: $(cat said)" ;;
    137) echo "$command: did not end" ;;
    esac
    find room -mindepth 1 -name '.*'
    rm -rf room && mkdir room
done
[ -n "$commands" ] && echo "every other command ends"
