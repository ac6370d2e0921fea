/* extract, drop: some of the tensors of a model. */
#include "subset.h"

const option subset_options[] = {
    {'d', "dtype", "DTYPE", OPTION_LIST, offsetof(subset_settings, wanted.dtypes),
     "Take only tensors of these dtypes: bf16, 'f8*'"},
    {'x', "except", "NAME", OPTION_LIST, offsetof(subset_settings, wanted.except),
     "Leave out tensors of these names"},
    {0, "min-size", "SIZE", OPTION_SIZE, offsetof(subset_settings, wanted.min_bytes),
     "Take only tensors of at least this size"},
    {0, "max-size", "SIZE", OPTION_SIZE, offsetof(subset_settings, wanted.max_bytes),
     "Take only tensors of at most this size"},
    SHARD_OPTIONS(offsetof(subset_settings, out)),
    OUTPUT_OPTIONS(offsetof(subset_settings, out)),
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
