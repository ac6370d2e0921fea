/* extract, drop: some of the tensors of a model. */
#include <stdlib.h>

#include "command.h"
#include "reshape.h"
#include "select.h"

typedef struct subset_settings {
    output_settings out;
    filter wanted;
} subset_settings;

static const option subset_options[] = {
    {'d', "dtype", "DTYPE", OPTION_LIST, offsetof(subset_settings, wanted.dtypes),
     "Only these dtypes: bf16, 'f8*'"},
    {'x', "except", "NAME", OPTION_LIST, offsetof(subset_settings, wanted.except),
     "Not these names"},
    {0, "min-size", "SIZE", OPTION_SIZE, offsetof(subset_settings, wanted.min_bytes),
     "Only tensors of at least this size"},
    {0, "max-size", "SIZE", OPTION_SIZE, offsetof(subset_settings, wanted.max_bytes),
     "Only tensors of at most this size"},
    SHARD_OPTIONS(subset_settings, out),
    OUTPUT_OPTIONS(subset_settings, out),
    END_OF_OPTIONS,
};

/* Both lists are in file order, so one walk tells which tensors are in the selection. */
static int plan_subset(plan *p, const selection *chosen, bool keep) {
    const tenmap_model *model = p->models[0];
    size_t next = 0;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        bool selected = next < chosen->count && chosen->tensors[next] == t;
        next += selected;
        if (selected == keep)
            plan_add(p, t);
    }
    if (p->count == 0 && tenmap_count(model))
        return fail(EXIT_FAILED, "that would leave no tensor");
    return EXIT_FINE;
}

static int run_subset(const invocation *call, bool keep) {
    const subset_settings *set = call->settings;
    plan p = {0};
    selection chosen = {0};
    filter wanted = set->wanted;
    wanted.patterns = call->operands + 1;
    wanted.pattern_count = call->operand_count - 1;
    if (!wanted.pattern_count && !wanted.dtypes.count && !wanted.except.count &&
        !wanted.min_bytes && !wanted.max_bytes)
        return fail(EXIT_USAGE, "say which tensors: names, --dtype, --min-size or --max-size");
    int status = plan_open(&p, keep ? "extracting" : "copying", call->operands, 1);
    if (!status)
        status = select_tensors(p.models[0], &wanted, &chosen);
    if (!status)
        status = plan_subset(&p, &chosen, keep);
    if (!status)
        status = plan_write(&p, &set->out);
    selection_free(&chosen);
    plan_free(&p);
    return status;
}

static int extract_run(const invocation *call) {
    return run_subset(call, true);
}

static int drop_run(const invocation *call) {
    return run_subset(call, false);
}

static const example extract_examples[] = {
    {"tenmap extract llama/ 'model.layers.3.*' -o layer3.safetensors", "one layer as a file"},
    {"tenmap extract model.safetensors --dtype 'f8*' -o f8.safetensors", "by dtype"},
    {NULL, NULL},
};

static const example drop_examples[] = {
    {"tenmap drop model.safetensors 'vision_tower.*' -o text.safetensors",
     "a model without a part"},
    {"tenmap drop model.safetensors '*' --dtype i64 -o out.safetensors", "by dtype"},
    {NULL, NULL},
};

const command cmd_extract = {
    .name = "extract",
    .summary = "Write a model of some of the tensors",
    .operands = "MODEL [NAME...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = subset_options,
    .details = OUTPUT_DETAILS,
    .examples = extract_examples,
    .settings_size = sizeof(subset_settings),
    .run = extract_run,
};

const command cmd_drop = {
    .name = "drop",
    .summary = "Write a model without some of the tensors",
    .operands = "MODEL [NAME...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = subset_options,
    .details = "The names and filters select what is left out.\n\n" OUTPUT_DETAILS,
    .examples = drop_examples,
    .settings_size = sizeof(subset_settings),
    .run = drop_run,
};
