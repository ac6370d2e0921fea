t rename small.safetensors 's/^layer\.0\.//' -o out.safetensors --dry-run
t rename small.safetensors 's/^layer\.0\.//' -o out.safetensors
t ls out.safetensors
t rename sharded 's/layers\.([0-9]+)\./blocks[\1]./' 's/_/-/g' 's/weight$/&s/' -o renamed
t ls renamed '*blocks?1?.*'
t rename small.safetensors 's#layer/?\.#block/#' 's/x*/-/g' --map ids=tokens -o out.safetensors -f -n
# As sed has it: an empty match counts, but not right behind another one.
t rename small.safetensors 's/[aeis]*/-/g' -o out.safetensors -f -n
t rename small.safetensors --map 'embed.weight=a=b' --map ids=tokens -o out.safetensors -f --json
# Names of several bytes are taken as characters.
t rename hostile.safetensors 's/^.(.*)$/\1/' -o out.safetensors -f -n
# Refused: two of one name, none at all, nothing to do, wrong expressions.
t rename small.safetensors 's/(weight|bias)$/x/' -o no.safetensors
t rename small.safetensors --map ids=mask -o no.safetensors
t rename small.safetensors 's/ids//' -o no.safetensors
t rename small.safetensors 's/ids/__metadata__/' -o no.safetensors
t rename small.safetensors 's/nosuch/x/' -o no.safetensors -n | tail -1
t rename small.safetensors 's/ids' -o no.safetensors
t rename small.safetensors 's/(ids/x/' -o no.safetensors
t rename small.safetensors 's/ids/\1/' -o no.safetensors
t rename small.safetensors 's/ids/x/i' -o no.safetensors
t rename small.safetensors ids -o no.safetensors
t rename small.safetensors -o no.safetensors
t rename small.safetensors --map nosuch=x -o no.safetensors
t rename small.safetensors --map nosuch -o no.safetensors
t rename small.safetensors 's/ids/x/' -o out.safetensors
# Names that hold NUL stay as they are.
header='{"a\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
printf '\160\0\0\0\0\0\0\0%-112sxy' "$header" >nul.safetensors
t rename nul.safetensors 's/a/c/' -o out.safetensors -f
t ls out.safetensors
ls no.safetensors 2>/dev/null || true
