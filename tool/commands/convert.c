/* convert: writes tensors in another dtype, quantized, or dequantized. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "model/dequantized_weights.h"
#include "model/gguf_metadata.h"
#include "output/config_edit.h"
#include "view/json_out.h"
#include "quantize/quantize_plan.h"
#include "remote/remote.h"
#include "output/output_write.h"
#include "output/shared_tensors.h"
#include "tensor_patterns.h"

enum { SHARE_YES, SHARE_NO };

typedef struct convert_settings {
    output_settings out;
    tenmap_dtype to; /* TENMAP_AS_STORED: not given */
    texts rules, keep;
    uint64_t min_rank;
    bool saturate, strict, raw, dequantize;
    unsigned quantize; /* a quantize_scheme */
    unsigned share;    /* yes, no */
} convert_settings;

static const option convert_options[] = {
    {0, "to", "DTYPE", OPTION_DTYPE, offsetof(convert_settings, to),
     "Convert floating-point tensors to this dtype: bf16, f16, f8_e4m3 (without scales), ..."},
    {0, "rule", "NAME=DTYPE", OPTION_LIST, offsetof(convert_settings, rules),
     "Another dtype for these names ('keep': unchanged); the first rule that matches counts"},
    {0, "keep", "NAME", OPTION_LIST, offsetof(convert_settings, keep),
     "Leave these names as they are, whatever the rules say"},
    {0, "min-rank", "N", OPTION_COUNT, offsetof(convert_settings, min_rank),
     "Apply --to only to tensors of N or more dimensions: 2 leaves norms and biases as they are"},
    {0, "saturate", NULL, OPTION_SWITCH, offsetof(convert_settings, saturate),
     "Overflow becomes the largest finite value instead of infinity or NaN"},
    {0, "strict", NULL, OPTION_SWITCH, offsetof(convert_settings, strict),
     "Count first, and write nothing if a value would overflow or become zero (exit 1)"},
    {0, "raw", NULL, OPTION_SWITCH, offsetof(convert_settings, raw),
     "Convert the parts of quantized weights as if they were plain numbers"},
    {0, "quantize", QUANTIZE_WORDS, OPTION_CHOICE, offsetof(convert_settings, quantize),
     "Write two-dimensional weights as codes and scales, except embeddings, norms, lm_head and "
     "--keep"},
    {0, "dequantize", NULL, OPTION_SWITCH, offsetof(convert_settings, dequantize),
     "Write quantized weights as plain tensors of their dequantized values"},
    {0, "share", "yes|no", OPTION_CHOICE, offsetof(convert_settings, share),
     "Write a tensor that a PyTorch file names several times once, and its other names to the "
     "metadata (yes)"},
    SHARD_OPTIONS(offsetof(convert_settings, out)),
    OUTPUT_OPTIONS(offsetof(convert_settings, out)),
    END_OF_OPTIONS,
};

static const example convert_examples[] = {
    {"tenmap convert model.safetensors --to bf16 -o small.safetensors", "halve an F32 model"},
    {"tenmap convert llama/ --to f8_e4m3 --keep norm --rule 'lm_head.*=bf16' -o llama-f8",
     "by name: the head in BF16, the norms as they are, everything else in 8 bits"},
    {"tenmap convert DeepSeek-V3/ --dequantize --to bf16 -o DeepSeek-V3-bf16",
     "a quantized model as a plain one"},
    {"tenmap convert model-f16.gguf -o model-f16.safetensors",
     "a GGUF file of plain numbers, unchanged"},
    {"tenmap convert pytorch_model.bin -o safe.safetensors",
     "a checkpoint as a file that no program can run"},
    {"tenmap convert llama/ --quantize fp8-channel -o llama-fp8/", "8 bits with scales"},
    {"tenmap convert model.safetensors --rule 'mask=f32' -o out.safetensors -n",
     "what a rule would do"},
    {NULL, NULL},
};

/* The dtype of a rule that means: as --quantize says. */
#define BY_QUANTIZE ((tenmap_dtype)-1)

typedef struct rule {
    char *pattern;
    tenmap_dtype to; /* TENMAP_AS_STORED: keep */
    bool used;
} rule;

static bool dtype_of(const char *given, tenmap_dtype *out) {
    bool quantized = strcasecmp(given, "quantize") == 0;
    *out = quantized ? BY_QUANTIZE : TENMAP_AS_STORED;
    return quantized || strcasecmp(given, "keep") == 0 || parse_dtype(given, out);
}

/* The --keep rules come first, then --rule, in their order. */
static int parse_rules(const convert_settings *set, rule *rules) {
    size_t n = 0;
    for (size_t i = 0; i < set->keep.count; i++)
        rules[n++] = (rule){need_copy(set->keep.items[i], strlen(set->keep.items[i])),
                            TENMAP_AS_STORED, false};
    for (size_t i = 0; i < set->rules.count; i++) {
        const char *given = set->rules.items[i], *equals = strrchr(given, '=');
        tenmap_dtype to;
        bool whole = equals && equals > given;
        if (whole && !dtype_of(equals + 1, &to) && dtype_hint(equals + 1))
            return fail(EXIT_USAGE, "--rule '%s': '%s' is not a dtype; did you mean %s?", given,
                        equals + 1, dtype_hint(equals + 1));
        if (!whole || !dtype_of(equals + 1, &to))
            return fail(EXIT_USAGE, "--rule takes NAME=DTYPE, such as 'lm_head.*=bf16', not '%s'",
                        given);
        if (to == BY_QUANTIZE && !set->quantize)
            return fail(EXIT_USAGE, "--rule '%s' needs a scheme: add --quantize fp8-block, ...",
                        given);
        rules[n++] = (rule){need_copy(given, (size_t)(equals - given)), to, false};
        if (to != BY_QUANTIZE && check_output_dtype("--rule", to))
            return EXIT_USAGE;
    }
    return EXIT_FINE;
}

static tenmap_dtype choose_dtype(const convert_settings *set, rule *rules, size_t count,
                                 const tenmap_tensor *t) {
    for (size_t i = 0; i < count; i++)
        if (pattern_selects(rules[i].pattern, t)) {
            rules[i].used = true;
            return rules[i].to;
        }
    if (set->quantize && t->name_len > 7 && !memcmp(t->name + t->name_len - 7, ".weight", 7) &&
        !stays_by_default(t) && !quantize_obstacle((quantize_scheme)set->quantize, t) &&
        !is_refused_by_loaders((quantize_scheme)set->quantize, t))
        return BY_QUANTIZE;
    /* Without a rule, --to applies only to tensors that are already floating-point. */
    return tenmap_dtype_kind(t->dtype) == TENMAP_KIND_FLOAT && t->rank >= set->min_rank
               ? set->to
               : TENMAP_AS_STORED;
}

static void plan_tensor(const convert_settings *set, plan *p, const tenmap_tensor *t,
                        tenmap_dtype to) {
    plan_add(p, t);
    tenmap_source *s = &p->sources[p->count - 1];
    s->dtype = to == t->dtype ? TENMAP_AS_STORED : to;
    if (is_dequantized(t) && !s->dtype)
        s->dtype = t->dtype; /* values are rounded to this dtype, which may lose some */
    s->flags = set->saturate && s->dtype ? TENMAP_CONVERT_SATURATE : 0;
}

static void warn_unused(const rule *rules, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!rules[i].used)
            warn("'%s' matches no tensor, or only tensors that an earlier rule matches",
                 rules[i].pattern);
}

static int plan_conversion(const convert_settings *set, plan *p, rule *rules, size_t count) {
    const tenmap_model *model = p->models[0];
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (!is_activation_scale(model, t))
            plan_tensor(set, p, t, choose_dtype(set, rules, count, t));
    }
    warn_unused(rules, count);
    return EXIT_FINE;
}

/* For weights that rules name. */
static void warn_refused(const quantizer *q) {
    const tenmap_tensor *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < q->count; i++)
        if (is_refused_by_loaders(q->scheme, q->weights[i].from)) {
            first = first ? first : q->weights[i].from;
            count++;
        }
    if (count)
        warn("%s%s: the dimensions are not all multiples of 128, so transformers and vLLM may "
             "refuse "
             "or misread the weight",
             shown_name(first->name, first->name_len), count > 1 ? " and others" : "");
}

/* No weight can be quantized: says why. */
static int fail_unquantized(const tenmap_model *model, quantize_scheme scheme) {
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (!stays_by_default(t) && !quantize_obstacle(scheme, t) &&
            is_refused_by_loaders(scheme, t))
            return fail(
                EXIT_FAILED,
                "'%s' has no weight whose dimensions are multiples of 128 (the first weight is "
                "%s), and transformers and vLLM refuse or misread others; --rule "
                "'NAME=quantize' quantizes them anyway, --quantize fp8-channel takes "
                "any shape",
                shown_path(tenmap_path(model)), shown_name(t->name, t->name_len));
    }
    return fail(EXIT_FAILED,
                "'%s' has no weight to quantize: a name that ends in .weight, two dimensions, "
                "F64, F32, F16 or BF16; --rule 'NAME=quantize' adds others",
                tenmap_path(model));
}

/* Finds and measures the weights to quantize. Refuses a model that is already quantized. */
static int find_quantized(const convert_settings *set, const tenmap_model *model, rule *rules,
                          size_t count, quantizer *q) {
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        tenmap_quantized weight;
        if (!is_dequantized(t) && tenmap_quantized_of(t, &weight))
            return fail(EXIT_FAILED,
                        "%s is already quantized (%s); add --dequantize to quantize it again",
                        shown_name(t->name, t->name_len), weight.family);
        if (choose_dtype(set, rules, count, t) != BY_QUANTIZE)
            continue;
        const char *obstacle = quantize_obstacle(q->scheme, t);
        if (obstacle)
            return fail(EXIT_FAILED, "%s cannot be quantized to %s: it has %s",
                        shown_name(t->name, t->name_len), quantize_name(q->scheme), obstacle);
        quantizer_add(q, t);
    }
    if (!q->count)
        return fail_unquantized(model, q->scheme);
    warn_refused(q);
    int status = quantizer_measure(q);
    return status ? status : quantizer_open(q);
}

static int plan_quantization(const convert_settings *set, plan *p, rule *rules, size_t count,
                             quantizer *q) {
    const tenmap_model *model = p->models[0];
    size_t next = 0;
    int status = find_quantized(set, model, rules, count, q);
    if (status)
        return status;
    plan_own_quantized(p, q);
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (next < q->count && q->weights[next].from == t)
            plan_add_parts(p, q, next++);
        else if (!is_activation_scale(model, t))
            plan_tensor(set, p, t, choose_dtype(set, rules, count, t));
    }
    warn_unused(rules, count);
    return EXIT_FINE;
}

static void report_quantized(const plan *p, const target *to, bool json) {
    const quantizer *q = p->report_ctx;
    const char *why = "";
    size_t unfit = count_unfit(p, q->scheme, &why);
    (void)to;
    if (json) {
        quantize_json(q);
        refused_json(p, q->scheme);
        return;
    }
    quantize_print(q);
    refused_print(p, q->scheme);
    if (unfit)
        printf("%zu weight%s as %s: %s\n", unfit, unfit == 1 ? " stays" : "s stay",
               unfit == 1 ? "it is" : "they are", why);
}

/* With --strict nothing is written if values would be lost. */
static int check_strict(const convert_settings *set, const quantizer *q) {
    uint64_t lost = q->lost.overflowed + q->lost.flushed;
    if (!set->strict || !lost)
        return EXIT_FINE;
    if (!set->out.json)
        quantize_print(q);
    return fail(EXIT_DIFFERENT, "%" PRIu64 " elements would be lost, so --strict wrote nothing",
                lost);
}

static void warn_plain(const plan *p) {
    for (size_t i = 0; i < p->count; i++)
        if (is_dequantized(p->sources[i].tensor))
            return;
    warn("'%s' has no quantized weights, so there is nothing to dequantize",
         shown_path(tenmap_path(p->models[0])));
}

/* Reports the tensors that were left out. */
static void report_dequantized(const plan *p, const target *to, bool json) {
    size_t left = p->input_tensors - p->count - p->shared_count;
    (void)to;
    if (json && left)
        json_key_uint("activation_scales_left_out", left);
    else if (left)
        printf("%zu scale%s of activations left out: plain weights have none\n", left,
               left == 1 ? "" : "s");
}

static int fail_quantized(const tenmap_quantized *weight, const tenmap_tensor *part) {
    const tenmap_tensor *codes = weight->parts[0], *mark = weight->parts[1];
    return fail(
        EXIT_FAILED,
        "%s and %s are parts of one weight (%s; %s): converting %s would corrupt it; %s, --keep "
        "leaves parts as they are, --raw converts them",
        shown_name(codes->name, codes->name_len), shown_name(mark->name, mark->name_len),
        tenmap_dtype_name(codes->dtype), weight->family, shown_name(part->name, part->name_len),
        common.dequantize ? "this scheme cannot be dequantized" : "--dequantize writes its values");
}

/*
 * Refuses to convert parts of quantized weights: codes in another dtype lose their meaning, and
 * rounding scales changes every value that they scale.
 */
static int refuse_quantized(const convert_settings *set, const plan *p, rule *rules, size_t count) {
    for (size_t i = 0; i < p->count; i++) {
        tenmap_quantized weight;
        if (!tenmap_quantized_of(p->sources[i].tensor, &weight))
            continue;
        for (size_t k = 0; k < weight.part_count; k++) {
            tenmap_dtype to = choose_dtype(set, rules, count, weight.parts[k]);
            if (to != TENMAP_AS_STORED && to != weight.parts[k]->dtype)
                return fail_quantized(&weight, weight.parts[k]);
        }
    }
    return EXIT_FINE;
}

/* From another format, tensors can be written as they are stored: only the format changes. */
static int check_purpose(const convert_settings *set, const plan *p) {
    const tenmap_shard *first = tenmap_shard_at(p->models[0], 0);
    bool other_format = first && strcmp(first->format, "safetensors") != 0;
    if (set->to || set->rules.count || set->dequantize || set->quantize || other_format)
        return EXIT_FINE;
    return fail(EXIT_USAGE,
                "say what to convert to: --to bf16, or --rule 'NAME=DTYPE'; the input is "
                "SafeTensors already");
}

static int check_convert(const convert_settings *set) {
    if (set->raw && (set->dequantize || set->quantize))
        return fail(EXIT_USAGE,
                    "--raw takes parts as they are, but --%s does not: use only one of them",
                    set->dequantize ? "dequantize" : "quantize");
    int status = check_output_dtype("--to", set->to);
    return status ? status : check_output_name(&set->out);
}

static int run_convert(const invocation *call, rule *rules, size_t count) {
    const convert_settings *set = call->settings;
    config_change change = {.dequantized = set->dequantize, .dtype = set->to};
    quantizer q = {.scheme = (quantize_scheme)set->quantize};
    text config = {0};
    plan p = {0};
    int status = plan_open(&p, set->quantize ? "quantizing" : "converting", call->operands, 1);
    if (!status)
        status = check_purpose(set, &p);
    if (!status)
        status = set->quantize ? plan_quantization(set, &p, rules, count, &q)
                               : plan_conversion(set, &p, rules, count);
    if (!status && set->quantize) {
        status = check_strict(set, &q);
        plan_quantize_config(&p, &q, &config);
        change.quantization = config.bytes;
        p.report_ctx = &q;
    } else if (!status && !set->raw) {
        status = refuse_quantized(set, &p, rules, count);
        if (!status && set->dequantize)
            warn_plain(&p);
    }
    if (set->quantize || set->dequantize) {
        p.config = &change;
        p.report = set->quantize ? report_quantized : report_dequantized;
    }
    p.strict = set->strict;
    if (!status && set->share == SHARE_YES)
        plan_share(&p, &set->out);
    if (!status)
        status = plan_write(&p, &set->out);
    plan_free(&p); /* before the quantizer, which its parts read from */
    quantizer_free(&q);
    text_free(&config);
    return status;
}

static int convert_run(const invocation *call) {
    const convert_settings *set = call->settings;
    size_t count = set->rules.count + set->keep.count;
    rule *rules = need(count, sizeof *rules);
    common.dequantize = set->dequantize;
    common.unmapped = set->quantize; /* values are read twice; mapped pages would stay in memory */
    int status = check_convert(set);
    if (!status)
        status = parse_rules(set, rules);
    if (!status)
        status = run_convert(call, rules, count);
    for (size_t i = 0; i < count; i++)
        free(rules[i].pattern);
    free(rules);
    return status;
}

const command cmd_convert = {
    .name = "convert",
    .summary = "Convert dtypes and formats (to SafeTensors), quantize, dequantize",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .options = convert_options,
    .details =
        "Integers and BOOL stay as they are unless a rule names them. Numbers are rounded once,\n"
        "to nearest. The tool prints how many values overflowed or became zero, with the\n"
        "tensors that lose most. 8-bit and smaller floats get no scales, so values beyond their\n"
        "range (448 in F8_E4M3) are lost.\n"
        "\n"
        "A PyTorch file may name one tensor several times, such as an embedding that is the\n"
        "head too. convert writes tensors that have the same dtype, first byte, shape and\n"
        "strides once, under the name that comes first in byte order. The metadata has the\n"
        "other names, as from safetensors.torch.save_model. --share no writes each.\n"
        "\n"
        "A quantized weight is stored as codes and scales (FP8 with scales, GPTQ, AWQ,\n"
        "bitsandbytes, MLX, MXFP4, ...). A command that would convert a part of one is refused.\n"
        "--dequantize writes each as one plain tensor, in the dtype of --to or, without --to,\n"
        "in the dtype that the model computes in. config.json is copied with the new dtype and\n"
        "without its quantization_config.\n"
        "\n"
        "--quantize rounds to nearest. fp8-block is DeepSeek's FP8, with a scale for each\n"
        "128x128 block. The others are compressed-tensors': fp8-channel and int8-channel have a\n"
        "scale for each row, mxfp4 has one for each 32 values. convert quantizes tensors whose\n"
        "names end in .weight, except embeddings, norms, lm_head, expert routers and what\n"
        "--keep names. With fp8-block it also leaves out weights whose dimensions are not\n"
        "multiples of 128, because loaders refuse or misread them. --rule 'NAME=quantize' adds\n"
        "weights. The tool prints what is lost, and adds quantization_config to config.json.\n"
        "\n" OUTPUT_DETAILS,
    .examples = convert_examples,
    .settings_size = sizeof(convert_settings),
    .run = convert_run,
};
