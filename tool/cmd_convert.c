/* convert: tensors in another dtype. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "computed.h"
#include "config_edit.h"
#include "json_out.h"
#include "remote.h"
#include "reshape.h"
#include "scaled.h"
#include "select.h"

typedef struct convert_settings {
    output_settings out;
    tenmap_dtype to; /* TENMAP_AS_STORED: not given */
    texts rules, keep;
    uint64_t min_rank;
    bool saturate, strict, raw, dequantize;
} convert_settings;

static const option convert_options[] = {
    {0, "to", "DTYPE", OPTION_DTYPE, offsetof(convert_settings, to),
     "The dtype that floating-point tensors get: bf16, f16, f8_e4m3 (without scales), ..."},
    {0, "rule", "NAME=DTYPE", OPTION_LIST, offsetof(convert_settings, rules),
     "Another dtype for these names ('keep': as they are); the first rule that matches counts"},
    {0, "keep", "NAME", OPTION_LIST, offsetof(convert_settings, keep),
     "Leave these names as they are, whatever the rules"},
    {0, "min-rank", "N", OPTION_COUNT, offsetof(convert_settings, min_rank),
     "Leave tensors of fewer dimensions to the rules: 2 keeps norms and biases as they are"},
    {0, "saturate", NULL, OPTION_SWITCH, offsetof(convert_settings, saturate),
     "Overflow becomes the largest finite value instead of infinity or NaN"},
    {0, "strict", NULL, OPTION_SWITCH, offsetof(convert_settings, strict),
     "Count first, and write nothing if a value would overflow or become zero (exit 1)"},
    {0, "raw", NULL, OPTION_SWITCH, offsetof(convert_settings, raw),
     "Convert the parts of quantised weights as if they were plain numbers"},
    {0, "dequantize", NULL, OPTION_SWITCH, offsetof(convert_settings, dequantize),
     "Write quantised weights as plain tensors, codes and scales put together"},
    SHARD_OPTIONS(offsetof(convert_settings, out)),
    OUTPUT_OPTIONS(offsetof(convert_settings, out)),
    END_OF_OPTIONS,
};

static const example convert_examples[] = {
    {"tenmap convert model.safetensors --to bf16 -o small.safetensors", "halve an F32 model"},
    {"tenmap convert llama/ --to f8_e4m3 --keep norm --rule 'lm_head.*=bf16' -o llama-f8",
     "by name: the head in BF16, the norms as they are, all else in 8 bits"},
    {"tenmap convert DeepSeek-V3/ --dequantize --to bf16 -o DeepSeek-V3-bf16",
     "a quantised model as a plain one"},
    {"tenmap convert model.safetensors --rule 'mask=f32' -o out.safetensors -n",
     "what a rule would do"},
    {NULL, NULL},
};

typedef struct rule {
    char *pattern;
    tenmap_dtype to; /* TENMAP_AS_STORED: keep */
    bool used;
} rule;

static bool dtype_of(const char *given, tenmap_dtype *out) {
    *out = TENMAP_AS_STORED;
    return strcasecmp(given, "keep") == 0 || parse_dtype(given, out);
}

/* Rules are --keep first, then --rule, in their order. */
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
            return fail(EXIT_USAGE, "--rule '%s': '%s' is no dtype; did you mean %s?", given,
                        equals + 1, dtype_hint(equals + 1));
        if (!whole || !dtype_of(equals + 1, &to))
            return fail(EXIT_USAGE, "--rule takes NAME=DTYPE, such as 'lm_head.*=bf16', not '%s'",
                        given);
        rules[n++] = (rule){need_copy(given, (size_t)(equals - given)), to, false};
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
    /* Without a rule, --to is for numbers that are floating-point already. */
    return tenmap_dtype_kind(t->dtype) == TENMAP_KIND_FLOAT && t->rank >= set->min_rank
               ? set->to
               : TENMAP_AS_STORED;
}

static void plan_tensor(const convert_settings *set, plan *p, const tenmap_tensor *t,
                        tenmap_dtype to) {
    plan_add(p, t);
    tenmap_source *s = &p->sources[p->count - 1];
    s->dtype = to == t->dtype ? TENMAP_AS_STORED : to;
    if (is_computed(t) && !s->dtype)
        s->dtype = t->dtype; /* values are rounded to it, which may lose some */
    s->flags = set->saturate && s->dtype ? TENMAP_CONVERT_SATURATE : 0;
}

static int plan_conversion(const convert_settings *set, plan *p, rule *rules, size_t count) {
    const tenmap_model *model = p->models[0];
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (!is_activation_scale(model, t))
            plan_tensor(set, p, t, choose_dtype(set, rules, count, t));
    }
    for (size_t i = 0; i < count; i++)
        if (!rules[i].used)
            warn("'%s' matches no tensor that an earlier rule has not taken", rules[i].pattern);
    return EXIT_FINE;
}

static void warn_plain(const plan *p) {
    for (size_t i = 0; i < p->count; i++)
        if (is_computed(p->sources[i].tensor))
            return;
    warn("'%s' has no weight that is stored in parts, so there is nothing to dequantise",
         shown_path(tenmap_path(p->models[0])));
}

/* What was left out. */
static void report_dequantised(const plan *p, const target *to, bool json) {
    size_t left = p->input_tensors - p->count;
    (void)to;
    if (json && left)
        json_key_uint("activation_scales_left_out", left);
    else if (left)
        printf("%zu scale%s of activations left out: plain weights have none\n", left,
               left == 1 ? "" : "s");
}

static int fail_scaled(const scaled_weight *weight, const tenmap_tensor *part) {
    const tenmap_tensor *codes = weight->parts[0], *mark = weight->parts[1];
    return fail(
        EXIT_FAILED,
        "%s and %s are parts of one weight (%s; %s): converting %s would make it another; "
        "%s, --keep leaves parts as they are, --raw converts them",
        shown_name(codes->name, codes->name_len), shown_name(mark->name, mark->name_len),
        tenmap_dtype_name(codes->dtype), weight->scheme, shown_name(part->name, part->name_len),
        common.dequantize ? "this scheme cannot be put together" : "--dequantize writes it plain");
}

/* Codes in another dtype lose their meaning, and scales that are rounded change all that they scale. */
static int refuse_scaled(const convert_settings *set, const plan *p, rule *rules, size_t count) {
    for (size_t i = 0; i < p->count; i++) {
        scaled_weight weight;
        if (!find_scaled(p->models[0], p->sources[i].tensor, &weight))
            continue;
        for (size_t k = 0; k < weight.count; k++) {
            tenmap_dtype to = choose_dtype(set, rules, count, weight.parts[k]);
            if (to != TENMAP_AS_STORED && to != weight.parts[k]->dtype)
                return fail_scaled(&weight, weight.parts[k]);
        }
    }
    return EXIT_FINE;
}

static int convert_run(const invocation *call) {
    const convert_settings *set = call->settings;
    plan p = {0};
    size_t count = set->rules.count + set->keep.count;
    rule *rules = need(count, sizeof *rules);
    config_change change = {.dequantised = true, .dtype = set->to};
    common.dequantize = set->dequantize;
    int status = parse_rules(set, rules);
    if (!status && !set->to && !set->rules.count && !set->dequantize)
        status = fail(EXIT_USAGE, "say what to convert to: --to bf16, or --rule 'NAME=DTYPE'");
    if (!status && set->dequantize && set->raw)
        status = fail(EXIT_USAGE, "--raw leaves parts apart, --dequantize puts them together: "
                                  "one of them");
    if (!status)
        status = plan_open(&p, "converting", call->operands, 1);
    if (!status)
        status = plan_conversion(set, &p, rules, count);
    if (!status && !set->raw)
        status = refuse_scaled(set, &p, rules, count);
    p.strict = set->strict;
    if (!status && set->dequantize) {
        warn_plain(&p);
        p.config = &change;
        p.report = report_dequantised;
    }
    if (!status)
        status = plan_write(&p, &set->out);
    plan_free(&p);
    for (size_t i = 0; i < count; i++)
        free(rules[i].pattern);
    free(rules);
    return status;
}

const command cmd_convert = {
    .name = "convert",
    .summary = "Convert tensors to another dtype",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .options = convert_options,
    .details = "Integers and BOOL stay as they are unless a rule names them. Numbers are rounded\n"
               "once, to nearest. How many overflowed or became zero is printed, with the\n"
               "tensors that lose most. No scales are made for 8-bit and smaller floats: what\n"
               "is beyond their range (448 in F8_E4M3) is lost.\n"
               "\n"
               "Quantised weights, which are stored as codes beside their scales (FP8 with\n"
               "scales, GPTQ, AWQ, bitsandbytes, MLX, MXFP4, ...), are refused where a part of\n"
               "one would be converted. With --dequantize each is written as one plain tensor, in\n"
               "the dtype of --to, or the one that the model computes in; config.json is copied\n"
               "without its quantization_config, and with the new dtype.\n\n" OUTPUT_DETAILS,
    .examples = convert_examples,
    .settings_size = sizeof(convert_settings),
    .run = convert_run,
};
