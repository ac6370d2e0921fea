t diff small.safetensors small.safetensors
t diff small.safetensors other.safetensors
t diff other.safetensors small.safetensors --json
t diff small.safetensors other.safetensors --headers
t diff small.safetensors other.safetensors 'layer.0.weight' --any-metadata
t diff small.safetensors other.safetensors layer.0.bias --any-metadata
t diff small.safetensors other.safetensors layer.0.bias --any-metadata --any-dtype
t diff small.safetensors other.safetensors layer.0.weight --atol 5.5 --any-metadata
t diff small.safetensors other.safetensors layer.0.weight --rtol 0.5 --any-metadata -j 1
t diff small.safetensors other.safetensors layer.0.weight --rtol 0.49 --any-metadata
t diff small.safetensors other.safetensors -x 'layer*' -x ids -x temperature -x top_k --any-metadata
t diff layers.safetensors sharded --any-metadata
t diff layers.safetensors sharded --any-metadata --json 'model.layers.0.*'

# A conversion and its inverse: within half a unit in the last place of BF16.
t convert layers.safetensors --to bf16 -o bf16.safetensors
t diff layers.safetensors bf16.safetensors --any-dtype --rtol 0.00390625

# NaN equals NaN; a NaN on one side is beyond every tolerance.
header='{"n":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}}'
put() { printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s$2" "$header" >"$1"; }
put a.safetensors '\000\176\000\074\000\374'
put b.safetensors '\001\176\000\074\000\374'
put c.safetensors '\000\074\000\074\000\074'
t diff a.safetensors b.safetensors
t diff a.safetensors c.safetensors --atol 1e30
t diff a.safetensors c.safetensors --json

# Mistakes.
t diff small.safetensors
t diff small.safetensors nosuch.safetensors
t diff small.safetensors truncated.safetensors
t diff small.safetensors other.safetensors nosuch
t diff small.safetensors other.safetensors --atol -1

# The largest changes come first, at 80 columns; layers of one kind are grouped; the rest is
# counted.
command -v script >/dev/null || skip "there is no script (util-linux) to make a terminal"
"$tool" convert layers.safetensors --rule '*layers.1*.mlp*=f6_e3m2' --rule '*layers.3.self*=f4' --rule '*embed*=f4' -o tuned.safetensors >/dev/null
t diff layers.safetensors tuned.safetensors --any-dtype --top 4
script -qec "stty cols 80 rows 24; $tool diff layers.safetensors tuned.safetensors --any-dtype --color never 2>/dev/null" /dev/null </dev/null | tr -d '\r'
t diff layers.safetensors tuned.safetensors --any-dtype --json model.embed | grep cosine
t diff layers.safetensors tuned.safetensors --any-dtype --atol 0.1 model.layers.3

# A kind's relative change covers all its tensors, including the unchanged ones: two of four tensors
# [2, 2] became [3, 3]. Each changed by half of its norm, all together by 2 of sqrt(32).
header='{"l.0.w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"l.1.w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"l.2.w":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},"l.3.w":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}}'
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
two='\0\0\0\100\0\0\0\100' three='\0\0\100\100\0\0\100\100'
put kind_a.safetensors "$two$two$two$two"
put kind_b.safetensors "$two$two$three$three"
t diff kind_a.safetensors kind_b.safetensors
# The relative change of tensors with the same dtypes, of whatever kind, does the same: v, w and x
# are [2, 2], and x became [3, 3], which is sqrt(2) of sqrt(24).
header='{"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"x":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}'
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
put dtype_a.safetensors "$two$two$two"
put dtype_b.safetensors "$two$two$three"
t diff dtype_a.safetensors dtype_b.safetensors --map-names
