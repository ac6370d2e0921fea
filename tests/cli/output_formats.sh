# The name of an output says its format. A name of another format than SafeTensors is refused before
# anything is written, by every command that writes a model.
before=$(ls -A)
for ending in gguf bin pt pth ckpt onnx npz npy h5 msgpack tflite safetensors.gz GGUF json txt html safetensor; do
    t convert small.safetensors --to f16 -o x.$ending
done
refused() {
    status=0
    "$tool" "$@" >said 2>&1 || status=$?
    echo "$1: exit $status: $(cat said)"
    rm said
}
refused extract small.safetensors ids -o x.gguf
refused drop small.safetensors ids -o x.gguf
refused merge sharded -o x.gguf
refused split layers.safetensors -o x.gguf
refused realign small.safetensors -o x.gguf
refused rename small.safetensors 's/a/b/' -o x.gguf
refused convert sharded --to f16 -o x.gguf
refused convert layers.safetensors --quantize fp8-channel -o x.gguf
refused convert small.safetensors --to f16 -n --json -o x.gguf
# A report is no model, and no model is a report.
refused report small.safetensors -o x.gguf
refused report small.safetensors -o x.safetensors
refused report small.safetensors --treemap x.pt
refused report small.safetensors -o x.json --heatmap x.svg
cp small.safetensors really.pt
refused realign really.pt --in-place
cmp small.safetensors really.pt && rm really.pt
[ "$before" = "$(ls -A)" ] || ls -A
# A folder may be called anything, and so may a file without one of these endings: a model's name
# often has a dot.
t convert small.safetensors --to f16 -o folder.gguf/
ls folder.gguf
t convert small.safetensors --to f16 -o folder.gguf --force
t convert small.safetensors --to f16 -o small-1.5
t convert sharded --to f16 -o sharded-1.5
ls sharded-1.5
