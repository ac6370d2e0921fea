# Findings of one cause are one line with a count and examples; --all and --json have every one. A
# missing shard makes a model incomplete, not rejected, and the rest of it is checked. Shards
# without an index are reported.
head -c 20000 layers.safetensors >cut.safetensors
t check cut.safetensors
t check --all cut.safetensors | tail -4
"$tool" check --json cut.safetensors | grep -c '"code": "incomplete"'

echo "The same finding about each of several files is one line."
t check sharded
t check --all sharded

echo "Few findings about tensors stay one by one; more are one line, with what the library counted."
odd() { # FILE COUNT: so many misaligned tensors
    list=$(i=0; while [ $i -lt "$2" ]; do echo "t$i F32 [1] 4"; i=$((i + 1)); done)
    # shellcheck disable=SC2086 # a list of words
    { header_of first U8 [1] 1 $list; head -c "$data_bytes" /dev/zero; } >"$1"
}
odd three.safetensors 3
t check three.safetensors
odd four.safetensors 4
t check four.safetensors
odd forty.safetensors 40
t check forty.safetensors
"$tool" check --json forty.safetensors | grep '"count"'

echo "A missing shard: incomplete, exit 3; what is there is checked, also its values."
rm sharded/model-00002-of-00003.safetensors
t check sharded
t check --level error --json sharded
t check --values --level warning sharded
t check sharded small.safetensors truncated.safetensors | tail -2

echo "Shards without an index."
rm sharded/*.json
t check --level warning sharded
mkdir none
"$tool" split layers.safetensors -o none/ --max-shard-size 10kb >/dev/null
rm none/*.json
t check --level warning none
