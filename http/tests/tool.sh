#!/bin/sh
# The tool on addresses: it prints and writes the same as for a local copy of the model.
#
#     server.py tool.sh TENMAP FIXTURES
#
# server.py inserts its address and the folder that it serves before these arguments.
set -eu
base=$1 served=$2 tool=$(realpath "$3") fixtures=$(realpath "$4")
export HF_ENDPOINT="$base" LC_ALL=C.UTF-8 NO_COLOR=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
cd "$work"
"$fixtures" .
cp sharded/* small.safetensors layers.safetensors other.safetensors "$served"
# A header of 300 KB, which is longer than the first read.
awk 'BEGIN { text = "{"
    for (i = 0; i < 4000; i++)
        text = text sprintf("%s\"layers.%d.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", \
                            i ? "," : "", i, i, i + 1)
    text = text "}"
    while (length(text) % 8) text = text " "
    printf "%s", text }' >header
{
    size=$(wc -c <header)
    for shift in 1 256 65536 16777216; do printf "\\$(printf %o $((size / shift % 256)))"; done
    printf '\0\0\0\0'
    cat header
    head -c 4000 /dev/zero
} >longer.safetensors
echo '{"architectures":["LlamaForCausalLM"],"model_type":"llama"}' >"$served/config.json"
cp "$served/config.json" sharded/
hub=hf://demo/model
failed=0
wrong() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# run FILE ARGUMENT...: writes stdout, stderr and the exit code to FILE.
run() {
    out=$1
    shift
    status=0
    "$tool" "$@" >"$out" 2>&1 || status=$?
    echo "exit $status" >>"$out"
}
# same HERE THERE COMMAND...: the word MODEL in the command stands for the model. Both outputs are
# equal except for the model's name, which is shown without a query.
same() {
    here=$1 there=$2
    shift 2
    for place in "$here" "$there"; do
        line=
        for word; do line="$line '$(printf %s "$word" | sed "s,MODEL,$place,")'"; done
        eval "run $([ "$place" = "$here" ] && echo here || echo there) $line"
    done
    sed "s,${there%%[?]*},$here,g" there >renamed
    diff -u here renamed || wrong "$there: $*"
}

for there in "$base/files/small.safetensors?Signature=hunter2" "$hub/small.safetensors"; do
    for line in 'ls -l MODEL' 'check --values MODEL' 'stats MODEL' 'hash --model MODEL' 'meta MODEL' \
        'ls --json MODEL' 'diff MODEL other.safetensors'; do
        same small.safetensors "$there" $line
    done
done
rm "$served/config.json"
for there in "$base/files/small.safetensors?Signature=hunter2" "$hub/small.safetensors"; do
    same small.safetensors "$there" diff --json other.safetensors MODEL
done
same layers.safetensors "$base/files/layers.safetensors" info MODEL
cp sharded/config.json "$served"

# An index, and the folder of a hub.
for line in 'ls MODEL' 'info MODEL' 'info --json MODEL' 'check MODEL' 'stats MODEL' 'hash --model MODEL'; do
    same sharded "$hub" $line
done
# Whether a model fits is known before it is downloaded: from config.json and the headers.
for config in sharded/config.json "$served/config.json"; do
    echo '{"architectures":["LlamaForCausalLM"],"num_hidden_layers":12,"num_attention_heads":4,"hidden_size":16}' >$config
done
for line in 'fit --memory 1MB MODEL' 'fit --memory 1KB --json MODEL' 'fit --tsv --context 100 MODEL'; do
    same sharded "$hub" $line
done
run said fit "$hub"
grep -q '12 layers of 4 KV heads of 4' said || { cat said; wrong "fit of an address"; }
for config in sharded/config.json "$served/config.json"; do
    echo '{"architectures":["LlamaForCausalLM"],"model_type":"llama"}' >$config
done
same sharded "$hub@main" info MODEL
there=$base/files/model.safetensors.index.json
for name in $("$tool" ls --tsv sharded | tail -n +2 | cut -f1); do
    same sharded/model.safetensors.index.json "$there" get MODEL "$name" --raw-values
done
same sharded/model.safetensors.index.json "$there" ls MODEL "$name"
same sharded/model.safetensors.index.json "$there" ls --json MODEL "$name"

# The written file is the same, and reading one tensor opens one shard.
name=$("$tool" ls --tsv sharded | tail -1 | cut -f1)
for line in "extract MODEL $name -o OUT/" "convert MODEL --to f16 -o OUT/ -j 3" \
    "extract MODEL -d f32 -o OUT.safetensors" "get MODEL $name -o OUT.npy"; do
    run said $(printf %s "$line" | sed "s,MODEL,sharded,; s,OUT,a,")
    run said $(printf %s "$line" | sed "s,MODEL,$hub,; s,OUT,b,")
    tail -1 said | grep -q 'exit 0' || { cat said; wrong "$line"; }
    for made in a*; do
        diff -r "$made" "b${made#a}" || wrong "$line"
    done
    rm -rf a a.* b b.*
done
run said get --traffic "$base/files/model.safetensors.index.json" "$name" --raw-values
grep -q 'moved [0-9]* bytes in 2 requests' said || { cat said; wrong "one tensor: index and shard"; }

# says CODE MESSAGE COMMAND...: checks the exit code, and that the output contains MESSAGE.
says() {
    code=$1 message=$2
    shift 2
    run said "$@"
    { grep -qF -- "$message" said && grep -q "^exit $code\$" said; } || { cat said; wrong "$*"; }
    ! grep -q hunter2 said || { cat said; wrong "a secret: $*"; }
}
says 3 'no such file on the server' info "$base/files/none.safetensors"
says 3 'may not hold a user name' info "http://user:hunter2@127.0.0.1/x"
says 3 'this is not an address that can be opened' info ftp://h/x
says 3 'this is not an address that can be opened' info file:///etc/passwd
says 3 'names no host' ls http:///x
says 3 'cannot connect to the server' info http://127.0.0.1:1/x
says 3 'with the token that was given' info --token hunter2 "$base/forbidden/x"
says 3 'not a local file' hash "$base/files/small.safetensors"
says 64 'cannot be changed' meta "$base/files/small.safetensors" set a b
says 64 'bench measures' bench "$base/files/small.safetensors"
says 64 'looks through a local folder' inventory "$hub"
says 64 'has a revision' info "$hub@main" --revision main
says 64 'for addresses on a hub' info small.safetensors --revision main
says 64 'cannot be sent' info --token 'hunter2 x' "$base/plain/x"
says 3 'no tensor matches' get "$hub" nosuchtensor
says 0 "$hub@a%2Fb" info "$hub" --revision a/b
# Files are compared with what the hub says of them; a web server says nothing.
says 0 'small.safetensors: OK' hash small.safetensors --verify "$hub/small.safetensors"
says 0 'model-00003-of-00003.safetensors: OK' hash sharded --verify "$hub"
mkdir -p changed
cp other.safetensors changed/small.safetensors
says 1 'and should have' hash changed/small.safetensors --verify "$hub"
says 3 'gives no SHA-256' hash small.safetensors --verify "$base/files/small.safetensors"
# Operands stay valid as long as the command runs: ten different ones.
n=0 many=
while [ $n -lt 10 ]; do n=$((n + 1)) many="$many hf://none/model$n"; done
# shellcheck disable=SC2086
says 3 'hf://none/model1@main' check $many --revision main
says 2 'web page' info "$base/page/x"
says 3 'this is a folder' info "$base/files/"
says 3 'not a SafeTensors file' info "$base/guarded/x" --token hunter2

# A command requests what it needs twice only once: the index, three shards and config.json, and the
# header of a file if it is longer than the first read. This config.json has no context length, so
# info and report ask for tokenizer_config.json too.
asks() {
    count=$1
    shift
    run said "$@" --traffic
    grep -q "moved [0-9]* bytes in $count requests" said || { cat said; wrong "$*: not $count requests"; }
}
asks 6 info "$there"
asks 4 check "$there"
asks 5 check --config "$there"
asks 6 report --no-stats "$there" -f -o page.html
cp longer.safetensors "$served"
asks 2 check "$base/files/longer.safetensors"
asks 4 info "$base/files/longer.safetensors"

# Shards whose names mean something else in an address, at a web address and on a hub.
odd='a?b%20c#d e&%.safetensors'
mkdir odd
cp small.safetensors "odd/$odd"
"$tool" ls --tsv small.safetensors | tail -n +2 | cut -f1 |
    awk -v file="$odd" 'BEGIN { printf "{\"weight_map\":{" }
        { printf "%s\"%s\":\"%s\"", (NR > 1 ? "," : ""), $0, file } END { print "}}" }' >odd/odd.safetensors.index.json
cp odd/* "$served"
first=$("$tool" ls --tsv small.safetensors | sed -n 2p | cut -f1)
for there in "$base/files/odd.safetensors.index.json" "$hub/odd.safetensors.index.json"; do
    for line in 'hash --model MODEL' 'info MODEL' "get MODEL $first --raw-values" "ls -l MODEL $first"; do
        rm -f "$served/config.json"
        same odd/odd.safetensors.index.json "$there" $line
    done
done
cp sharded/config.json "$served"

# A report of an address works. Control characters that a server sends are neither printed nor used
# in the name of a file. Bytes above 0x7f belong to UTF-8, in the table of a model.
clean() {
    run said "$@"
    ! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" said || { cat -v said; wrong "control characters: $*"; }
}
run said report "$hub/small.safetensors" -f -o page.html
tail -1 said | grep -q 'exit 0' && grep -q "$hub/small.safetensors" page.html || { cat said; wrong "report of an address"; }
for case in evil-error evil-status evil-redirect evil-host evil-range; do
    for command in info check ls stats 'hash --model' 'report -f -o page.html'; do
        clean $command "$base/$case/x"
        tail -1 said | grep -q 'exit [23]' || { cat said; wrong "$case: $command"; }
    done
done
for command in info check ls stats 'report -f -o page.html'; do
    clean $command hf://evil/model
done
clean extract hf://evil/model '*' -o evil/
tail -1 said | grep -q 'exit 0' && ls evil | grep -q config.json || { cat said; wrong "extract of a hub's folder"; }
ls -b evil | grep -q '\\' && { ls -b evil; wrong "a file whose name holds control characters"; }
! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" page.html || wrong "control characters in the page"

# Counts and sizes that a server chooses are bounded, and the error message gives the bound.
for i in $(seq 300); do echo x >"$served/tokenizer.$i.txt"; done
says 3 'more than 256 files that belong to a model' extract "$hub" '*' -o many/
says 0 '' extract "$hub" '*' -o many/ -f --no-config
rm -rf many "$served"/tokenizer.*.txt
echo '{}' >"$served/tokenizer.json"
echo claimed >"$served/tokenizer_huge.json"
says 3 'has 268435456 bytes; at most 268435456 bytes of such companion files are fetched, and 26843' \
    extract "$hub" '*' -o large/
rm -rf large "$served"/tokenizer*
# A config.json that can only be read in part is reported, and not treated as missing.
touch "$served/break"
says 3 'no config.json' check --config "$hub"
says 3 'config.json'"'"' cannot be fetched' convert "$hub" --quantize fp8-channel -o large/
rm -rf large "$served/break"
says 3 'more than 1000000 names' ls hf://org/crowd --token hunter2
says 3 'more than 67108864 bytes in names' ls hf://org/wide --token hunter2
says 3 'more than 200000 files' ls hf://org/shards --token hunter2

# No error shows the query of an address, wherever the address is used. Neither does anything
# printed or written.
signed=$base/files/small.safetensors?X-Amz-Signature=hunter2
quiet() {
    run said "$@"
    ! grep -qr hunter2 said kept.* 2>/dev/null || { cat said; wrong "a secret: $*"; }
    rm -rf kept.*
}
for form in '' --json --tsv; do
    for command in info ls check stats meta 'hash --model' 'hash --tensors' hash 'diff small.safetensors' get; do
        quiet $command $form "$signed"
        quiet $command $form "$base/files/none.safetensors?X-Amz-Signature=hunter2"
    done
done
quiet merge "$signed" small.safetensors -o kept.safetensors
quiet convert "$base/files/longer.safetensors?X-Amz-Signature=hunter2" --quantize fp8-channel -o kept.safetensors
quiet rename "$signed" 's/^/x/' --in-place
quiet report "$signed" -o kept.html
for line in "MODEL" "get small.safetensors MODEL" "meta small.safetensors MODEL" "completion MODEL" "hash --verify MODEL x" \
    "convert small.safetensors --rule MODEL -o kept.safetensors" "extract small.safetensors -o MODEL" "bench MODEL" \
    "inventory MODEL" "info --revision x MODEL" "ls --nosuch=MODEL" "extract MODEL nosuch -o kept.safetensors"; do
    quiet $(printf %s "$line" | sed "s,MODEL,$signed,")
done

# PyTorch files follow the same rules: a folder, an index, a single file that is signed.
mkdir torch
"$(dirname "$fixtures")/cli_checkpoints" torch
rm -f "$served"/*.safetensors "$served"/*.json
cp torch/sharded/* torch/trainer/training_args.bin torch/trainer/optimizer.pt torch/tied.bin "$served"
for line in 'ls MODEL' 'info MODEL' 'check MODEL' 'stats MODEL' 'ls --branches MODEL lm_head.weight'; do
    same torch/sharded "$hub" $line
done
for there in "$base/files/tied.bin?Signature=hunter2" "$hub/tied.bin"; do
    for line in 'ls -l MODEL' 'check MODEL' 'stats MODEL' 'hash --model MODEL'; do
        same torch/tied.bin "$there" $line
    done
done
run said convert "$hub/tied.bin" -o torch/far.safetensors
run said convert torch/tied.bin -o torch/near.safetensors
cmp torch/far.safetensors torch/near.safetensors || wrong "convert of a remote checkpoint"
run said ls "$base/files/pytorch_model.bin.index.json?Signature=hunter2"
grep -q 'signed for one file only' said || { cat said; wrong "an index of PyTorch files that is signed"; }

# An interrupt ends a command that waits for a silent server, minutes before its timeout, and the
# command leaves nothing behind.
(cd "$work" && exec "$tool" extract "$base/silent/x" a -o left.safetensors) >said 2>&1 &
pid=$!
while [ ! -e "$served/asked" ] && kill -0 $pid 2>/dev/null; do sleep 0.05; done
kill -INT $pid
begun=$(date +%s)
wait $pid && code=0 || code=$?
[ $code = 130 ] || { cat said; wrong "an interrupted extract ends with $code"; }
[ $(($(date +%s) - begun)) -lt 60 ] || wrong "an interrupt took $(($(date +%s) - begun)) s"
ls .left* left* 2>/dev/null && wrong "an interrupted extract left something"

echo "$failed failed"
[ $failed = 0 ]
