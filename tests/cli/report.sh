# The data of a report; tests/report tests its appearance.
data() {
    sed -n '/<script id="data"/,/<script>/p' "$1" | sed '/<script>/d' | sed 's/"tool":"tenmap [0-9.]*[a-z]*[0-9]*"/"tool":"tenmap X.Y.Z"/'
}
t report -q small.safetensors -o small.html
data small.html
t report -q hostile.safetensors -o hostile.html --title '</title><script>alert(1)</script>'
data hostile.html
grep -c '<script' hostile.html
grep '<title>' hostile.html
t report -q small.safetensors --compare other.safetensors --no-stats -o compare.html
data compare.html | sed -n '/"others"/p; /"diff"/,$p'
# NaN against infinity, infinities of both signs, and a number against infinity: three of the four
# values are not finite here.
{ header_of w F32 '[4]' 16 && printf '\0\0\300\177\0\0\200\177\0\0\200\077\0\0\200\377'; } >broken.safetensors
{ header_of w F32 '[4]' 16 && printf '\0\0\200\177\0\0\300\177\0\0\200\177\0\0\200\177'; } >base.safetensors
t report -q broken.safetensors --compare base.safetensors --no-stats -o broken.html
data broken.html | grep -o '"\(nonfinite_mismatches\|nonfinite_gained\)":.*'
# What the model is, as info says it; and the histograms of the other model, with their ranges, for
# tensors that changed.
"$fixtures" . gguf
t report -q llama.safetensors --compare llama.gguf -o llama.html
data llama.html | grep -o '"profile": "[^"]*"'
t report -q small.safetensors --compare other.safetensors -o overlay.html
data overlay.html | sed -n '/^"base":{"tensor"/,$p'
# Dead rows and columns of floats are in the data, as check --values finds them: not those of a tensor
# of one value or of integers, and none without histograms.
{
    header_of m F8_E4M3 [4,4] 16 constant F8_E4M3 [3,2] 6 mask U8 [2,2] 4 conv F8_E4M3 [2,1,1,2] 4
    printf '\070\000\100\070\000\000\000\000\070\000\070\177\100\000\100\070' # row 1 and column 1 are 0
    printf '\070\070\070\070\070\070\001\001\001\001\070\070\100\100'
} >dead.safetensors
t check --values --level note dead.safetensors
for options in '' '--hist m' '--hist-limit 1' '--no-stats'; do
    t report -q dead.safetensors $options -f -o dead.html
    data dead.html | sed -n '/^"form"/p; /^"dead_/p'
done
t report -q sharded --no-stats -o - >page
grep -c 'Content-Security-Policy' page
t report -q -j 2 small.safetensors -o threads.html
cmp small.html threads.html && echo "the same page on two threads"

# Findings name the tool's options, not the library's macros.
mkdir part
cp sharded/*.json part
for shard in sharded/*-00001-of-*; do cp "$shard" part; done
t report -q part --partial --no-stats -o part.html
data part.html | grep -o 'use --partial\|TENMAP_[A-Z_]*' | sort -u

# The default name, and the size of the pictures.
"$tool" report layers.safetensors 2>&1 | sed 's/([0-9.]* KB)/(N KB)/'
"$tool" report sharded/ --no-stats 2>&1 | sed 's/([0-9.]* KB)/(N KB)/'
t report -q layers.safetensors --treemap map.svg --heatmap heat.svg
head -c 300 map.svg
grep -c '<rect' heat.svg
t report -q hostile.safetensors --no-stats --treemap hostile.svg
grep -c '<script' hostile.svg || true
ls -A | grep '^\.' || echo "nothing hidden is left"

# Without numbered layers, the heat map shows modules; without tensors, it says so.
t report -q hostile.safetensors --heatmap modules.svg
grep -o '>[A-Z][A-Za-z ]* by module and kind' modules.svg | sort -u
t report -q none.safetensors --heatmap none.svg
grep -o '>This[^<]*' none.svg | sort -u
# Names joined by _ and - have layers too; a number that is the same in all names counts none.
head=
at=0
for i in 0 1 2; do
    for name in lora_unet_down_blocks_${i}_attentions_1_proj.alpha lora_unet_down_blocks_${i}_fc_1 lora_unet_down_blocks_${i}_fc_2; do
        head="$head,\"$name\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[$at,$((at + 1))]}"
        at=$((at + 1))
    done
done
head="{${head#,}}"
printf "\\$(printf %o $((${#head} % 256)))\\$(printf %o $((${#head} / 256)))\0\0\0\0\0\0%s" "$head" >joined.safetensors
printf '123456789' >>joined.safetensors
t report -q joined.safetensors --heatmap joined.svg --treemap map.svg --force
grep -o '>[^<]*by layer[^<]*\|"end">[^<]*' joined.svg | sort -u
grep -o '"start">[^<]*' map.svg | sort -u

# Histograms of some tensors only.
t report -q small.safetensors --hist 'layer.*' -o some.html
data some.html | grep 'id="bins"'

# Mistakes.
t report
t report nosuch.safetensors
t report truncated.safetensors
t report pointer.safetensors
mkdir folder
t report small.safetensors -o folder
t report small.safetensors -o small.safetensors
t report small.safetensors --compare other.safetensors -o other.safetensors
t report small.safetensors -o nosuch/page.html
t report small.safetensors --hist nosuch -o page.html
t report small.safetensors --hist ids --no-stats
t report small.safetensors --treemap map.svg --color-by change
t report small.safetensors --heatmap heat.svg --metric norm --no-stats
t report small.safetensors --compare nosuch.safetensors
[ -e page.html ] || [ "$(ls -A folder)" ] || echo "no mistake left a file"
