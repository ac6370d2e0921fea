# Every model of the corpus through split, merge, realign and, if it loses nothing, convert: the
# fingerprint shows that the model is the same.
[ -d "${TENMAP_CORPUS:-/nonexistent}" ] || skip "TENMAP_CORPUS does not name a corpus"
print() { "$tool" hash -m "$1" | cut -d' ' -f1; }
same() { [ "$(print "$1")" = "$2" ] || echo "$model: $1 is not the same"; }
models=0 converted=0
for model in "$TENMAP_CORPUS"/real/*.safetensors "$TENMAP_CORPUS"/sharded/* "$TENMAP_CORPUS"/cases/*; do
    want=$(print "$model" 2>/dev/null) && [ "$want" ] || continue
    models=$((models + 1))
    "$tool" split "$model" --max-shard-size 20KB -o pieces >log 2>&1 || echo "$model: $(cat log)"
    same pieces "$want"
    "$tool" merge pieces -o whole.safetensors >log 2>&1 || echo "$model: $(cat log)"
    same whole.safetensors "$want"
    "$tool" realign pieces --to 64 --reorder --single -o aligned.safetensors >log 2>&1 ||
        echo "$model: $(cat log)"
    same aligned.safetensors "$want"
    # Models of one floating-point dtype, converted to a wider one and back.
    floats=$("$tool" hash -t --json "$model" | grep -o '"dtype": "B*F[^"]*"' | sort -u)
    case $floats in
    '"dtype": "F32"' | '"dtype": "F16"' | '"dtype": "BF16"')
        dtype=$(echo "$floats" | cut -d'"' -f4)
        "$tool" convert "$model" --to f64 -o wide.safetensors >log 2>&1 || echo "$model: $(cat log)"
        "$tool" convert wide.safetensors --to $dtype -o back.safetensors >log 2>&1 ||
            echo "$model: $(cat log)"
        same back.safetensors "$want"
        converted=$((converted + 1))
        ;;
    esac
    rm -rf pieces whole.safetensors aligned.safetensors wide.safetensors back.safetensors
done
[ $models -gt 100 ] && [ $converted -gt 40 ] && echo "many models, all the same"
