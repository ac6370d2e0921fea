t ls small.safetensors
t ls -l small.safetensors misaligned
t ls -l misaligned.safetensors
t ls sharded 'model.layers.1*.input*'
t ls --long sharded 'model.layers.[23].input*'
# By default, names sort as numbers do, in a table, --tsv and --json alike, whatever the order in the
# file; --sort file is that order.
{
    header_of layers.10.w U8 [2] 2 layers.2.w U8 [2] 2 layers.1.w U8 [2] 2 embed U8 [2] 2
    printf '12345678'
} >unsorted.safetensors
t ls unsorted.safetensors
t ls --tsv unsorted.safetensors
t ls --json unsorted.safetensors
t ls --sort file unsorted.safetensors
t ls --sort file --tsv -r unsorted.safetensors
t ls --sort name layers.safetensors input
t ls --sort size small.safetensors
t ls --sort size -r small.safetensors 'layer.*'
t ls --sort params small.safetensors 'layer.*'
t ls --sort dtype small.safetensors
t ls -d bf16 -d 'f8*' small.safetensors
t ls --min-size 24 --max-size 40B small.safetensors
t ls -x 'layer.*' -x mask small.safetensors
t ls --tree small.safetensors
t ls --tree layers.safetensors 'model.layers.?.*' 'model.layers.10.*' -x self_attn
t ls --fold sharded
t ls --fold small.safetensors
t ls --fold --depth 3 layers.safetensors -x model.layers.5.mlp.up_proj.weight
t ls --depth 2 sharded
t ls --depth 3 sharded
t ls --json sharded 'model.layers.1.*'
t ls --tsv small.safetensors
t ls hostile.safetensors
t ls --tree hostile.safetensors
t ls --json hostile.safetensors
t ls --tsv hostile.safetensors
t ls --color always small.safetensors ids
t ls small.safetensors nosuch
t ls small.safetensors embed.wieght
t ls small.safetensors 'none*'
t ls --min-size 1GB small.safetensors
t ls truncated.safetensors
t ls pointer.safetensors
t ls page.safetensors
t ls empty.safetensors
t ls nosuch.safetensors
t ls
t ls --nosuch small.safetensors
t ls --tre small.safetensors
t ls -Z small.safetensors
t ls --sort weight small.safetensors
t ls --min-size lots small.safetensors
t ls --depth
t ls --json --tsv small.safetensors
t ls --tree --sort size small.safetensors
t ls --json=yes small.safetensors
t ls --help
