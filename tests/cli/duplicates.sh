# Tensors that hold the same bytes: only where asked, compared byte for byte, the largest first.
t info --top 0 --duplicates layers.safetensors
t info --top 0 --duplicates small.safetensors
t info --json --top 0 --duplicates layers.safetensors | sed -n '/"duplicates"/,/constant/p' | cut -c1-100
t info --json --top 0 layers.safetensors | grep -c duplicate || true

# The same samples are not enough; one value only, as in untrained norms, is no copy of anything; tensors of
# another dtype or shape are other tensors.
tensors() { # FILE NAME DTYPE SHAPE BYTES...
    file=$1 entries='' at=0
    shift
    while [ $# -gt 0 ]; do
        entries="$entries${entries:+,}\"$1\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[$at,$((at + $4))]}"
        at=$((at + $4))
        shift 4
    done
    entries="{$entries}"
    while [ $((${#entries} % 8)) != 0 ]; do entries="$entries "; done
    n=${#entries}
    { printf "\\$(printf %03o $((n % 256)))\\$(printf %03o $((n / 256)))\0\0\0\0\0\0%s" "$entries"
      cat; } >"$file"
}
{
    seq 1000 1999 | head -c 4000                                  # tied: the first
    seq 1000 1999 | head -c 4000                                  # and the second time
    seq 1000 1999 | head -c 4000 | sed '321s/.*/xxxx/'            # one byte in the middle differs
    seq 1000 1999 | head -c 4000                                  # the same as another dtype
    seq 1000 1999 | head -c 4000                                  # and in another shape
    head -c 800 /dev/zero                                         # norms
} | tensors tied.safetensors embed F32 [1000] 4000 head F32 [1000] 4000 other F32 [1000] 4000 \
    integers I32 [1000] 4000 matrix F32 [10,100] 4000 norm.0 F32 [100] 400 norm.1 F32 [100] 400
t info --top 0 --duplicates tied.safetensors
