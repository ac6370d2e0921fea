# Tensors that hold the same bytes: reported only if asked, compared byte for byte, the largest
# first.
t info --top 0 --duplicates layers.safetensors
t info --top 0 --duplicates small.safetensors
t info --json --top 0 --duplicates layers.safetensors | sed -n '/"duplicates"/,/constant/p' | cut -c1-100
t info --json --top 0 layers.safetensors | grep -c duplicate || true

# Equal samples are not enough. A tensor of one repeated value, such as an untrained norm, is not a
# copy of anything. Tensors of another dtype or shape are different tensors.
tensors() { # FILE NAME DTYPE SHAPE BYTES...
    file=$1
    shift
    { header_of "$@"; cat; } >"$file"
}
{
    seq 1000 1999 | head -c 4000                                  # tied: the first copy
    seq 1000 1999 | head -c 4000                                  # tied: the second copy
    seq 1000 1999 | head -c 4000 | sed '321s/.*/xxxx/'            # one byte in the middle differs
    seq 1000 1999 | head -c 4000                                  # the same bytes as another dtype
    seq 1000 1999 | head -c 4000                                  # the same bytes in another shape
    head -c 800 /dev/zero                                         # norms
} | tensors tied.safetensors embed F32 [1000] 4000 head F32 [1000] 4000 other F32 [1000] 4000 \
    integers I32 [1000] 4000 matrix F32 [10,100] 4000 norm.0 F32 [100] 400 norm.1 F32 [100] 400
t info --top 0 --duplicates tied.safetensors
