# bash completion for tenmap, made by 'tenmap completion bash'.

_tenmap() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local options= valued= values= first= second= names= model= operands=0 i word
    COMPREPLY=()
    # --option=value comes as three words.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "ls info inventory check stats report get diff meta convert rename extract drop merge split realign hash bench completion help --help --version" -- "$cur"))
        return
    fi
    case ${COMP_WORDS[1]} in
    help) first="ls info inventory check stats report get diff meta convert rename extract drop merge split realign hash bench completion " ;;
    ls)
        options="-t --tree -D --depth -f --fold -l --long -s --sort -r --reverse -d --dtype -x --except --min-size --max-size -j --threads --json --tsv --dequantize --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -D --depth -s --sort -d --dtype -x --except --min-size --max-size -j --threads --max-header --color --token --revision "
        names=yes
        case $prev in
        -s | --sort) values="file name size params dtype" ;;
        -d | --dtype) values="bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz i16 u16 f16 bf16 i32 u32 f32 c64 f64 i64 u64" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    info)
        options="-n --top --duplicates -j --threads --json --dequantize --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -n --top -j --threads --max-header --color --token --revision "
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    inventory)
        options="--no-shared -D --depth -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -D --depth -j --threads --max-header --color --token --revision "
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    check)
        options="-v --values -c --config -l --level -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -l --level -j --threads --max-header --color --token --revision "
        case $prev in
        -l | --level) values="note warning error" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    stats)
        options="-H --hist --log --counts --bins --low --high -s --sort -d --dtype -x --except --min-size --max-size -j --threads --json --tsv --dequantize --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --bins --low --high -s --sort -d --dtype -x --except --min-size --max-size -j --threads --max-header --color --token --revision "
        case $prev in
        -s | --sort) values="file name std max norm" ;;
        -d | --dtype) values="bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz i16 u16 f16 bf16 i32 u32 f32 c64 f64 i64 u64" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    report)
        options="-o --output -f --force -c --compare --hist --hist-limit --no-stats --dequantize --title --treemap --color-by --heatmap --metric -j --threads --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -o --output -c --compare --hist --hist-limit --title --treemap --color-by --heatmap --metric -j --threads --max-header --color --token --revision "
        case $prev in
        --color-by) values="auto dtype layer change" ;;
        --metric) values="auto norm max zeros broken change size" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    get)
        options="-o --output -f --force --as -a --all -p --precision --raw-values --tsv --json --raw -j --threads -b --bytes --dequantize --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -o --output --as -p --precision -j --threads --max-header --color --token --revision "
        names=yes
        case $prev in
        --as) values="f4 f6_e2m3 f6_e3m2 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz f16 bf16 f32 f64" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    diff)
        options="-a --atol -r --rtol -n --top --headers --any-dtype --any-metadata --map-names --rename -x --except -j --threads --json --dequantize --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -a --atol -r --rtol -n --top --rename -x --except -j --threads --max-header --color --token --revision "
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    meta)
        options="-s --shard -n --dry-run --follow --no-copy --undo --json --tsv --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -s --shard --max-header --color --token --revision "
        second="get set rm edit repair"
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    convert)
        options="--to --rule --keep --min-rank --saturate --strict --raw --quantize --dequantize --max-shard-size --single -o --output -f --force -n --dry-run --meta --copy-config --no-config -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --to --rule --keep --min-rank --quantize --max-shard-size -o --output --meta -j --threads --max-header --color --token --revision "
        case $prev in
        --to) values="f4 f6_e2m3 f6_e3m2 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz f16 bf16 f32 f64" ;;
        --quantize) values="none fp8-block fp8-channel int8-channel mxfp4" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    rename)
        options="--map -i --in-place --follow --no-copy --max-shard-size --single -o --output -f --force -n --dry-run --meta --copy-config --no-config -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --map --max-shard-size -o --output --meta -j --threads --max-header --color --token --revision "
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    extract)
        options="-d --dtype -x --except --min-size --max-size --to --dequantize --max-shard-size --single -o --output -f --force -n --dry-run --meta --copy-config --no-config -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -d --dtype -x --except --min-size --max-size --to --max-shard-size -o --output --meta -j --threads --max-header --color --token --revision "
        names=yes
        case $prev in
        -d | --dtype) values="bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz i16 u16 f16 bf16 i32 u32 f32 c64 f64 i64 u64" ;;
        --to) values="f4 f6_e2m3 f6_e3m2 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz f16 bf16 f32 f64" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    drop)
        options="-d --dtype -x --except --min-size --max-size --to --dequantize --max-shard-size --single -o --output -f --force -n --dry-run --meta --copy-config --no-config -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" -d --dtype -x --except --min-size --max-size --to --max-shard-size -o --output --meta -j --threads --max-header --color --token --revision "
        names=yes
        case $prev in
        -d | --dtype) values="bool f4 f6_e2m3 f6_e3m2 u8 i8 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz i16 u16 f16 bf16 i32 u32 f32 c64 f64 i64 u64" ;;
        --to) values="f4 f6_e2m3 f6_e3m2 f8_e5m2 f8_e4m3 f8_e8m0 f8_e4m3fnuz f8_e5m2fnuz f16 bf16 f32 f64" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    merge)
        options="--prefer --max-shard-size -o --output -f --force -n --dry-run --meta --copy-config --no-config -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --prefer --max-shard-size -o --output --meta -j --threads --max-header --color --token --revision "
        case $prev in
        --prefer) values="none first last" ;;
        --color) values="auto always never" ;;
        esac
        ;;
    split)
        options="--max-shard-size -o --output -f --force -n --dry-run --meta --copy-config --no-config -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --max-shard-size -o --output --meta -j --threads --max-header --color --token --revision "
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    realign)
        options="--to --reorder --in-place --max-shard-size --single -o --output -f --force -n --dry-run --meta --copy-config --no-config -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --to --max-shard-size -o --output --meta -j --threads --max-header --color --token --revision "
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    hash)
        options="--verify -t --tensors -m --model -j --threads --json --dequantize --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --verify -j --threads --max-header --color --token --revision "
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    bench)
        options="--size -n --rounds -j --threads --json --lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --size -n --rounds -j --threads --max-header --color --token --revision "
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    completion)
        options="--lenient --partial --max-header --color --token --revision --traffic -q --quiet --help"
        valued=" --max-header --color --token --revision "
        first="bash zsh fish"
        case $prev in
        --color) values="auto always never" ;;
        esac
        ;;
    esac
    if [[ -n $values ]]; then
        COMPREPLY=($(compgen -W "$values" -- "$cur"))
        return
    fi
    [[ $valued == *" $prev "* ]] && return
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == -* ]]; then
            [[ $valued == *" $word "* ]] && ((i++))
            continue
        fi
        ((operands++ == 0)) && model=${word/#\~\//${HOME-}/}
    done
    if ((operands == 0)) && [[ -n $first ]]; then
        COMPREPLY=($(compgen -W "$first" -- "$cur"))
    elif ((operands == 1)) && [[ -n $second ]]; then
        COMPREPLY=($(compgen -W "$second" -- "$cur"))
    elif ((operands >= 1)) && [[ -n $names && -e $model ]]; then
        COMPREPLY=($(tenmap ls --tsv "$model" 2>/dev/null | awk -F '\t' -v cur="$cur" \
            'NR > 1 && index($1, cur) == 1 && $1 !~ /[^A-Za-z0-9_.-]/ { print $1 }'))
    fi
}

# Where nothing is offered, bash completes file names.
complete -o default -F _tenmap tenmap
