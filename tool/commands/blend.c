/* blend: averages and other blends of models, by a recipe or by the command line. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blend/blend.h"
#include "command.h"
#include "model/dequantized_weights.h"
#include "model/lora_adapter.h"
#include "output/output_target.h"
#include "output/output_write.h"
#include "remote/remote.h"
#include "view/json_out.h"
#include "view/print.h"

enum { AS_METHOD, NO, YES }; /* --normalize */

typedef struct blend_settings {
    output_settings out;
    tenmap_dtype to;
    unsigned method, normalize, rescale;
    const char *base;
    double t, density, lambda; /* NaN: not given */
    uint64_t seed;
} blend_settings;

#define AT(field) offsetof(blend_settings, field)
static const option blend_options[] = {
    {0, "method", "auto|" BLEND_METHOD_WORDS, OPTION_CHOICE, AT(method),
     "How models are blended; auto: linear, or as the recipe says"},
    {0, "base", "MODEL", OPTION_TEXT, AT(base),
     "The model that the others were fine-tuned from: for task_arithmetic, ties and dare"},
    {0, "t", "X", OPTION_REAL, AT(t), "slerp: how far from the first model to the second (0.5)"},
    {0, "density", "X", OPTION_REAL, AT(density),
     "ties, dare: keep this share of the differences to the base (1)"},
    {0, "lambda", "X", OPTION_REAL, AT(lambda),
     "task_arithmetic, ties, dare: multiply the sum of the differences by X (1)"},
    {0, "normalize", "auto|no|yes", OPTION_CHOICE, AT(normalize),
     "Divide by the sum of the weights; auto: yes for linear and ties"},
    {0, "rescale", "auto|no|norm|density", OPTION_CHOICE, AT(rescale),
     "ties, dare: scale the differences that are kept: so that their magnitudes add up to what all "
     "had (norm), or by 1/density; auto: norm for dare, no for ties"},
    {0, "seed", "N", OPTION_COUNT, AT(seed), "dare: choose the elements by this number (0)"},
    {0, "to", "DTYPE", OPTION_DTYPE, AT(to),
     "Write floating-point tensors in this dtype; by default, that of the base or first model"},
    SHARD_OPTIONS(offsetof(blend_settings, out)),
    OUTPUT_OPTIONS(offsetof(blend_settings, out)),
    END_OF_OPTIONS,
};

static const blend_settings blend_defaults = {.t = NAN, .density = NAN, .lambda = NAN};

static const example blend_examples[] = {
    {"tenmap blend a/ b/ llama/ -o average/", "the average of three models"},
    {"tenmap blend a:0.7 b:0.3 -o mostly-a", "with weights"},
    {"tenmap blend a b --method slerp --t 0.3 -o between", "on the arc between two models"},
    {"tenmap blend a:0.5 b:0.5 --base llama --method ties --density 0.2 -o ties",
     "the strongest changes of two fine-tunes"},
    {"tenmap blend recipe.yml -o blended", "by a recipe of mergekit"},
    {NULL, NULL},
};

/* The command line. */

static bool ends_with(const char *path, const char *end) {
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static bool is_recipe(const char *operand) {
    return !is_address(operand) && !ends_with(operand, ".index.json") &&
           (ends_with(operand, ".yml") || ends_with(operand, ".yaml") ||
            ends_with(operand, ".json"));
}

/*
 * Splits MODEL:WEIGHT, unless there is a file of the whole name, or the number is the port of an
 * address. The caller frees the path.
 */
static char *split_weight(const char *operand, double *weight) {
    const char *colon = strrchr(operand, ':'), *host = strstr(operand, "://");
    bool port = host && !strchr(host + 3, '/');
    char *end;
    *weight = NAN;
    if (colon && colon > operand && colon[1] && !port && access(operand, F_OK) != 0 &&
        strspn(colon + 1, "0123456789.eE+-") == strlen(colon + 1)) {
        double value = strtod(colon + 1, &end);
        if (*end == '\0' && isfinite(value)) {
            *weight = value;
            return need_copy(operand, (size_t)(colon - operand));
        }
    }
    return need_copy(operand, strlen(operand));
}

static int add_operand(blend_recipe *r, const char *operand) {
    double weight;
    char *path = split_weight(operand, &weight);
    size_t before = r->model_count, model = recipe_model(r, path);
    bool weighs = takes_parameter(r->method, PARAMETER_WEIGHT);
    int status = EXIT_FINE;
    if (!isnan(weight) && !weighs)
        status = fail(EXIT_USAGE, "'%s': %s takes no weights", shown_path(operand),
                      blend_method_names[r->method]);
    else if (before == r->model_count && model == r->base)
        status = fail(EXIT_USAGE, "'%s' is the base, and is given as a model to blend too",
                      shown_path(path));
    free(path);
    if (status)
        return status;
    blend_source *s = slice_add_source(&r->slices[0], model);
    if (weighs)
        parameters_set(&s->parameters, PARAMETER_WEIGHT, isnan(weight) ? 1 : weight);
    return EXIT_FINE;
}

static int set_number(blend_recipe *r, blend_parameter which, double value) {
    if (isnan(value))
        return EXIT_FINE;
    if (!takes_parameter(r->method, which))
        return fail(EXIT_USAGE, "%s takes no --%s", blend_method_names[r->method],
                    blend_parameter_names[which]);
    if (which == PARAMETER_DENSITY && !(value >= 0 && value <= 1))
        return fail(EXIT_USAGE, "--density is a share between 0 and 1");
    if (!isfinite(value))
        return fail(EXIT_USAGE, "--%s must be finite", blend_parameter_names[which]);
    parameters_set(&r->parameters, which, value);
    return EXIT_FINE;
}

static int recipe_of_operands(const invocation *call, blend_recipe *r) {
    const blend_settings *set = call->settings;
    blend_method method = set->method ? (blend_method)(set->method - 1) : BLEND_LINEAR;
    *r = (blend_recipe){.method = method, .base = NO_MODEL};
    recipe_add_slice(r);
    if (set->base)
        r->base = recipe_model(r, set->base);
    int status = EXIT_FINE;
    for (size_t i = 0; !status && i < call->operand_count; i++)
        status = add_operand(r, call->operands[i]);
    if (status)
        return status;
    if (r->method == BLEND_SLERP && r->base == NO_MODEL)
        r->base = r->slices[0].sources[0].model;
    else if (r->base != NO_MODEL)
        slice_add_source(&r->slices[0], r->base);
    if (set->base && !needs_base(r->method))
        return fail(EXIT_USAGE, "%s takes no --base", blend_method_names[r->method]);
    double t = r->method == BLEND_SLERP && isnan(set->t) ? 0.5 : set->t;
    status = set_number(r, PARAMETER_T, t);
    if (!status)
        status = set_number(r, PARAMETER_DENSITY, set->density);
    if (!status)
        status = set_number(r, PARAMETER_LAMBDA, set->lambda);
    if (!status && set->normalize != AS_METHOD)
        status = set_number(r, PARAMETER_NORMALIZE, set->normalize == YES);
    return status;
}

/* A recipe says everything but the seed, the scaling and the dtype. */
static int recipe_of_file(const invocation *call, blend_recipe *r) {
    const blend_settings *set = call->settings;
    *r = (blend_recipe){0};
    if (call->operand_count > 1)
        return fail(EXIT_USAGE, "'%s' is a recipe, which names its models: give nothing else",
                    shown_path(call->operands[0]));
    if (set->method || set->base || !isnan(set->t) || !isnan(set->density) || !isnan(set->lambda) ||
        set->normalize)
        return fail(EXIT_USAGE, "--method, --base, --t, --density, --lambda and --normalize are "
                                "what the recipe says");
    return recipe_read(call->operands[0], r);
}

/* Running. */

static int refuse_adapters(const plan *p) {
    for (size_t m = 0; m < p->model_count; m++)
        if (count_adapted(p->models[m]))
            return fail(EXIT_FAILED, "'%s' is a LoRA: apply it to its base first (tenmap lora)",
                        shown_path(tenmap_path(p->models[m])));
    return EXIT_FINE;
}

static bool has_dequantized(const tenmap_model *model) {
    for (size_t i = 0; i < tenmap_count(model); i++)
        if (is_dequantized(tenmap_at(model, i)))
            return true;
    return false;
}

typedef struct dtype_counts {
    uint64_t elements[TENMAP_OPAQUE + 1];
} dtype_counts;

static void count_dtype(dtype_counts *c, tenmap_dtype dtype, uint64_t elements) {
    if (tenmap_dtype_kind(dtype) == TENMAP_KIND_FLOAT)
        c->elements[dtype & TENMAP_OPAQUE] += elements;
}

static tenmap_dtype most_counted(const dtype_counts *c) {
    size_t most = 0;
    for (size_t i = 1; i <= TENMAP_OPAQUE; i++)
        most = c->elements[i] > c->elements[most] ? i : most;
    return (tenmap_dtype)most;
}

/* The dtype of most weights of the output if the first model has another; else AS_STORED. */
static tenmap_dtype new_main_dtype(const plan *p) {
    dtype_counts before = {{0}}, after = {{0}};
    for (size_t i = 0; i < tenmap_count(p->models[0]); i++) {
        const tenmap_tensor *t = tenmap_at(p->models[0], i);
        count_dtype(&before, t->dtype, t->nelems);
    }
    for (size_t i = 0; i < p->count; i++)
        count_dtype(&after, plan_dtype(p, i), p->sources[i].tensor->nelems);
    tenmap_dtype now = most_counted(&after);
    return now == most_counted(&before) && !has_dequantized(p->models[0]) ? TENMAP_AS_STORED : now;
}

static void report_json(const blend_job *job) {
    const blend_recipe *r = job->recipe;
    json_key_text("method", blend_method_names[r->method], TENMAP_CSTR);
    json_key("models");
    json_open('[', true);
    for (size_t i = 0; i < r->model_count; i++)
        json_text(shown_path(r->models[i]), TENMAP_CSTR);
    json_close();
    if (r->base != NO_MODEL)
        json_key_text("base", shown_path(r->models[r->base]), TENMAP_CSTR);
    json_key_uint("blended", job->count - job->moved);
    json_key_uint("copied_tensors", job->moved);
    if (r->by_layers)
        json_key_uint("layers", job->layers_after);
}

/* Which layers each slice takes: "layers 0…3: 'a' 0…3". */
static void print_slices(const blend_recipe *r) {
    enum { MOST_SHOWN = 20 };
    uint64_t at = 0;
    for (size_t i = 0; i < r->slice_count && i < MOST_SHOWN; i++) {
        const blend_slice *s = &r->slices[i];
        uint64_t layers = s->sources[0].end - s->sources[0].begin;
        printf("layers %" PRIu64 "…%" PRIu64 ":", at, at + layers - 1);
        for (size_t k = 0; k < s->count; k++)
            printf("%s %" PRIu64 "…%" PRIu64 " of %s", k ? "," : "", s->sources[k].begin,
                   s->sources[k].end - 1, shown_path(r->models[s->sources[k].model]));
        printf("\n");
        at += layers;
    }
    if (r->slice_count > MOST_SHOWN)
        printf("and %zu more slices\n", r->slice_count - MOST_SHOWN);
}

static void report(const plan *p, const target *to, bool json) {
    const blend_job *job = p->report_ctx;
    const blend_recipe *r = job->recipe;
    (void)to;
    if (json) {
        report_json(job);
        return;
    }
    if (r->by_layers)
        print_slices(r);
    printf("%s of %zu model%s", blend_method_names[r->method], r->model_count,
           r->model_count == 1 ? "" : "s");
    if (r->base != NO_MODEL && needs_base(r->method))
        printf(", base %s", shown_path(r->models[r->base]));
    printf(": %zu tensor%s blended", job->count - job->moved,
           job->count - job->moved == 1 ? "" : "s");
    if (job->moved)
        printf(", %zu copied", job->moved);
    printf("\n");
}

static int write_blend(const blend_settings *set, blend_job *job) {
    plan *p = job->p;
    tenmap_dtype to = set->to ? set->to : job->recipe->dtype;
    config_layers layers = {.count = (size_t)job->layers_before,
                            .left = (size_t)job->layers_after,
                            .from = job->layer_from};
    int status = blend_derive(job, to);
    if (status)
        return status;
    config_change change = {.dequantized = has_dequantized(p->models[0]),
                            .dtype = new_main_dtype(p),
                            .layers = &layers,
                            .layers_count = job->recipe->by_layers};
    p->config = &change;
    p->report = report;
    p->report_ctx = job;
    status = plan_write(p, &set->out);
    p->config = NULL;
    return status;
}

/* Recipes name models of a hub as ORG/NAME, which could be a folder too. */
static bool looks_like_hub(const char *path) {
    const char *slash = strchr(path, '/');
    return slash && slash > path && slash[1] && !strchr(slash + 1, '/') && *path != '.' &&
           !is_address(path) && access(path, F_OK) != 0;
}

static int check_paths(const blend_recipe *r) {
    for (size_t i = 0; i < r->model_count; i++)
        if (looks_like_hub(r->models[i]))
            return recipe_fail(r, 0, "there is no '%s' here; a model of the hub is hf://%s",
                               shown_path(r->models[i]), shown_path(r->models[i]));
    return EXIT_FINE;
}

static int check_output(const blend_settings *set, const plan *p, tenmap_dtype to) {
    target ignored;
    if (to && tenmap_dtype_kind(to) != TENMAP_KIND_FLOAT)
        return fail(EXIT_USAGE, "%s is no dtype for weights: use bf16, f16 or f32",
                    tenmap_dtype_name(to));
    int status = check_output_dtype("--to", to);
    return status ? status : choose_target(p, &set->out, &ignored);
}

static int run_recipe(const blend_settings *set, blend_recipe *r) {
    plan p = {0};
    blend_job job = {.recipe = r, .p = &p};
    recipe_put_first(r, r->base != NO_MODEL ? r->base : r->slices[0].sources[0].model);
    int status = plan_open(&p, "blending", (const char *const *)r->models, r->model_count);
    if (!status)
        status = refuse_adapters(&p);
    if (!status)
        status = check_output(set, &p, set->to ? set->to : r->dtype);
    if (!status)
        status = blend_find_tensors(&job);
    if (!status)
        status = blend_resolve(&job);
    if (!status && !set->out.dry_run)
        status = blend_measure(&job, (unsigned)(set->out.threads < 64 ? set->out.threads : 64));
    if (!status)
        status = write_blend(set, &job);
    plan_free(&p); /* before the rules, which its tensors use */
    blend_free(&job);
    return status;
}

static int blend_run(const invocation *call) {
    const blend_settings *set = call->settings;
    blend_recipe r = {0};
    common.dequantize = true;
    common.unmapped = true; /* values are read twice; mapped pages would stay in memory */
    int status =
        is_recipe(call->operands[0]) ? recipe_of_file(call, &r) : recipe_of_operands(call, &r);
    r.seed = set->seed;
    r.rescale = (blend_rescale)set->rescale;
    if (!status)
        status = recipe_check(&r);
    if (!status)
        status = check_paths(&r);
    if (!status)
        status = run_recipe(set, &r);
    recipe_free(&r);
    return status;
}

const command cmd_blend = {
    .name = "blend",
    .summary = "Blend models: average, slerp, task arithmetic, ties, dare, layers",
    .operands = "RECIPE|MODEL[:WEIGHT]...",
    .min_operands = 1,
    .max_operands = MAX_BLENDED,
    .options = blend_options,
    .details =
        "Tensors are matched by name, and must have the same shapes. Integers and BOOL must be\n"
        "the same in all models, and are copied. Quantized weights and GGUF files are blended\n"
        "by their dequantized values.\n"
        "\n"
        "A recipe is a file of mergekit (.yml, .yaml or .json) with the keys merge_method,\n"
        "models or slices, base_model, parameters, dtype, out_dtype and tokenizer_source. Any\n"
        "other key is an error. A value may be a list from the first layer to the last, or have\n"
        "filters for names of tensors. Slices stack layers, and config.json gets their number.\n"
        "Paths are relative to the current folder.\n"
        "\n"
        "Without a recipe, a model has the weight 1, or the one after the colon. linear divides\n"
        "by the sum of the weights. slerp begins at the first model, where t is 0. slerp, ties\n"
        "and dare may read the models before they write: for angles, thresholds and norms.\n"
        "Which elements dare keeps depends on --seed, the tensor's name, the element's position\n"
        "and the model's place, and on nothing else. docs/blend.md has the formulas.\n"
        "\n" OUTPUT_DETAILS,
    .examples = blend_examples,
    .settings_size = sizeof(blend_settings),
    .defaults = &blend_defaults,
    .run = blend_run,
};
