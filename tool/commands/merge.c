/* merge: writes several models, or the shards of one, as a single file. */
#include <stdlib.h>

#include "command.h"
#include "model/identify_model.h"
#include "output/output_write.h"
#include "remote/remote.h"

enum { PREFER_NONE, PREFER_FIRST, PREFER_LAST };

typedef struct merge_settings {
    output_settings out;
    unsigned prefer;
    bool join_all; /* --union */
} merge_settings;

static const option merge_options[] = {
    {0, "prefer", "none|first|last", OPTION_CHOICE, offsetof(merge_settings, prefer),
     "Which model to use if several have a tensor of the same name; none refuses that"},
    {0, "union", NULL, OPTION_SWITCH, offsetof(merge_settings, join_all),
     "Take the tensors of LoRAs too, as they are; without it, a LoRA among the models is refused"},
    {0, "max-shard-size", "SIZE", OPTION_SIZE, offsetof(merge_settings, out.max_shard),
     "Write shards of at most this size, and their index"},
    OUTPUT_OPTIONS(offsetof(merge_settings, out)),
    END_OF_OPTIONS,
};

static const example merge_examples[] = {
    {"tenmap merge llama/ -o llama.safetensors", "the shards of a model as one file"},
    {"tenmap merge unet.safetensors vae.safetensors -o both.safetensors", "two models in one"},
    {"tenmap merge base.safetensors new.safetensors --prefer last -o patched.safetensors",
     "tensors of the second replace those of the first"},
    {NULL, NULL},
};

static const char *file_of(const tenmap_tensor *t) {
    return tenmap_shard_at(t->model, t->shard)->path;
}

/* The factors of a LoRA are not weights: beside those of its base, they change nothing. */
static int refuse_adapters(const plan *p) {
    for (size_t m = 0; p->model_count > 1 && m < p->model_count; m++)
        if (count_adapted(p->models[m]))
            return fail(EXIT_FAILED,
                        "'%s' is a LoRA, and merge does not apply a LoRA to its base: tenmap lora "
                        "does; --union only writes its tensors next to the others",
                        shown_path(tenmap_path(p->models[m])));
    return EXIT_FINE;
}

static int plan_merge(plan *p, unsigned prefer) {
    size_t a, b;
    for (size_t m = 0; m < p->model_count; m++)
        for (size_t i = 0; i < tenmap_count(p->models[m]); i++)
            plan_add(p, tenmap_at(p->models[m], i));
    p->last_wins = prefer == PREFER_LAST;
    if (prefer != PREFER_NONE)
        plan_drop_duplicate_names(p, p->last_wins);
    else if (plan_find_duplicate_names(p, &a, &b))
        return fail(
            EXIT_FAILED,
            "tensor %s is in both '%s' and '%s'; --prefer first or --prefer last chooses one",
            shown_name(p->sources[a].tensor->name, p->sources[a].tensor->name_len),
            file_of(p->sources[a].tensor), file_of(p->sources[b].tensor));
    return EXIT_FINE;
}

static int merge_run(const invocation *call) {
    const merge_settings *set = call->settings;
    output_settings out = set->out;
    plan p;
    out.single = !out.max_shard;
    int status = plan_open(&p, "merging", call->operands, call->operand_count);
    if (!status && !set->join_all)
        status = refuse_adapters(&p);
    if (!status)
        status = plan_merge(&p, set->prefer);
    if (!status)
        status = plan_write(&p, &out);
    plan_free(&p);
    return status;
}

const command cmd_merge = {
    .name = "merge",
    .summary = "Join models or shards into one file",
    .operands = "MODEL...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = merge_options,
    .details =
        "The output has the tensors of all models, unchanged. merge does not apply a LoRA to its\n"
        "base, as lora does, and refuses a LoRA among several models unless --union is given.\n"
        "\n"
        "The output has the metadata of all models. If they disagree, the first value is used\n"
        "(the last with --prefer last), and a warning says so. With --force, OUT may be one of\n"
        "the models: the new one replaces it in one rename when it is complete.",
    .examples = merge_examples,
    .settings_size = sizeof(merge_settings),
    .run = merge_run,
};
