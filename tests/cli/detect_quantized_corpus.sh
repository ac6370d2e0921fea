# No published model that is not quantized is reported as quantized.
[ -d "${TENMAP_CORPUS:-/nonexistent}" ] || skip "TENMAP_CORPUS does not name a corpus"
models=0
for model in "$TENMAP_CORPUS"/real/*.safetensors "$TENMAP_CORPUS"/sharded/*; do
    models=$((models + 1))
    for to in f16 bf16 f64 f8_e4m3; do
        "$tool" convert "$model" --to $to -n -o out >said 2>&1 || echo "$model: $(cat said)"
    done
done
[ $models -gt 80 ] && echo "many models, none refused"
