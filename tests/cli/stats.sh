t stats small.safetensors
t stats small.safetensors 'layer.*' -s std
t stats sharded model.norm.weight model.embed_tokens.weight -s name
t stats layers.safetensors 'model.layers.1?.mlp*' -s norm -j 1
t stats small.safetensors -d 'f*' -x '*.scale' --min-size 8 --tsv
t stats small.safetensors mask temperature --json

# Histograms.
t stats --hist layers.safetensors model.embed_tokens.weight
t stats --hist --bins 24 --low -1 --high 1 layers.safetensors model.embed_tokens.weight
t stats --hist --log --bins 8 small.safetensors mask temperature
t stats --hist --bins 4 small.safetensors embed.weight --json
# Edges are shown. A value on an edge counts in the bin that begins there, except the greatest edge.
header='{"e":{"dtype":"F32","shape":[5],"data_offsets":[0,20]},"c":{"dtype":"F32","shape":[2],"data_offsets":[20,28]}}'
printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header" >edges.safetensors
printf '\000\000\000\000\000\000\200\076\000\000\000\077\000\000\100\077\000\000\200\077\000\000\200\077\000\000\200\077' >>edges.safetensors
t stats --hist --counts --bins 4 edges.safetensors
t stats --hist --bins 32 edges.safetensors e
t stats --hist --bins 4 edges.safetensors e --json
t stats --counts edges.safetensors

# The numbers do not depend on the number of threads, and a sharded model has those of the whole
# one.
for threads in 1 2 3; do "$tool" stats --tsv -j $threads layers.safetensors | sort | sha256sum; done | uniq | wc -l
"$tool" stats --tsv layers.safetensors | sort >a
"$tool" stats --tsv sharded | sort >b
cmp a b && echo same

# NaN, infinities, and an empty tensor.
header='{"e":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"n":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}}'
printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s\\000\\176\\000\\374\\001\\000" "$header" >odd.safetensors
t stats odd.safetensors
t stats odd.safetensors --json
t stats odd.safetensors --hist e

# Mistakes.
t stats
t stats small.safetensors nosuch
t stats small.safetensors --log
t stats small.safetensors --json --tsv
t stats small.safetensors --hist --tsv
t stats small.safetensors --hist --low 2 --high 1
t stats small.safetensors --hist --bins 5000
t stats pointer.safetensors
