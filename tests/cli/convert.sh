# --dry-run, and the conversion itself.
t convert small.safetensors --to bf16 -o out.safetensors --dry-run
ls out.safetensors 2>&1 || true
t convert small.safetensors --to bf16 -o out.safetensors --meta made=here --meta version=2
t ls -s file out.safetensors
grep -ao '__metadata__":{[^}]*}' out.safetensors
# The scalar -11 is 0xc130 in BF16.
t extract out.safetensors temperature -o one.safetensors
tail -c 2 one.safetensors | od -An -tx1

# Rules: the first match counts, and --keep comes before all; integers change only if a rule names
# them.
t convert small.safetensors --rule 'layer*=f16' --rule 'layer.0.wide=f32' --rule 'mask=f32' --rule 'bytes=keep' --keep bias -o rules.safetensors
t ls -s file rules.safetensors
t convert layers.safetensors --to f8_e4m3 --keep norm --rule 'lm_head*=bf16' --saturate -n -o x --json | head -12

# Integers keep their values in other integer dtypes, fail at the first that does not fit, or
# saturate.
t convert small.safetensors --rule 'ids=i32' --rule 'mask=u8' --rule 'bytes=i64' -o integers.safetensors
t get integers.safetensors ids
t get integers.safetensors mask
t convert small.safetensors --rule 'ids=bool' --saturate -o clamped.safetensors
t get clamped.safetensors ids

# Shards stay shards, no larger than the input's largest, unless the output is to be one file.
t convert sharded --to f32 -o wide
ls wide
t convert sharded --to f32 -o wide.safetensors
t convert sharded --to f32 -o folder/ --single
ls folder
t convert layers.safetensors --to f32 --max-shard-size 30KB -o pieces
ls pieces

# Nothing is overwritten without --force; with it, even the input is.
t convert small.safetensors --to f16 -o out.safetensors
t convert sharded --to f16 -o wide
cp small.safetensors itself.safetensors
t convert itself.safetensors --to f16 -o itself.safetensors --force
t ls itself.safetensors 'layer*'
t convert sharded --to f32 -o sharded/model-00001-of-00003.safetensors --force
t convert sharded --to f32 -o sharded/model.safetensors.index.json --force --single

# Converts without some of the shards, if asked to.
rm sharded/model-00002-of-00003.safetensors
t convert sharded --to f32 -o part.safetensors
t convert sharded --to f32 -o part.safetensors --partial

# Mistakes.
t convert small.safetensors --rule 'embed*=i32' -o no.safetensors
t convert small.safetensors --rule 'ids=bool' -o no.safetensors
t convert small.safetensors --rule 'ids=bool' --strict -o no.safetensors
t convert small.safetensors --to bf16
t convert small.safetensors -o no.safetensors
t convert small.safetensors --to float -o no.safetensors
t convert small.safetensors --rule mask -o no.safetensors
t convert small.safetensors --to bf16 --meta novalue -o no.safetensors
t convert small.safetensors --to bf16 --max-shard-size 1KB -o no.safetensors
t convert layers.safetensors --to bf16 --max-shard-size 1KB --single -o no
t convert small.safetensors --to bf16 -o nowhere/no.safetensors
t convert truncated.safetensors --to bf16 -o no.safetensors
t convert small.safetensors --to bf16 --keep nosuch -n -o no.safetensors | tail -1
t convert small.safetensors --to bf16 -o page.safetensors/ 
ls -A | grep -v safetensors
