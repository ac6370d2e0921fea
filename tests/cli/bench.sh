# Times differ from run to run, so numbers are replaced by N.
numbers() { sed -E 's/avx2|neon|scalar/CPU/; s/ +[0-9.]+ (us|ms|s)\b/ N s/; s/[0-9]+(\.[0-9]+)?(e-?[0-9]+)?/N/g; s/  +/ /g'; }
t bench layers.safetensors --rounds 2 -j 2 | numbers
t bench sharded --size 4KB --rounds 1 --json | numbers

# Mistakes.
t bench
t bench nosuch.safetensors
t bench layers.safetensors --rounds 0
t bench pointer.safetensors
