# The terminal obeys nothing in a file, in a file's name or on the command line. Runs every command
# of the tool on models whose names, dtypes, metadata and files try to, on a terminal of its own,
# and checks all of stdout and stderr. A command that is not below fails the test.
on_terminal=$(dirname "$fixtures")/on_terminal
[ -x "$on_terminal" ] || skip "on_terminal was not built"
EDITOR=true && export EDITOR

# A window title, colors, a carriage return, C1, bidirectional and invisible characters, a line
# break; as in a header, as bytes, and in a path, which need not be UTF-8.
json='\u001b]0;owned\u0007\u001b[7m\r\b\u007f\u0085\u009b5m\u202e\u2066\u200b\nFORGED'
evil=$(printf '\033]0;owned\007\033[7m\r\b\177\302\205\302\2335m\342\200\256\342\201\246\342\200\213\nFORGED')
path=$(printf '%s\233\377' "$evil")

# model FILE HEADER BYTES
model() {
    size=$(printf %s "$2" | wc -c)
    {
        printf "$(printf '\\%03o\\%03o' $((size % 256)) $((size / 256)))\0\0\0\0\0\0%s" "$2" | cat
        head -c "$3" /dev/zero
    } >"$1"
}
tensor() { # NAME DTYPE BEGIN: one row of two bytes
    printf '"%s":{"dtype":"%s","shape":[1,%s],"data_offsets":[%s,%s]}' "$1" "$2" \
        "$([ "$2" = F16 ] && echo 1 || echo 2)" "$3" $(($3 + 2))
}
# A value may have several lines: `meta get` shows them as lines.
value=$(printf %s "$json" | sed 's/FORGED/line/')
metadata=$(printf '"__metadata__":{"%s":"%s","plain":"%s"}' "$json" "$value" "$value")
named="$metadata,$(tensor "a$json.0.w" F16 0),$(tensor "a$json.1.w" F16 2),$(tensor plain F16 4)"
model named "{$named}" 6
model "$path" "{$named}" 6
model other "{$(printf %s "$named" | sed 's/plain/other/; s/0\.w/2.w/')}" 6
model unknown "{$metadata,$(tensor plain "X$json" 0),$(tensor "b$json" "Y$json" 2)}" 4
model unknown2 "{$(tensor plain "Z$json" 0),$(tensor c "Y$json" 2)}" 4
model adapter "{$metadata,$(tensor "a$json.0.w.lora_down.weight" F16 0),$(tensor "a$json.0.w.lora_up.weight" F16 2),$(tensor "unet.a$json.9.w.lora_up.weight" F16 4)}" 6
model twice "{$(tensor "$json" F16 0),$(tensor "$json" F16 2)}" 4
model hole "{$(tensor "$json" F16 0),$(tensor plain F16 4)}" 7
model short "{$(tensor "$json" F16 0),$(tensor plain F16 2)}" 3
model number "{\"__metadata__\":{\"$json\":7},$(tensor "$json" F16 0)}" 2
mkdir "$path.d" "$path.lacks"
for folder in "$path.d" "$path.lacks"; do
    cp other "$folder/$evil-1"
    printf '{"metadata":{},"weight_map":{"a%s.2.w":"%s-1","a%s.1.w":"%s-1","other":"%s-1"%s}}' \
        "$json" "$json" "$json" "$json" "$json" \
        "$([ "$folder" = "$path.d" ] || printf ',"more%s":"%s-2"' "$json" "$json")" \
        >"$folder/model.safetensors.index.json"
done
mkdir peft
model peft/adapter_model.safetensors "{$(tensor "a$json.0.w.lora_A.weight" F16 0),$(tensor "a$json.0.w.lora_B.weight" F16 2)}" 4
printf '{"peft_type":"LORA","r":1,"lora_alpha":1,"alpha_pattern":{"(?%s":1}}' "$json" >peft/adapter_config.json
set -- named "$path" unknown twice hole short number "$path.d" "$path.lacks" "no$path"

# run ARGUMENT...: runs on the terminal, below a line that names the run.
run() {
    printf '== %s' "$count"
    for word; do
        printf ' %s' "$word" | LC_ALL=C tr -c 'a-zA-Z0-9/.,:= -' '?'
    done
    echo
    count=$((count + 1))
    "$on_terminal" 80 "$tool" "$@" $switches </dev/null || :
}
# The command lines of each command, for one model.
on_model() {
    case $1 in
    ls) run ls "$2" && run ls -l "$2" && run ls --tree "$2" && run ls --fold "$2" && run ls --json "$2" &&
        run ls --tsv "$2" && run ls -s dtype "$2" "$evil" ;;
    info) run info "$2" && run info --json "$2" ;;
    fit) run fit "$2" && run fit --json "$2" && run fit --tsv "$2" && run fit --context "$evil" "$2" ;;
    inventory) run inventory . && run inventory --json . && run inventory --no-duplicates "$evil" ;;
    check) run check "$2" && run check --values "$2" && run check --json "$2" && run check --lenient "$2" ;;
    stats) run stats "$2" && run stats --hist "$2" && run stats --json "$2" && run stats --tsv "$2" ;;
    report) run report "$2" && run report "$2" -o - && run report "$2" --title "$evil" --force -o "r$path.html" \
        --treemap "t$path.svg" --heatmap "h$path.svg" && run report "$2" --treemap - &&
        run report "$2" --heatmap - && run report "$2" --compare other -o - ;;
    get) run get "$2" plain && run get "$2" 'a*' && run get "$2" "$evil" && run get "$2" '*1.w' &&
        run get "$2" 'a*1.w' --json && run get "$2" 'a*1.w' --tsv && run get "$2" plain "$evil" &&
        run get "$2" plain --force -o "$path.npy" && run get "$2" plain --bytes -o "$path/none" ;;
    diff) run diff "$2" other && run diff other "$2" && run diff --headers "$2" unknown2 &&
        run diff unknown2 "$2" && run diff --json "$2" unknown2 && run diff "$2" other "$evil" ;;
    meta) run meta "$2" && run meta --json "$2" && run meta --tsv "$2" && run meta "$2" get plain &&
        run meta "$2" get "$evil" && run meta "$2" get "no$evil" && run meta "$2" set "new$evil" "$evil" -n &&
        run meta "$2" set "new$evil" "$evil" && run meta "$2" rm "new$evil" -n &&
        run meta "$2" rm "new$evil" && run meta "$2" edit && run meta "$2" repair &&
        run meta "$2" "$evil" && run meta "$2" -s "$evil" ;;
    convert) run convert "$2" --to f32 -n -o "c$path" && run convert "$2" --to f32 --force -o "c$path" &&
        run convert "$2" --keep "$evil" --to f32 -o "c$path" ;;
    rename) run rename "$2" 's/a/b/' -n -o "c$path" && run rename "$2" 's/^.*$/b/' -n -o "c$path" &&
        run rename "$2" "s/$evil" -o x && run rename "$2" --map "a$evil.1.w=$evil" -n -o "c$path" ;;
    extract | drop) run "$1" "$2" '*1.w' -n -o "c$path" && run "$1" "$2" plain --force -o "c$path" &&
        run "$1" "$2" "$evil" -o x ;;
    merge) run merge "$2" other -n -o "c$path" && run merge "$2" unknown other --force -o "c$path" &&
        run merge "$2" other --prefer last --meta "$evil=$evil" --json -n -o "c$path" ;;
    blend) run blend "$2" other -n -o "c$path" && run blend "$2:0.5" "$2" -o "c$path" &&
        run blend "$2" --force -o "c$path" && run blend bad.yml -o "c$path" && run blend "r$path.yml" -o "c$path" &&
        run blend "no$path" "$2" --method ties --base "$evil" -o "c$path" ;;
    layout) run layout "$2" --transpose 'a*' -n -o "l$path" && run layout "$2" --fuse "$evil" -o "l$path" &&
        run layout "$2" --stack-experts --as "$evil" -o "l$path" && run layout "$2" --transpose '*' --json -n -o "l$path" ;;
    lora) run lora "$2" adapter -n -o "c$path" && run lora "$2" adapter --force -o "c$path" --json &&
        run lora other "$2" -n -o "c$path" && run lora "$2" adapter --component "$evil" -o x &&
        run lora "$2" peft -n -o "c$path" && run lora "$2" "no$path:2" -o x ;;
    split) run split "$2" -n -o "s$path" && run split "$2" --max-shard-size 2 --force -o "s$path" ;;
    realign) run realign "$2" --to 64 -n -o "c$path" && run realign "$2" --to 4096 --force -o "c$path" ;;
    hash) run hash "$2" && run hash --json "$2" && run hash --tensors "$2" && run hash --model "$2" &&
        run hash --verify "$2" "$2" && run hash --verify pointers "$2" ;;
    inventory) run inventory . && run inventory --json . && run inventory "$2" ;;
    bench) run bench --rounds 1 "$2" && run bench --rounds 1 --json "$2" ;;
    completion) run completion bash && run completion "$2" ;;
    manual) run manual ;;
    *) echo "FORGED: there is no command line for '$1' here: a new command has to be added" ;;
    esac
}
printf 'merge_method: linear\nmodels: [{model: %s, parameters: {weight: 1}}, {model: "%s"}]\n' named "$json" |
    tee "r$path.yml" | sed "s/merge_method/$json/" >bad.yml
mkdir pointers
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 68%s\n' 0 "$evil" |
    tee "pointers/$path" >pointers/named

commands=$("$tool" --help | sed -n '/^Examples:/q; s/^  \([a-z]*\) .*/\1/p')
for command in $commands manual; do
    count=0
    {
        for file; do
            switches= && on_model "$command" "$file"
            switches='--lenient --partial' && on_model "$command" "$file"
        done
        # Every command, with options whose values make no sense or are hostile.
        run "$command" "--$evil" named
        run "$command" "-$evil" named
        for option in $("$tool" "$command" --help | sed -n 's/^ .*\(--[a-z-]*\) [A-Za-z].*/\1/p'); do
            run "$command" named "$option" "$evil"
            run "$command" named "$option=$path.d"
        done
    } >said 2>&1
    "$on_terminal" --safe <said >wrong || echo "$command: $(cat wrong)"
done
[ -n "$commands" ] && echo "every other command is safe"
switches=
run "$evil" >said && run help "$evil" >>said
"$on_terminal" --safe <said && echo "safe without a command"
