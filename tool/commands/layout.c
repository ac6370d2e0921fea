/* layout: stacks or splits experts, fuses or splits projections, transposes. */
#include <stdlib.h>
#include <string.h>

#include "architectures/architecture.h"
#include "command.h"
#include "layout/layout_plan.h"
#include "model/config_json.h"
#include "model/dequantized_weights.h"
#include "model/identify_model.h"
#include "output/config_edit.h"
#include "output/output_write.h"
#include "tensor_patterns.h"

typedef struct layout_settings {
    output_settings out;
    bool stack, split_experts, dequantize;
    texts fuse, split, transpose, only;
    const char *as;
    uint64_t heads, kv_heads;
    tenmap_dtype to;
} layout_settings;

static const option layout_options[] = {
    {0, "stack-experts", NULL, OPTION_SWITCH, offsetof(layout_settings, stack),
     "Join the experts of each layer: one tensor for gate and up, one for down, as transformers 5 "
     "holds them"},
    {0, "split-experts", NULL, OPTION_SWITCH, offsetof(layout_settings, split_experts),
     "Write a gate, an up and a down matrix for each expert, as most engines load them"},
    {0, "fuse", "qkv|gate_up", OPTION_LIST, offsetof(layout_settings, fuse),
     "Join the rows of q_proj, k_proj and v_proj as qkv_proj, or of gate_proj and up_proj as "
     "gate_up_proj"},
    {0, "split", "qkv|gate_up", OPTION_LIST, offsetof(layout_settings, split),
     "Cut qkv_proj or gate_up_proj, as Phi-3 has them, into their parts"},
    {0, "transpose", "NAME", OPTION_LIST, offsetof(layout_settings, transpose),
     "Exchange the last two axes of these tensors"},
    {0, "only", "NAME", OPTION_LIST, offsetof(layout_settings, only),
     "Change only modules with tensors of these names"},
    {0, "as", "TYPE", OPTION_TEXT, offsetof(layout_settings, as),
     "How experts are arranged, if config.json does not say it: a model_type such as mixtral"},
    {0, "heads", "N", OPTION_COUNT, offsetof(layout_settings, heads),
     "How many attention heads there are, if config.json does not say it"},
    {0, "kv-heads", "N", OPTION_COUNT, offsetof(layout_settings, kv_heads),
     "How many heads keys and values have, if fewer"},
    {0, "to", "DTYPE", OPTION_DTYPE, offsetof(layout_settings, to),
     "Convert floating-point tensors to this dtype, as convert does"},
    {0, "dequantize", NULL, OPTION_SWITCH, offsetof(layout_settings, dequantize),
     "Write quantized weights as plain tensors of their dequantized values"},
    SHARD_OPTIONS(offsetof(layout_settings, out)),
    OUTPUT_OPTIONS(offsetof(layout_settings, out)),
    END_OF_OPTIONS,
};

static const example layout_examples[] = {
    {"tenmap layout hf://org/Mixtral-8x7B --stack-experts -o stacked",
     "one tensor for all experts"},
    {"tenmap layout hf://org/gpt-oss-20b-bf16 --split-experts -o split",
     "for an engine that loads experts one by one"},
    {"tenmap layout llama/ --fuse qkv --fuse gate_up -o fused", "fewer, larger matrices"},
    {"tenmap layout llama/ --transpose '*.mlp.down_proj.weight' -o out -n", "what would change"},
    {NULL, NULL},
};

/* Checking the command line. */

static int check_words(const char *given, const texts *words) {
    for (size_t i = 0; i < words->count; i++)
        if (strcmp(words->items[i], "qkv") != 0 && strcmp(words->items[i], "gate_up") != 0)
            return fail(EXIT_USAGE, "--%s takes qkv or gate_up, not '%s'", given, words->items[i]);
    return EXIT_FINE;
}

static bool has_word(const texts *words, const char *word) {
    for (size_t i = 0; i < words->count; i++)
        if (strcmp(words->items[i], word) == 0)
            return true;
    return false;
}

static int check_settings(const layout_settings *set) {
    bool rules = set->stack || set->split_experts || set->fuse.count || set->split.count;
    int status = check_words("fuse", &set->fuse);
    if (!status)
        status = check_words("split", &set->split);
    if (status)
        return status;
    if (!rules && !set->transpose.count)
        return fail(EXIT_USAGE, "say what to change: --stack-experts, --split-experts, --fuse qkv, "
                                "--split qkv, --transpose NAME, ...");
    if (set->stack && set->split_experts)
        return fail(EXIT_USAGE, "--stack-experts and --split-experts undo each other");
    for (size_t i = 0; i < set->fuse.count; i++)
        if (has_word(&set->split, set->fuse.items[i]))
            return fail(EXIT_USAGE, "--fuse %s and --split %s undo each other", set->fuse.items[i],
                        set->fuse.items[i]);
    if (set->as && !expert_layout_of_type(set->as))
        return fail(EXIT_USAGE, "--as takes one of these types: %s; not '%s'",
                    expert_layout_types(), set->as);
    if (set->kv_heads && !set->heads)
        return fail(EXIT_USAGE, "--kv-heads needs --heads");
    status = check_output_dtype("--to", set->to);
    return status ? status : check_output_name(&set->out);
}

/* What is known about the model. */

static void facts_of_config(const config *c, layout_facts *facts) {
    static const char *const keys[] = {"model_type", "text_config.model_type",
                                       "llm_config.model_type"};
    const architecture *a = architecture_of_config(c);
    model_sizes sizes;
    uint64_t block;
    sizes_of_config(a, c, &sizes);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !facts->experts_as; i++) {
        const char *type = config_text(c, keys[i]);
        facts->type = type && (!i || !facts->type) ? type : facts->type;
        facts->experts_as = expert_layout_of_type(type);
        facts->type = facts->experts_as ? type : facts->type;
    }
    facts->experts = size_named(&sizes, "experts");
    facts->heads = size_named(&sizes, "heads");
    facts->kv_heads = size_named(&sizes, "kv");
    if (a || config_text(c, "head_dim"))
        facts->head = size_named(&sizes, "head");
    if (config_uint(c, "quantization_config.weight_block_size.0", &block) && block)
        facts->scale_block = block;
}

static void add_settings(const layout_settings *set, layout_facts *facts) {
    if (set->as) {
        facts->type = set->as;
        facts->experts_as = expert_layout_of_type(set->as);
    }
    if (set->heads) {
        facts->heads = set->heads;
        facts->kv_heads = set->kv_heads ? set->kv_heads : set->heads;
        facts->head = 0;
    }
}

static int need_experts(const layout_settings *set, const layout_facts *facts) {
    if ((!set->stack && !set->split_experts) || facts->experts_as)
        return EXIT_FINE;
    if (!facts->type)
        return fail(EXIT_FAILED,
                    "there is no config.json that says how experts are arranged; --as "
                    "takes the model_type: %s",
                    expert_layout_types());
    return fail(EXIT_FAILED,
                "it is not known how '%s' (the model_type in config.json) arranges "
                "experts; --as takes a type that arranges them alike: %s",
                facts->type, expert_layout_types());
}

/* Changing. */

static int apply_only(const layout_settings *set, layout *l) {
    const filter wanted = {.patterns = set->only.items, .pattern_count = set->only.count};
    selection s;
    size_t next = 0;
    if (!set->only.count)
        return EXIT_FINE;
    int status = select_tensors(l->model, &wanted, &s);
    if (status)
        return status;
    for (size_t i = 0; i < l->count; i++) {
        bool in = next < s.count && s.tensors[next] == tenmap_at(l->model, i);
        next += in;
        l->chosen[i] = l->chosen[i] && in;
    }
    selection_free(&s);
    return EXIT_FINE;
}

static int apply_rules(const layout_settings *set, layout *l) {
    int status = apply_only(set, l);
    if (!status && set->stack)
        status = layout_stack_experts(l);
    if (!status && set->split_experts)
        status = layout_split_experts(l);
    for (size_t i = 0; i < set->fuse.count && !status; i++)
        status = layout_fuse(l, set->fuse.items[i]);
    for (size_t i = 0; i < set->split.count && !status; i++)
        status = layout_split_fused(l, set->split.items[i]);
    if (!status && set->transpose.count)
        status = layout_transpose(l, &set->transpose);
    if (!status && !l->tensor_count)
        status = fail(EXIT_FAILED, "--only names no tensor that would change");
    return status;
}

/* Codes and scales that are converted as if they were numbers lose their meaning. */
static int refuse_conversion(const layout_settings *set, const tenmap_model *model) {
    tenmap_quantized weight;
    for (size_t i = 0; set->to && i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (!is_dequantized(t) && tenmap_quantized_of(t, &weight))
            return fail(EXIT_FAILED,
                        "%s holds the codes of a quantized weight (%s), which --to would corrupt; "
                        "add --dequantize to write its values",
                        shown_name(t->name, t->name_len), weight.family);
    }
    return EXIT_FINE;
}

static void choose_dtypes(const layout_settings *set, plan *p) {
    for (size_t i = 0; i < p->count; i++) {
        tenmap_source *s = &p->sources[i];
        bool number = tenmap_dtype_kind(s->tensor->dtype) == TENMAP_KIND_FLOAT;
        if (set->to && number && set->to != s->tensor->dtype)
            s->dtype = set->to;
        else if (is_dequantized(s->tensor))
            s->dtype = s->tensor->dtype;
    }
}

static void report_layout(const plan *p, const target *to, bool json) {
    (void)to;
    if (json)
        layout_json(p->report_ctx);
    else
        layout_print(p->report_ctx);
}

static int run_layout(const layout_settings *set, plan *p, layout *l, const config *c) {
    config_change change = {.dequantized = set->dequantize, .dtype = set->to};
    layout_facts facts = {.scale_block = 128};
    facts_of_config(c, &facts);
    add_settings(set, &facts);
    layout_begin(l, p->models[0], &facts);
    int status = need_experts(set, &facts);
    if (!status)
        status = refuse_conversion(set, l->model);
    if (!status)
        status = apply_rules(set, l);
    if (!status)
        status = layout_apply(l, p);
    if (status)
        return status;
    choose_dtypes(set, p);
    p->rearranged = true;
    p->report = report_layout;
    p->report_ctx = l;
    if (set->dequantize)
        p->config = &change;
    return plan_write(p, &set->out);
}

static int layout_run(const invocation *call) {
    const layout_settings *set = call->settings;
    plan p = {0};
    layout l = {0};
    config c = {0};
    common.dequantize = set->dequantize;
    int status = check_settings(set);
    if (!status)
        status = plan_open(&p, "rearranging", call->operands, 1);
    if (!status) {
        char *folder = model_folder(p.models[0]);
        (void)config_read(folder, "config.json", &c);
        free(folder);
        status = run_layout(set, &p, &l, &c);
    }
    tenmap_close(p.derived); /* before the model of its terms */
    p.derived = NULL;
    layout_free(&l);
    plan_free(&p);
    config_free(&c);
    return status;
}

const command cmd_layout = {
    .name = "layout",
    .summary = "Stack or split experts, fuse or split QKV and gate/up, transpose",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .options = layout_options,
    .details =
        "Engines expect the same weights in different arrangements. layout moves elements, bit\n"
        "for bit in every dtype, and renames tensors to match. The inverse option gives the\n"
        "original tensors back. Biases, the scales of FP8 and the MXFP4 of gpt-oss move with\n"
        "their weights. Other quantized weights are refused unless --dequantize is given.\n"
        "\n"
        "How experts are named and arranged depends on the architecture that config.json names:\n"
        "mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, gpt_oss, llama4. Each layer\n"
        "must have as many experts as config.json says. --split-experts writes each matrix as\n"
        "outputs by inputs, with a name that ends in .weight, for gpt-oss and Llama 4 too,\n"
        "although their stacked experts have the inputs first.\n"
        "\n"
        "--fuse and --split change only the language model. They leave towers for images or\n"
        "sound, and the gate and up of single experts, as they are. --split qkv takes the\n"
        "numbers of heads from config.json.\n"
        "\n" OUTPUT_DETAILS,
    .examples = layout_examples,
    .settings_size = sizeof(layout_settings),
    .run = layout_run,
};
