# Losses are reported: values that overflow or become zero are counted, and then --strict writes
# nothing.
command -v script >/dev/null || skip "there is no script (util-linux) to make a terminal"
on_terminal() {
    echo "on a terminal: tenmap $*"
    script -qec "stty cols 80 rows 24; $tool $* 2>/dev/null" /dev/null </dev/null | tr -d '\r'
}
# 1e6 and -2e5 in "large", 1e-10 and 1 in "small", NaN and 1 in "odd"; then a model without losses.
header='{"large":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"odd":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"small":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}'
printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header" >lossy.safetensors
printf '\000\044\164\111\000\120\103\310\000\000\300\177\000\000\200\077\377\346\333\056\000\000\200\077' >>lossy.safetensors
t convert lossy.safetensors --to f16 -o half.safetensors
t get half.safetensors large
t convert lossy.safetensors --to f8_e4m3 -o eight.safetensors
t convert lossy.safetensors --to f8_e4m3 --saturate -o saturated.safetensors
t convert lossy.safetensors --to f8_e4m3 --rule large=f16 -o mixed.safetensors --json
t convert lossy.safetensors --to bf16 -o fine.safetensors

t convert lossy.safetensors --to f16 --strict -o strict.safetensors
t convert lossy.safetensors --to f16 --strict -o strict/
ls strict strict.safetensors 2>&1 || true
t convert lossy.safetensors --to f16 --strict --dry-run -o strict.safetensors
t convert lossy.safetensors --to bf16 --strict -o strict.safetensors
t convert lossy.safetensors --to f16 --dry-run -o no.safetensors

# In shards, each tensor has its own counts; at 80 columns the names can be told apart.
t convert layers.safetensors --rule 'model.layers.*=f4' -o narrow/ --max-shard-size 2KB
t convert sharded --to f8_e5m2 -o narrow/ --force
on_terminal convert --color never layers.safetensors --to f6_e3m2 -o small/
