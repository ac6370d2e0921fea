# drop: config.json follows the number of layers, a gap is reported, and --renumber closes it.
mkdir model
cp layers.safetensors model/model.safetensors
cat >model/config.json <<'END'
{
  "first_k_dense_replace": 1,
  "layer_types": ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11"],
  "mlp_only_layers": [],
  "model_type": "llama",
  "num_hidden_layers": 12,
  "vision_config": {"num_hidden_layers": 3}
}
END
# The last layers.
t drop model 'model.layers.1[01].*' -o ten
cat ten/config.json
t drop model 'model.layers.11.*' -n --json -o none | grep -e '"config"' -e layer_gaps
# Layers in between.
t drop model 'model.layers.[23].*' -o gap
cat gap/config.json
t drop model 'model.layers.[23].*' -n --json -o none | grep layer_gaps
t drop model 'model.layers.[23].*' --renumber -o closed
cat closed/config.json
t check closed
t ls --fold closed
# The values are those of the later layers.
for pair in '1 1' '4 2' '11 9'; do
    for name in mlp.up_proj self_attn.q_proj; do
        "$tool" get model "model.layers.${pair% *}.$name.weight" --tsv | cksum >a
        "$tool" get closed "model.layers.${pair#* }.$name.weight" --tsv | cksum | cmp - a
    done
done
# A file, with and without config.json beside it.
t drop layers.safetensors 'model.layers.0.*' -o rest.safetensors
t drop layers.safetensors 'model.layers.0.*' --renumber -o closed.safetensors
t drop model/model.safetensors 'model.layers.11.*' -o eleven.safetensors
# A part of each layer, or all of them, leave no gap.
t drop model '*.mlp.*' -o attention
t drop model 'model.layers.*' -o bare
grep num_hidden bare/config.json
# extract takes parts on purpose.
t extract model 'model.layers.3.*' -o three
t extract model 'model.layers.[35].*' --renumber -o two
t ls -s file two
grep -e layer_types -e num_hidden two/config.json
# Two parts of the model have as many layers: which of them is meant is not known.
echo '{"num_hidden_layers": 12, "vision_config": {"num_hidden_layers": 12}}' >model/config.json
t drop model 'model.layers.11.*' -o unclear
cat unclear/config.json
# A list of another length is not one of layers; several keys on one line.
echo '{"n_layer": 12, "layer_types": ["x", "y"], "n_layers": 13}' >model/config.json
t drop model 'model.layers.0.*' --renumber --to f16 -o line
cat line/config.json
