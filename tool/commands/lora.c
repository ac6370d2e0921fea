/* lora: applies LoRA adapters to their base and writes the merged model. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "lora/lora_derive.h"
#include "lora/lora_mapping.h"
#include "lora/lora_report.h"
#include "model/dequantized_weights.h"
#include "output/config_edit.h"
#include "output/output_write.h"
#include "quantize/quantize_plan.h"
#include "remote/remote.h"

typedef struct lora_options {
    output_settings out;
    tenmap_dtype to; /* TENMAP_AS_STORED: not given */
    double scale;
    const char *component;
    bool strict;
    unsigned quantize; /* a quantize_scheme */
} lora_options;

static const lora_options lora_defaults = {.scale = 1};

static const option lora_option_table[] = {
    {0, "scale", "S", OPTION_REAL, offsetof(lora_options, scale),
     "Multiply all adapters by S (1); ADAPTER:S multiplies one of them, in addition"},
    {0, "component", "NAME", OPTION_TEXT, offsetof(lora_options, component),
     "Apply only keys that begin with this word: unet, transformer, text_encoder_2, lora_te1, ..."},
    {0, "to", "DTYPE", OPTION_DTYPE, offsetof(lora_options, to),
     "Write floating-point tensors in this dtype: bf16, f16, f32, ..."},
    {0, "quantize", QUANTIZE_WORDS, OPTION_CHOICE, offsetof(lora_options, quantize),
     "Write two-dimensional weights as codes and scales, as convert --quantize does"},
    {0, "strict", NULL, OPTION_SWITCH, offsetof(lora_options, strict),
     "Count first, and write nothing if a value would overflow or become zero (exit 1)"},
    SHARD_OPTIONS(offsetof(lora_options, out)),
    OUTPUT_OPTIONS(offsetof(lora_options, out)),
    END_OF_OPTIONS,
};

static const example lora_examples[] = {
    {"tenmap lora llama/ loras/adapter/ -o merged/", "what peft's merge_and_unload computes"},
    {"tenmap lora llama/ loras/adapter/ -o merged/ -n", "which tensors change, and how"},
    {"tenmap lora llama/ loras/adapter/:0.7 loras/adapter/:0.1 -o merged/",
     "two adapters, each with its strength"},
    {"tenmap lora base-fp8/ loras/adapter/ --to bf16 -o merged/",
     "a quantized base, written as plain numbers"},
    {"tenmap lora base-fp8/ loras/adapter/ --quantize fp8-channel -o merged/",
     "and one that is quantized again"},
    {NULL, NULL},
};

/*
 * ADAPTER:S. A path that exists as it is has no scale, and the number after an address's host is a
 * port. The caller frees the result.
 */
static char *split_scale(const char *given, double *scale) {
    const char *colon = strrchr(given, ':'), *host = strstr(given, "://");
    char *end = NULL;
    double value = colon && colon[1] ? strtod(colon + 1, &end) : 0;
    bool number = end && end != colon + 1 && !*end && isfinite(value);
    bool port = host && (colon == host || !strchr(host + 3, '/'));
    *scale = 1;
    if (!number || port || (!host && access(given, F_OK) == 0))
        return need_copy(given, strlen(given));
    *scale = value;
    return need_copy(given, (size_t)(colon - given));
}

static bool base_is_quantized(const tenmap_model *base) {
    for (size_t i = 0; i < tenmap_count(base); i++)
        if (is_dequantized(tenmap_at(base, i)))
            return true;
    return false;
}

/* What the command makes, and what is freed after it was written. */
typedef struct lora_job {
    const lora_options *set;
    lora_mapping mapping;
    lora_merged merged;
    quantizer quantized;
    text config; /* "quantization_config" */
} lora_job;

static void report_adapters(const plan *p, const target *to, bool json) {
    const lora_job *job = p->report_ctx;
    (void)to;
    if (json) {
        lora_json(&job->mapping);
        if (job->quantized.count)
            quantize_json(&job->quantized);
        return;
    }
    lora_print(&job->mapping);
    if (job->quantized.count)
        quantize_print(&job->quantized);
}

/* Everything up to the plan. `paths` are the operands without their scales. */
static int plan_merged(lora_job *job, const char *const *paths, plan *p) {
    lora_mapping *mapping = &job->mapping;
    int status = plan_open(p, "merging", paths, mapping->source_count + 1);
    if (status)
        return status;
    mapping->base = p->models[0];
    mapping->component = job->set->component;
    for (size_t i = 0; i < mapping->source_count; i++)
        mapping->sources[i].model = p->models[i + 1];
    p->input_tensors = tenmap_count(mapping->base);
    status = lora_map(mapping);
    if (!status)
        status = lora_check_values(mapping);
    if (!status)
        status = lora_derive(mapping, job->set->to, p, &job->merged);
    bool reads = !job->set->out.dry_run || job->set->quantize || job->set->strict;
    if (!status && reads && job->merged.dora_count)
        status = lora_measure_norms(job->merged.doras, job->merged.dora_count);
    return status;
}

static int quantize_merged(lora_job *job, plan *p, config_change *change) {
    job->quantized.scheme = (quantize_scheme)job->set->quantize;
    int status = plan_quantize_sources(p, &job->quantized);
    uint64_t lost = job->quantized.lost.overflowed + job->quantized.lost.flushed;
    if (!status && job->set->strict && lost)
        return fail(EXIT_DIFFERENT, "%" PRIu64 " elements would be lost, so --strict wrote nothing",
                    lost);
    if (!status)
        plan_quantize_config(p, &job->quantized, &job->config);
    change->quantization = job->config.bytes;
    return status;
}

static int merge_adapters(lora_job *job, const char *const *paths) {
    config_change change = {.dtype = job->set->to};
    plan p = {0};
    int status = plan_merged(job, paths, &p);
    if (!status && job->set->quantize)
        status = quantize_merged(job, &p, &change);
    if (!status) {
        change.dequantized = base_is_quantized(job->mapping.base);
        if (change.dequantized || change.quantization)
            p.config = &change;
        p.strict = job->set->strict;
        p.report = report_adapters;
        p.report_ctx = job;
        status = plan_write(&p, &job->set->out);
    }
    tenmap_close(p.derived); /* before the hidden models, which it reads from */
    p.derived = NULL;
    lora_merged_free(&job->merged);
    lora_mapping_free(&job->mapping);
    plan_free(&p); /* before the quantizer, which its parts read from */
    quantizer_free(&job->quantized);
    text_free(&job->config);
    return status;
}

static int lora_run(const invocation *call) {
    const lora_options *set = call->settings;
    lora_job job = {.set = set, .mapping = {.source_count = call->operand_count - 1}};
    lora_mapping *mapping = &job.mapping;
    char **paths = need(call->operand_count, sizeof *paths);
    int status = check_output_dtype("--to", set->to);
    if (!status)
        status = check_output_name(&set->out);
    common.dequantize = true;
    common.unmapped = true; /* mapped pages of a large base would stay in memory */
    mapping->sources = need(mapping->source_count, sizeof *mapping->sources);
    paths[0] = need_copy(call->operands[0], strlen(call->operands[0]));
    for (size_t i = 1; i < call->operand_count; i++) {
        double *scale = &mapping->sources[i - 1].scale;
        paths[i] = split_scale(call->operands[i], scale);
        *scale *= set->scale;
        if (!status && (*scale == 0 || !isfinite(*scale)))
            status = fail(EXIT_USAGE, "the scale of '%s' is %g; leave the adapter out instead",
                          shown_path(paths[i]), *scale);
    }
    if (!status)
        status = merge_adapters(&job, (const char *const *)paths);
    else
        lora_mapping_free(mapping);
    for (size_t i = 0; i < call->operand_count; i++)
        free(paths[i]);
    free(paths);
    return status;
}

const command cmd_lora = {
    .name = "lora",
    .summary = "Apply LoRA adapters to their base, and write the merged model",
    .operands = "MODEL ADAPTER[:S]...",
    .min_operands = 2,
    .max_operands = SIZE_MAX,
    .options = lora_option_table,
    .details =
        "Each adapted weight becomes W + S * alpha / rank * (B @ A), computed in F64 and rounded\n"
        "once. lora reads adapters of PEFT, kohya's scripts, ComfyUI, diffusers, AI-toolkit and\n"
        "llama.cpp: LoRA, rsLoRA and DoRA of linear layers, convolutions and embeddings. Biases\n"
        "and whole modules that were trained too are applied as well. Several adapters are\n"
        "applied in the order given. Other methods, such as LoHa, LoKr, OFT, (IA)^3 and VeRA,\n"
        "are refused.\n"
        "\n"
        "lora applies every key of an adapter, prints why it ignores it, or stops with an error.\n"
        "--dry-run prints which tensors would change, and how; with --json, every step.\n"
        "\n"
        "PEFT's alpha, rank_pattern and alpha_pattern come from adapter_config.json next to the\n"
        "adapter. Other adapters contain their alpha; if one has none, its alpha is its rank.\n"
        "\n"
        "A quantized base is dequantized and merged. The output has plain numbers, in the dtype\n"
        "of --to or else the one that the model computes in. --quantize writes the merged\n"
        "weights as codes and scales, as convert does, whatever the base was.\n"
        "\n" OUTPUT_DETAILS,
    .examples = lora_examples,
    .settings_size = sizeof(lora_options),
    .defaults = &lora_defaults,
    .run = lora_run,
};
