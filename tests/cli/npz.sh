# NumPy files with every kind of command; the files are golden ones.
golden=$(dirname "$1")/../golden
cp "$golden/good/numpy-archive.npz" weights.npz
cp "$golden/good/numpy-version-1.npy" x.npy
cp "$golden/bad/numpy-compressed.npz" packed.npz
cp "$golden/bad/numpy-object.npy" objects.npy
cp "$golden/bad/numpy-not-an-array.npz" text.npz

t ls weights.npz
t ls weights.npz --json
t info weights.npz --top 0
t info x.npy --top 0
t check weights.npz
t check x.npy packed.npz objects.npy text.npz
t get x.npy 'array[1,:]'
t stats weights.npz bare
t hash x.npy
t convert weights.npz -o out.safetensors
t diff weights.npz out.safetensors
t convert x.npy --to f16 -o half.safetensors
t ls half.safetensors
t extract weights.npz weight -o part.safetensors
t rename x.npy 's/array/weight/' -o renamed.safetensors
t rename x.npy 's/array/weight/' --in-place
t meta x.npy set a b
t convert weights.npz -o again.npz
t convert packed.npz -o no.safetensors

# The form of a file follows from its entries, whatever its name is.
cp "$golden/good/torch-plain.pt" model.npz
cp weights.npz weights.pt
t info model.npz --top 0
t info weights.pt --top 0

# Exports of the tool open, too.
t get small.safetensors embed.weight -o export.npy
t ls export.npy
mkdir models
cp weights.npz x.npy models
t inventory models
