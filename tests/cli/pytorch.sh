# PyTorch checkpoints: in folders and shards.
rm -r sharded
"$(dirname "$fixtures")/cli_checkpoints" .
echo '# Folders open by the usual names; what a trainer writes beside the model is not looked at.'
t ls trainer
t ls sharded
t check sharded trainer
cp trainer/pytorch_model.bin trainer/pytorch_model.fp16.bin
t ls --tsv trainer
mkdir both only several
cp small.safetensors both/model.safetensors
cp tensor.pt both/pytorch_model.bin
t ls both ids
cp tensor.pt only/weights.pt
t ls only
echo '# A folder of single files stands for all of them; others are recognized by their content.'
cp tensor.pt several/a.pt
cp training.ckpt several/b.pt
cp noise.bin several/noise.pt
t check several
echo '# An inventory skips what is no checkpoint, and finds what is damaged.'
mkdir all
cp -r trainer sharded all
cp training.ckpt cut.pt script.pt archive.pt noise.bin all
t inventory all
rm all/sharded/pytorch_model.bin.index.json
t inventory --no-duplicates --tsv all/sharded
echo '# check names each global that is code, and says whether the pickle wants code. Nothing is run.'
t check evil.pt
t check --json evil.pt
t check class.pt made.pt tied.bin tensor.pt sharded
t check --json --level error tensor.pt
t check small.safetensors
ls called 2>/dev/null && echo 'code was run'
echo '# info names the branch that is the model.'
t info --top 0 training.ckpt
t info --top 0 sharded
"$tool" info --json training.ckpt | grep -e branch -e other -e '"tensors": 3'
t info --top 0 training.ckpt --branches
t ls training.ckpt --branches
t stats training.ckpt --branches 'ema*'
echo '# convert writes a shared tensor once, and its other names to the metadata.'
t convert tied.bin -o tied.safetensors
t ls tied.safetensors
t meta tied.safetensors
t check tied.safetensors
t diff tied.bin tied.safetensors
t convert tied.bin --share no -n -o apart.safetensors
t convert --json tied.bin -o other.safetensors --force
t convert tied.bin --rule 'lm_head*=bf16' -n -o other.safetensors --force
t convert tied.bin --share no -o apart.safetensors
t diff --any-metadata tied.bin apart.safetensors
# A name that is a key of the metadata cannot be another name of a tensor.
t convert clash.pt -o clash.safetensors
t ls clash.safetensors
t meta clash.safetensors
t convert clash.pt --meta b=mine -o mine.safetensors
t ls mine.safetensors
t convert training.ckpt -o training.safetensors
t convert training.ckpt --branches -o branches.safetensors
t ls branches.safetensors
echo '{"architectures": ["Tiny"], "torch_dtype": "float32"}' >sharded/config.json
cp all/sharded/*.bin sharded
t convert sharded -o out
ls out
t ls out
t meta out
t convert evil.pt -o safe.safetensors
t check safe.safetensors
t convert made.pt -o made.safetensors
t convert tied.bin -o tied.bin
echo '# Every other command reads them.'
t get tensor.pt 'tensor[0,:2]'
t get tied.bin 'turned.a[:2,:2]'
t hash tensor.pt | cut -c1-40
t hash --model tensor.pt | cut -c1-20
t stats tied.bin row turned.a
t diff tied.bin class.pt --any-metadata
t diff trainer sharded --any-metadata 'model.l*'
t meta training.ckpt
t meta training.ckpt get epoch
t meta training.ckpt set epoch 4
t rename tied.bin 's/model/net/' -n
t extract tied.bin 'turned*' -o turned.safetensors
t drop tied.bin 'turned*' --to bf16 -o dropped.safetensors
t merge tensor.pt class.pt -o merged.safetensors
t split tied.bin --max-shard-size 200 -o split
t ls split
t realign tensor.pt
t fit tied.bin --json | grep -c params
t report tensor.pt -o report.html
t bench tensor.pt --json | grep -c tensors
t completion bash | grep -c branches
