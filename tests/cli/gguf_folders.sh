# GGUF files in a folder of models: each is listed, a split set once, a broken file as broken.
u16() { printf "\\$(printf %03o $(($1 % 256)))\\$(printf %03o $(($1 / 256)))"; }
u32() { u16 "$1" && u16 0; }
u64() { u32 "$1" && u32 0; }
word() { u64 ${#1} && printf %s "$1"; }
begin() { printf GGUF && u32 3 && u64 "$1" && u64 "$2"; } # TENSORS PAIRS
short() { word "$1" && u32 2 && u16 "$2"; }
# row NAME WIDTH HEIGHT TYPE AT
row() { word "$1" && u32 2 && u64 "$2" && u64 "$3" && u32 "$4" && u64 "$5"; }
data() { # FILE BYTES: the header from the pipe, padding, and data
    cat >"$1"
    size=$(wc -c <"$1")
    head -c $(((32 - size % 32) % 32)) /dev/zero >>"$1"
    seq 100000 | head -c "$2" >>"$1"
}
mkdir -p all/quants
{
    begin 2 0
    row blk.0.attn_q.weight 32 2 2 0
    row blk.0.attn_norm.weight 1 8 0 64
} | data all/quants/tiny-q4_0.gguf 96
{
    begin 1 0
    row token_embd.weight 8 4 0 0
} | data all/quants/other.gguf 128
for i in 0 1; do
    {
        begin 1 2
        short split.no "$i"
        short split.count 2
        row "t$i.weight" 8 4 0 0
    } | data "all/parts-0000$((i + 1))-of-00002.gguf" 128
done
head -c 100 all/quants/other.gguf >all/cut.gguf
cp small.safetensors all
t inventory all
rm all/parts-00001-of-00002.gguf
t inventory all --depth 0 --no-duplicates
# A folder of single GGUF files stands for all of them.
t ls all/quants/other.gguf
t info --top 0 all/quants | grep -e gguf -e tensors
