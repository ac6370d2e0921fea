/* drop: writes a model without some of its tensors. */
#include "output/subset.h"

static int drop_run(const invocation *call) {
    return run_subset(call, false);
}

static const example drop_examples[] = {
    {"tenmap drop model.safetensors 'vision_tower.*' -o text.safetensors",
     "a model without a part"},
    {"tenmap drop llama/ 'model.layers.2[0-3].*' --renumber -o pruned/",
     "without four layers; the later ones move up, and config.json counts them"},
    {"tenmap drop model.safetensors '*' --dtype i64 -o out.safetensors", "by dtype"},
    {NULL, NULL},
};

const command cmd_drop = {
    .name = "drop",
    .summary = "Write a model without some of the tensors",
    .operands = "MODEL [NAME...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = subset_options,
    .details =
        "The names and filters select the tensors to leave out. If these are the last\n"
        "layers of a model, drop also updates the number of layers in config.json. If they are\n"
        "other layers, it prints which layers are left; --renumber closes the gap.\n"
        "\n" OUTPUT_DETAILS,
    .examples = drop_examples,
    .settings_size = sizeof(subset_settings),
    .run = drop_run,
};
