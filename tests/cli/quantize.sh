# convert --quantize: weights as codes and scales, in the layouts that other programs read, and the
# error that this causes.
"$(dirname "$fixtures")/cli_quantized" .
# (The dimensions are not multiples of 128, so fp8-block needs a rule: tests/cli/quantize_shapes.sh.)
for scheme in fp8-block fp8-channel int8-channel mxfp4; do
    t convert plain --quantize $scheme $([ $scheme != fp8-block ] || echo --rule *_proj.weight=quantize) -o $scheme/
    t ls -s file $scheme 'model.layers.0*' lm_head
    t info $scheme | sed -n 6,7p
    # diff on the written model measures the error that convert printed.
    t diff plain $scheme --dequantize --top 2
done
cat fp8-block/config.json
cat mxfp4/config.json
t diff plain fp8-block --dequantize --json | sed -n '/"quantization_error"/,$p'
t convert plain --quantize fp8-block --rule '*_proj.weight=quantize' -n --json -o none/ | sed -n '/"quantization_error"/,$p'

# --dry-run; what stays; more weights; other dtypes for the rest.
t convert plain --quantize int8-channel --keep '*.1.*' -n -o none/
t convert plain --quantize fp8-channel --rule 'lm_head.weight=quantize' --rule 'model.layers.1.*=keep' --to f32 -o ruled/
t ls -s file ruled
grep -A3 ignore ruled/config.json
t convert plain --quantize mxfp4 --rule '*down_proj*=quantize' -o none/
t convert plain --quantize fp8-block --rule '*norm*=quantize' -o none/
# --strict: nothing is written if values become zero.
t convert plain --quantize int8-channel --strict -o none/
ls -d none 2>/dev/null || echo "nothing was written"
# Into shards; and into a file, whose config.json is not written where it could do harm.
t convert plain --quantize fp8-block --rule '*_proj.weight=quantize' --max-shard-size 60KB -o shards
t diff fp8-block shards --dequantize
t convert plain --quantize fp8-block --rule '*_proj.weight=quantize' -o alone.safetensors
t diff fp8-block alone.safetensors --dequantize
# A model that is already quantized: only with --dequantize.
t convert gptq --quantize fp8-channel -o none/
t convert gptq --quantize fp8-channel --dequantize -o again/
t ls -s file again
cat again/config.json
t convert fp8-block --dequantize --quantize fp8-block --rule '*_proj.weight=quantize' -o same/
t diff fp8-block same --dequantize
# Nothing to quantize; unknown words.
t convert none.safetensors --quantize mxfp4 -o out.safetensors
t convert small.safetensors --quantize fp8-block --rule layer.0.weight=quantize -o out.safetensors
t convert plain --quantize fp8 -o out.safetensors
t convert plain --quantize fp8-block --raw -o out.safetensors
t convert plain --to bf16 --rule 'lm_head.weight=quantize' -o out.safetensors
# Infinities and NaN: the scale comes from the finite values, and the others are counted.
header='{"a.weight":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}}'
{
    printf "\\$(printf %03o ${#header})\0\0\0\0\0\0\0%s" "$header"
    printf '\0\0\200\077\0\0\0\100\0\0\200\177\0\0\0\0' # 1, 2, infinity, 0
    printf '\0\0\300\177\0\0\200\277\1\0\0\0\0\0\0\0'   # NaN, -1, the smallest above 0, 0
} >odd.safetensors
for scheme in fp8-channel int8-channel; do
    t convert odd.safetensors --quantize $scheme -o odd-$scheme.safetensors
    t get odd-$scheme.safetensors a.weight --dequantize
done
# On a terminal of 80 columns no line is wider. A progress bar, which a slow machine shows, is
# overwritten in place and looks like one long line here.
if command -v script >/dev/null; then
    for line in "convert plain --quantize mxfp4 -n -o none/" "diff plain mxfp4 --dequantize" "info mxfp4" \
        "convert fp8 --dequantize -n -o none/"; do
        script -qec "stty cols 80 rows 24; $tool $line --color never -q" /dev/null </dev/null | tr -d '\r' >shown || true
        [ "$(wc -L <shown)" -le 80 ] || { echo "too wide: $line"; cat shown; }
    done
fi
