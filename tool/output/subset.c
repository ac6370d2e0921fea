/* Implements extract and drop: writes some of a model's tensors. */
#include "output/subset.h"

#include <stdlib.h>

#include "model/dequantized_weights.h"
#include "output/config_edit.h"
#include "output/dropped_layers.h"
#include "output/output_write.h"

const option subset_options[] = {
    {'d', "dtype", "DTYPE", OPTION_LIST, offsetof(subset_settings, wanted.dtypes),
     "Take only tensors of these dtypes: bf16, 'f8*'"},
    {'x', "except", "NAME", OPTION_LIST, offsetof(subset_settings, wanted.except),
     "Leave out tensors of these names"},
    {0, "min-size", "SIZE", OPTION_SIZE, offsetof(subset_settings, wanted.min_bytes),
     "Take only tensors of at least this size"},
    {0, "max-size", "SIZE", OPTION_SIZE, offsetof(subset_settings, wanted.max_bytes),
     "Take only tensors of at most this size"},
    {0, "to", "DTYPE", OPTION_DTYPE, offsetof(subset_settings, to),
     "Convert floating-point tensors to this dtype, as convert does; GGUF's blocks need it"},
    {0, "dequantize", NULL, OPTION_SWITCH, offsetof(subset_settings, dequantize),
     "Write quantized weights as plain tensors of their dequantized values"},
    {0, "renumber", NULL, OPTION_SWITCH, offsetof(subset_settings, renumber),
     "Give the layers that are left the numbers from 0 on, also in config.json"},
    SHARD_OPTIONS(offsetof(subset_settings, out)),
    OUTPUT_OPTIONS(offsetof(subset_settings, out)),
    END_OF_OPTIONS,
};

/* Whether --to applies to this tensor: a floating-point tensor of another dtype. */
static bool becomes(const tenmap_tensor *t, tenmap_dtype to) {
    return to != TENMAP_AS_STORED && to != t->dtype &&
           tenmap_dtype_kind(t->dtype) == TENMAP_KIND_FLOAT;
}

/* Both lists are in file order, so one pass tells which tensors are selected. */
static int plan_subset(plan *p, const selection *chosen, bool keep, tenmap_dtype to) {
    const tenmap_model *model = p->models[0];
    size_t next = 0;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        bool selected = next < chosen->count && chosen->tensors[next] == t;
        next += selected;
        if (selected != keep)
            continue;
        plan_add(p, t);
        if (becomes(t, to))
            p->sources[p->count - 1].dtype = to;
        else if (is_dequantized(t))
            p->sources[p->count - 1].dtype = t->dtype;
    }
    if (p->count == 0 && tenmap_count(model))
        return fail(EXIT_FAILED, "no tensor would be left");
    return EXIT_FINE;
}

/*
 * Refuses to convert parts of quantized weights: codes in another dtype lose their meaning, and
 * rounding scales changes every value that they scale.
 */
static int refuse_parts(const plan *p, tenmap_dtype to) {
    for (size_t i = 0; i < p->count; i++) {
        tenmap_quantized weight;
        if (!tenmap_quantized_of(p->sources[i].tensor, &weight))
            continue;
        for (size_t k = 0; k < weight.part_count; k++)
            if (becomes(weight.parts[k], to))
                return fail(EXIT_FAILED,
                            "%s and %s are parts of one weight (%s; %s): --to %s would corrupt it; "
                            "convert --dequantize writes its values",
                            shown_name(weight.parts[0]->name, weight.parts[0]->name_len),
                            shown_name(weight.parts[1]->name, weight.parts[1]->name_len),
                            tenmap_dtype_name(weight.parts[0]->dtype), weight.family,
                            tenmap_dtype_name(to));
    }
    return EXIT_FINE;
}

/* Layers. */

static void report_gaps(const plan *p, const target *to, bool json) {
    (void)to;
    if (json)
        layer_gaps_json(p->report_ctx);
    else
        print_layer_gaps(p->report_ctx);
}

/*
 * Renumbers layers if asked to. Returns the stacks of layers that config.json has to follow: those
 * without a gap in the output. The caller frees the list.
 */
static config_layers *follow_layers(plan *p, const dropped_layers *dropped, bool renumber,
                                    size_t *count) {
    config_layers *list = need(dropped->count, sizeof *list);
    *count = 0;
    for (size_t i = 0; i < dropped->count; i++) {
        const layer_stack *s = &dropped->stacks[i];
        if (renumber || !has_gap(s))
            list[(*count)++] = (config_layers){s->count, s->left, s->kept, NULL};
    }
    if (renumber)
        renumber_layers(p, dropped);
    return list;
}

int run_subset(const invocation *call, bool keep) {
    const subset_settings *set = call->settings;
    plan p = {0};
    selection chosen = {0};
    filter wanted = set->wanted;
    wanted.patterns = call->operands + 1;
    wanted.pattern_count = call->operand_count - 1;
    if (!wanted.pattern_count && !wanted.dtypes.count && !wanted.except.count &&
        !wanted.min_bytes && !wanted.max_bytes)
        return fail(EXIT_USAGE, "say which tensors: names, --dtype, --min-size or --max-size");
    int status = check_output_dtype("--to", set->to);
    if (status)
        return status;
    config_change change = {.dequantized = true, .dtype = set->to};
    common.dequantize = set->dequantize;
    /*
     * --to and --dequantize need all parts of a weight, whichever shard they are in, and --renumber
     * needs all names.
     */
    bool few = keep && set->to == TENMAP_AS_STORED && !set->dequantize && !set->renumber;
    status = few ? plan_open_for_tensors(&p, "extracting", call->operands[0], wanted.patterns,
                                         wanted.pattern_count)
                 : plan_open(&p, keep ? "extracting" : "copying", call->operands, 1);
    if (!status)
        status = select_tensors(p.models[0], &wanted, &chosen);
    if (!status)
        status = plan_subset(&p, &chosen, keep, set->to);
    if (!status)
        status = refuse_parts(&p, set->to);
    dropped_layers dropped = {0};
    change.dequantized = set->dequantize;
    if (!status && (set->renumber || !keep)) /* extract takes parts of a model on purpose */
        find_dropped_layers(&p, &dropped);
    config_layers *layers = follow_layers(&p, &dropped, set->renumber, &change.layers_count);
    change.layers = layers;
    if (dropped.count && !set->renumber) {
        p.report = report_gaps;
        p.report_ctx = &dropped;
    }
    p.config = set->dequantize || change.layers_count ? &change : NULL;
    if (!status)
        status = plan_write(&p, &set->out);
    free(layers);
    dropped_layers_free(&dropped);
    selection_free(&chosen);
    plan_free(&p);
    return status;
}
