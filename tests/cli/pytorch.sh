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
