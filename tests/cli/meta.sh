# A change that does not fit shares blocks on a file system that can. c prints the same for both.
c() {
    t "$@" | sed 's/: changed; .*/: changed by copying the data/'
}
with_editor() {
    (EDITOR=$1 && export EDITOR && shift && t "$@")
}

t meta small.safetensors
t meta small.safetensors --json
t meta small.safetensors --tsv
t meta small.safetensors get format
t meta sharded
t meta hostile.safetensors
t meta hostile.safetensors --json
t meta hostile.safetensors --tsv

# Changes leave the tensors as they are.
before=$("$tool" get small.safetensors embed.weight --tsv | cksum)
t meta small.safetensors set version 2 --dry-run
t meta small.safetensors set version 2
t meta small.safetensors set version 2
t meta small.safetensors get version
t meta small.safetensors set license mit note 'two
lines' version 3 --dry-run
c meta small.safetensors set license mit note 'two
lines' version 3
t meta small.safetensors
t meta small.safetensors get note
t meta small.safetensors rm note license --dry-run
t meta small.safetensors rm note license
t meta small.safetensors
[ "$before" = "$("$tool" get small.safetensors embed.weight --tsv | cksum)" ] && echo "the same values"
ls -A | grep '^\.' || true

# Shards: changes all of them, or one.
c meta sharded set format pt
t meta sharded set format np --shard 2
t meta sharded
t meta sharded --shard 2
t meta sharded get format
t meta sharded get format --shard model-00002-of-00003.safetensors
t meta sharded rm format --shard 1
t meta sharded --tsv
t meta sharded --shard 4

# The editor: only changes are written, and nothing if there are none.
printf '#!/bin/sh\ncat "$1"\n' >look && chmod +x look
printf '#!/bin/sh\nsed -i "s/3/4/; s/\\"format\\": \\"pt\\"/\\"new\\": \\"\\\\\\\\u00e9\\\\\\\\n\\"/" "$1"\n' >change && chmod +x change
printf '#!/bin/sh\necho "{\\"a\\": 1}" >"$1"\n' >spoil && chmod +x spoil
with_editor ./look meta small.safetensors edit
with_editor ./change meta small.safetensors edit --dry-run
with_editor ./change meta small.safetensors edit
t meta small.safetensors
(VISUAL=./change && export VISUAL && with_editor ./look meta small.safetensors edit)
(TMPDIR=. && export TMPDIR && with_editor ./spoil meta small.safetensors edit) | sed 's/tenmap-.*\.json/tenmap-X.json/'
ls tenmap-*.json | wc -l
printf '#!/bin/sh\nprintf "{\"b\":\"1\",\n\"a\":\"2\",\n\"a\":\"3\",\n\"b\":\"4\"}" >"$1"\n' >twice && chmod +x twice
(TMPDIR=. && export TMPDIR && with_editor ./twice meta small.safetensors edit) | sed 's/tenmap-.*\.json/tenmap-X.json/'
with_editor false meta small.safetensors edit
with_editor ./look meta sharded edit
with_editor ./look meta hostile.safetensors edit

t meta small.safetensors repair
cp small.safetensors cut.safetensors && : >.cut.safetensors.tenmap-undo
t check cut.safetensors
printf '\377\377\377\377\377\377\377\377' | dd of=cut.safetensors conv=notrunc 2>/dev/null
t ls cut.safetensors
rm cut.safetensors .cut.safetensors.tenmap-undo
t meta small.safetensors get nosuch
t meta small.safetensors get versoin
t meta small.safetensors rm version nosuch
t meta small.safetensors set
t meta small.safetensors set odd
t meta small.safetensors set a b c
t meta small.safetensors put a b
t meta small.safetensors get
t meta pointer.safetensors set a b
t meta nosuch repair
t meta
t meta --help
