/* realign: writes the same model with its data at an aligned offset. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/json_out.h"
#include "view/print.h"
#include "output/output_target.h"
#include "output/output_write.h"

typedef struct realign_settings {
    output_settings out;
    uint64_t to;
    bool reorder, in_place;
} realign_settings;

static const option realign_options[] = {
    {0, "to", "N", OPTION_SIZE, offsetof(realign_settings, to),
     "Start the data at a multiple of N bytes, a power of two from 8 to 2MiB (64)"},
    {0, "reorder", NULL, OPTION_SWITCH, offsetof(realign_settings, reorder),
     "Put tensors whose size is a multiple of N first: all of them are aligned then"},
    {0, "in-place", NULL, OPTION_SWITCH, offsetof(realign_settings, in_place),
     "Replace MODEL, a single file, in one rename when the new one is complete"},
    SHARD_OPTIONS(offsetof(realign_settings, out)),
    OUTPUT_OPTIONS(offsetof(realign_settings, out)),
    END_OF_OPTIONS,
};

static const example realign_examples[] = {
    {"tenmap realign model.safetensors --to 64 -o aligned.safetensors", "for vector loads"},
    {"tenmap realign model.safetensors --to 4KiB --reorder --in-place",
     "for direct I/O and GPU registration, page by page"},
    {NULL, NULL},
};

/*
 * Sorts by element size, largest first, then by name: the order of the format's reference writer.
 */
static int by_dtype_then_name(const tenmap_tensor *a, const tenmap_tensor *b) {
    if (a->dtype != b->dtype)
        return a->dtype < b->dtype ? 1 : -1;
    int order = memcmp(a->name, b->name, a->name_len < b->name_len ? a->name_len : b->name_len);
    return order ? order : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static uint64_t reorder_by; /* qsort passes no context */

/* Puts tensors whose size is a multiple of N first: they keep what follows aligned. */
static int compare_sources(const void *a, const void *b) {
    const tenmap_tensor *x = ((const tenmap_source *)a)->tensor;
    const tenmap_tensor *y = ((const tenmap_source *)b)->tensor;
    bool odd_x = x->nbytes % reorder_by != 0, odd_y = y->nbytes % reorder_by != 0;
    if (odd_x != odd_y)
        return odd_x ? 1 : -1;
    return by_dtype_then_name(x, y);
}

static int compare_placed(const void *a, const void *b) {
    const tenmap_source *x = *(const tenmap_source *const *)a;
    const tenmap_source *y = *(const tenmap_source *const *)b;
    return by_dtype_then_name(x->tensor, y->tensor);
}

static void place_shard(const plan *p, const tenmap_source **group, size_t count,
                        uint64_t *offsets) {
    uint64_t at = 0;
    if (!p->keep_order)
        qsort(group, count, sizeof *group, compare_placed);
    for (size_t i = 0; i < count; i++) {
        offsets[group[i] - p->sources] = at;
        at += group[i]->tensor->nbytes;
    }
}

/*
 * The offset at which each source will start, from the start of its shard's data, as the library
 * lays out shards: sources in order until a shard is full, and within a shard by dtype and name
 * unless the order is kept.
 */
static uint64_t *place_sources(const plan *p, const target *to) {
    uint64_t *offsets = need(p->count, sizeof *offsets), used = 0;
    const tenmap_source **group = need(p->count, sizeof *group);
    size_t first = 0;
    for (size_t i = 0; i < p->count; i++) {
        uint64_t bytes = p->sources[i].tensor->nbytes;
        if (to->folder && used > 0 && (bytes > to->max_shard || used > to->max_shard - bytes)) {
            place_shard(p, group, i - first, offsets);
            first = i;
            used = 0;
        }
        group[i - first] = &p->sources[i];
        used += bytes;
    }
    place_shard(p, group, p->count - first, offsets);
    free(group);
    return offsets;
}

/* The largest power of two, up to N, that divides the tensor's start. */
static uint64_t aligned_to(const plan *p, uint64_t offset) {
    uint64_t low = offset & (0 - offset);
    return low == 0 || low > p->alignment ? p->alignment : low;
}

static void report_aligned_json(const plan *p, const uint64_t *offsets, size_t aligned) {
    json_key_uint("alignment", p->alignment);
    json_key_uint("aligned", aligned);
    json_key("not_aligned");
    json_open('[', false);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_tensor *t = p->sources[i].tensor;
        if (aligned_to(p, offsets[i]) == p->alignment)
            continue;
        json_open('{', true);
        json_key_text("name", t->name, t->name_len);
        json_key_uint("aligned_to", aligned_to(p, offsets[i]));
        json_close();
    }
    json_close();
}

static void report_aligned_text(const plan *p, const uint64_t *offsets, size_t aligned) {
    static const column columns[] = {
        {"NOT ALIGNED", false, true}, {"DTYPE", false, false}, {"ALIGNED TO", true, false}};
    table *t = table_new(columns, 3);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_tensor *tensor = p->sources[i].tensor;
        if (aligned_to(p, offsets[i]) == p->alignment)
            continue;
        text_add_safe(table_cell(t), tensor->name, tensor->name_len);
        table_end_cell(t, STYLE_NONE);
        table_put(t, STYLE_CYAN, "%s", tenmap_dtype_text(tensor));
        table_put(t, STYLE_YELLOW, "%" PRIu64, aligned_to(p, offsets[i]));
    }
    if (aligned < p->count)
        table_print(t);
    table_free(t);
    printf("%zu of %zu tensors start at a multiple of %" PRIu32 " bytes\n", aligned, p->count,
           p->alignment);
}

static void report_aligned(const plan *p, const target *to, bool json) {
    uint64_t *offsets = place_sources(p, to);
    size_t aligned = 0;
    for (size_t i = 0; i < p->count; i++)
        aligned += aligned_to(p, offsets[i]) == p->alignment;
    if (json)
        report_aligned_json(p, offsets, aligned);
    else
        report_aligned_text(p, offsets, aligned);
    free(offsets);
}

static int check_settings(const realign_settings *set, const invocation *call,
                          output_settings *out) {
    *out = set->out;
    if (set->to < 8 || set->to > (2 << 20) || (set->to & (set->to - 1)))
        return fail(EXIT_USAGE, "--to takes a power of two from 8 to 2MiB, not %" PRIu64, set->to);
    if (set->in_place && out->path)
        return fail(EXIT_USAGE, "--in-place and --output exclude each other");
    if (set->in_place) {
        out->path = call->operands[0];
        out->force = out->single = true;
    }
    return EXIT_FINE;
}

static int plan_realign(plan *p, const realign_settings *set) {
    const tenmap_model *model = p->models[0];
    if (set->in_place && strcmp(tenmap_shard_at(model, 0)->path, tenmap_path(model)) != 0)
        return fail(EXIT_FAILED, "--in-place takes a single file; give -o FOLDER for shards");
    for (size_t i = 0; i < tenmap_count(model); i++)
        plan_add(p, tenmap_at(model, i));
    p->alignment = (uint32_t)set->to;
    p->keep_order = set->reorder;
    p->report = report_aligned;
    reorder_by = set->to;
    if (set->reorder && p->count)
        qsort(p->sources, p->count, sizeof *p->sources, compare_sources);
    return EXIT_FINE;
}

static int realign_run(const invocation *call) {
    const realign_settings *set = call->settings;
    output_settings out;
    plan p = {0};
    int status = check_settings(set, call, &out);
    if (!status)
        status = plan_open(&p, "realigning", call->operands, 1);
    if (!status)
        status = plan_realign(&p, set);
    if (!status)
        status = plan_write(&p, &out);
    plan_free(&p);
    return status;
}

static const realign_settings realign_defaults = {.to = 64};

const command cmd_realign = {
    .name = "realign",
    .summary = "Start the data at a multiple of 64 bytes or more",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .options = realign_options,
    .details =
        "The format allows no gaps between tensors, so only the start of the data can be\n"
        "chosen. Whether a tensor is aligned then depends on the sizes of the tensors before\n"
        "it; the output lists those that are not. --reorder makes them fewer. The order then\n"
        "differs from the reference writer's, which does not matter to readers.\n"
        "\n" OUTPUT_DETAILS,
    .examples = realign_examples,
    .settings_size = sizeof(realign_settings),
    .defaults = &realign_defaults,
    .run = realign_run,
};
