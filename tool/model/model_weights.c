/* Lists the weights of a model, and joins the parts of quantized ones. */
#include "model/model_weights.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/dequantized_weights.h"
#include "model/gguf_metadata.h"
#include "model/module_numbers.h"
#include "view/print.h"

/* Tensors that are parts of other weights, sorted by address. */
typedef struct part_list {
    const tenmap_tensor **items;
    size_t count;
} part_list;

static int compare_parts(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (const tenmap_tensor *const *)a;
    uintptr_t y = (uintptr_t) * (const tenmap_tensor *const *)b;
    return x < y ? -1 : x > y;
}

static void find_parts(const tenmap_model *model, part_list *out) {
    *out = (part_list){0};
    for (size_t i = 0; i < tenmap_count(model); i++) {
        tenmap_quantized q;
        if (!tenmap_quantized_of(tenmap_at(model, i), &q))
            continue;
        for (uint32_t k = 1; k < q.part_count; k++) {
            out->items = need_next(out->items, out->count, sizeof *out->items);
            out->items[out->count++] = q.parts[k];
        }
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare_parts);
}

static bool is_part(const part_list *parts, const tenmap_tensor *t) {
    return parts->count &&
           bsearch(&t, parts->items, parts->count, sizeof *parts->items, compare_parts);
}

/* Codes are named after their weight: "M.qweight" and "M.weight_packed" are M.weight. */
static bool match_codes(const architecture *a, const tenmap_tensor *t, tensor_match *out) {
    text name = {0};
    size_t stem = t->name_len;
    while (stem && t->name[stem - 1] != '.')
        stem--;
    text_add(&name, t->name, stem);
    text_addf(&name, "weight");
    bool found = match_tensor(a, name.bytes, name.len, out);
    text_free(&name);
    return found;
}

/* The layer of a tensor that no rule covers. */
static uint64_t layer_in_name(const tenmap_tensor *t) {
    static const char *const stacks[] = {"layers.", "blk."};
    number_span at = {0};
    while (number_find(t->name, t->name_len, at.end, &at))
        for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++) {
            size_t n = strlen(stacks[i]);
            if (at.begin >= n && memcmp(t->name + at.begin - n, stacks[i], n) == 0)
                return at.value;
        }
    return NO_LAYER;
}

static model_weight weight_of(const architecture *a, const tenmap_tensor *t) {
    model_weight w = {.values = t->nelems,
                      .columns = t->rank ? t->shape[t->rank - 1] : 1,
                      .bytes = stored_bytes(t),
                      .layer = layer_in_name(t),
                      .rank = t->rank};
    tenmap_quantized q;
    tensor_match match = {0};
    bool quantized = tenmap_quantized_of(t, &q);
    if (quantized) {
        w.columns = q.values == t->nelems ? w.columns : 0;
        w.values = q.values ? q.values : t->nelems;
        w.rank = w.rank < 2 ? 2 : w.rank;
        for (uint32_t k = 1; k < q.part_count; k++)
            w.bytes += stored_bytes(q.parts[k]);
    }
    bool found = is_gguf(t->model) ? match_gguf_tensor(t->name, t->name_len, &match)
                                   : match_tensor(a, t->name, t->name_len, &match) ||
                                         (quantized && match_codes(a, t, &match));
    if (found) {
        w.role = match.rule->role;
        w.layer = match.layer;
    }
    return w;
}

void weights_list(const tenmap_model *model, const architecture *a, model_weights *out) {
    part_list parts;
    size_t count = tenmap_count(model);
    find_parts(model, &parts);
    *out = (model_weights){.items = need(count ? count : 1, sizeof *out->items)};
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (!is_part(&parts, t))
            out->items[out->count++] = weight_of(a, t);
    }
    free(parts.items);
}

void weights_free(model_weights *w) {
    free(w->items);
    *w = (model_weights){0};
}

bool is_expert(const model_weight *w) {
    return w->role >= ROLE_EXPERT_GATE && w->role <= ROLE_EXPERT_BIAS;
}
