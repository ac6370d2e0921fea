/* extract: writes some of a model's tensors as a new model. */
#include "output/subset.h"

static int extract_run(const invocation *call) {
    return run_subset(call, true);
}

static const example extract_examples[] = {
    {"tenmap extract llama/ 'model.layers.3.*' -o layer3.safetensors", "one layer as a file"},
    {"tenmap extract model.safetensors --dtype 'f8*' -o f8.safetensors", "by dtype"},
    {"tenmap extract model.gguf 'blk.1.*' --to bf16 -o layer1.safetensors",
     "of a quantized GGUF file, as plain numbers"},
    {NULL, NULL},
};

const command cmd_extract = {
    .name = "extract",
    .summary = "Write some of the tensors as a model",
    .operands = "MODEL [NAME...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = subset_options,
    .details = OUTPUT_DETAILS,
    .examples = extract_examples,
    .settings_size = sizeof(subset_settings),
    .run = extract_run,
};
