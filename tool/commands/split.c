/* split: writes a model as shards, with the index that hubs expect. */
#include <stdlib.h>

#include "command.h"
#include "output/output_write.h"

typedef struct split_settings {
    output_settings out;
} split_settings;

static const option split_options[] = {
    {0, "max-shard-size", "SIZE", OPTION_SIZE, offsetof(split_settings, out.max_shard),
     "Write shards of at most this many bytes of tensors (5GB); a single tensor may be larger"},
    OUTPUT_OPTIONS(offsetof(split_settings, out)),
    END_OF_OPTIONS,
};

static const example split_examples[] = {
    {"tenmap split model.safetensors --max-shard-size 5GB -o model/", "shards of at most 5 GB"},
    {"tenmap split model.safetensors --max-shard-size 2GB -o model -n", "how many there would be"},
    {NULL, NULL},
};

static int split_run(const invocation *call) {
    const split_settings *set = call->settings;
    plan p;
    int status = plan_open(&p, "splitting", call->operands, 1);
    for (size_t i = 0; !status && i < tenmap_count(p.models[0]); i++)
        plan_add(&p, tenmap_at(p.models[0], i));
    if (!status)
        status = plan_write(&p, &set->out);
    plan_free(&p);
    return status;
}

static const split_settings split_defaults = {.out = {.max_shard = 5000000000}};

const command cmd_split = {
    .name = "split",
    .summary = "Write a model as shards with an index",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .options = split_options,
    .details =
        "OUT is a folder. It gets model-00001-of-0000N.safetensors and so on, with tensors in\n"
        "file order, and model.safetensors.index.json with their total size. A model that fits\n"
        "into one shard becomes model.safetensors. With --force, the new model replaces an\n"
        "existing one in OUT when it is complete. Its shards then have a random number in their\n"
        "names, so that no file is overwritten before that.",
    .examples = split_examples,
    .settings_size = sizeof(split_settings),
    .defaults = &split_defaults,
    .run = split_run,
};
