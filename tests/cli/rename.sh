t rename small.safetensors 's/^layer\.0\.//' -o out.safetensors --dry-run
t rename small.safetensors 's/^layer\.0\.//' -o out.safetensors
t ls -s file out.safetensors
t rename sharded 's/layers\.([0-9]+)\./blocks[\1]./' 's/_/-/g' 's/weight$/&s/' -o renamed
t ls renamed '*blocks?1?.*'
t rename small.safetensors 's#layer/?\.#block/#' 's/x*/-/g' --map ids=tokens -o out.safetensors -f -n
# As in sed: an empty match counts, but not directly after another match.
t rename small.safetensors 's/[aeis]*/-/g' -o out.safetensors -f -n
t rename small.safetensors --map 'embed.weight=a=b' --map ids=tokens -o out.safetensors -f --json
# Multibyte characters in names count as one character.
t rename hostile.safetensors 's/^.(.*)$/\1/' -o out.safetensors -f -n
# Refused: duplicate names, empty names, nothing to do, wrong expressions.
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
# In place: the data stays where it is, or moves if the names do not fit.
c() {
    t "$@" | sed 's/changed; .*/changed by copying the data/'
}
cp small.safetensors place.safetensors
t rename place.safetensors 's/^layer\.0\.//' --in-place --dry-run
cmp small.safetensors place.safetensors && echo "the file is as it was"
data=$(tail -c 64 place.safetensors | cksum) inode=$(ls -i place.safetensors)
t rename place.safetensors 's/^layer\.0\.//' --in-place --meta renamed=y
[ "$inode" = "$(ls -i place.safetensors)" ] && echo "the same file"
[ "$data" = "$(tail -c 64 place.safetensors | cksum)" ] && echo "the same data"
t ls -s file place.safetensors
t diff place.safetensors out.safetensors --any-metadata
t meta place.safetensors get renamed
t rename place.safetensors --map weight=bias --map bias=weight -i --json
c rename place.safetensors 's/^/a.much.longer.prefix.that.does.not.fit.into.the.header./' -i
t rename place.safetensors 's/^a\.much.*header\.//' -i
t rename place.safetensors 's/nosuch/x/' -i
t check place.safetensors
ls -A | grep '^\.' || true
ln -s place.safetensors link.safetensors
t rename link.safetensors --map ids=tokens -i --follow
t ls place.safetensors tokens
t rename sharded 's/^/x./' -i
t rename sharded/model-00001-of-00003.safetensors 's/^/x./' -i
t rename small.safetensors 's/ids/x/' -i -o no.safetensors
t rename small.safetensors 's/ids/x/' -i --meta odd
t rename small.safetensors 's/ids/x/'
t rename small.safetensors 's/ids/x/' --no-copy -o no.safetensors
t rename small.safetensors --map ids=mask -i
# Names that contain NUL stay as they are.
header='{"a\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
printf '\160\0\0\0\0\0\0\0%-112sxy' "$header" >nul.safetensors
t rename nul.safetensors 's/a/c/' -o out.safetensors -f
t ls out.safetensors
ls no.safetensors 2>/dev/null || true
