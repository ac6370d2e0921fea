# A sound model, one with warnings, and broken ones: every finding, the verdict, the exit code.
t check small.safetensors
t check sharded
t check misaligned.safetensors
t check misaligned.safetensors --level warning
t check misaligned.safetensors --level error
t check truncated.safetensors
t check pointer.safetensors
t check page.safetensors
t check empty.safetensors
t check hostile.safetensors

# Several broken rules in one header, and how a lenient open handles them.
model() { # NAME HEADER BYTES
    printf "\\$(printf %03o ${#2})\\0\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
    truncate -s $((8 + ${#2} + $3)) "$1"
}
model holes.safetensors '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"F99","shape":[1],"data_offsets":[6,8]},"c":{"dtype":"U8","shape":[2],"data_offsets":[8,10],"x":1}}' 12
t check holes.safetensors
t check holes.safetensors --lenient
t check holes.safetensors --json
model lenient.safetensors '{"b":{"dtype":"F99","shape":[1],"data_offsets":[2,4]}}' 5
t check lenient.safetensors
t check lenient.safetensors --lenient

# An index that disagrees with its shards.
cp sharded/model-00001-of-00003.safetensors sharded/model-00004-of-00004.safetensors
sed -i 's/"total_size": *[0-9]*/"total_size":1/; s/model.norm.weight/model.nrom.weight/' sharded/*.json
t check sharded
t check sharded --json --level error
rm sharded/model-00002-of-00003.safetensors
t check sharded
t check sharded --partial --level error

# Values.
model values.safetensors '{"nan":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},"zero":{"dtype":"F32","shape":[3],"data_offsets":[8,20]}}' 20
printf '\300\177\200\377\001\000' | dd of=values.safetensors bs=1 seek=$((8 + 114)) conv=notrunc 2>/dev/null
t check values.safetensors
t check values.safetensors --values
t check values.safetensors --values --json -j 1
t check --values small.safetensors

# Mistakes.
t check
t check nosuch.safetensors
t check .
t check small.safetensors other.safetensors
t check small.safetensors --level loud
t check truncated.safetensors --values
