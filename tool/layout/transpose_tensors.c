/* --transpose: exchanges the last two axes of the tensors with some names. */
#include <string.h>

#include "layout/layout_plan.h"
#include "model/dequantized_weights.h"
#include "tensor_patterns.h"

static const char rule[] = "transpose";

/* Codes and scales of a quantized weight belong together: neither can change its axes alone. */
static int check_plain(const tenmap_tensor *t) {
    tenmap_quantized weight;
    if (t->rank < 2)
        return fail(EXIT_FAILED,
                    "--transpose: %s has the shape %s; only tensors of two or more axes can be "
                    "transposed",
                    shown_name(t->name, t->name_len), shown_shape(t));
    if (t->dtype != TENMAP_OPAQUE && tenmap_dtype_bits(t->dtype) % 8 + !tenmap_dtype_bits(t->dtype))
        return fail(EXIT_FAILED,
                    "--transpose: %s is %s, whose elements are not whole bytes and cannot be "
                    "moved one by one; write plain numbers first, with tenmap convert --to bf16",
                    shown_name(t->name, t->name_len), tenmap_dtype_name(t->dtype));
    if (!is_dequantized(t) && tenmap_quantized_of(t, &weight))
        return fail(EXIT_FAILED,
                    "--transpose: %s holds the codes of a quantized weight (%s), which has scales "
                    "beside it; add --dequantize to write plain weights",
                    shown_name(t->name, t->name_len), weight.family);
    return EXIT_FINE;
}

static int transpose_one(layout *l, size_t index) {
    const tenmap_tensor *t = tenmap_at(l->model, index);
    int status = check_plain(t);
    if (!status)
        status = layout_take(l, index, rule);
    if (status)
        return status;
    text name = {0};
    tenmap_derived how;
    uint32_t *order = layout_own(l, t->rank, sizeof *order);
    for (uint32_t i = 0; i < t->rank; i++)
        order[i] = i;
    order[t->rank - 2] = t->rank - 1;
    order[t->rank - 1] = t->rank - 2;
    text_add(&name, t->name, t->name_len);
    layout_renamed(l, t, &name, &how);
    how.order = order;
    layout_add(l, rule, &how, &index, 1);
    text_free(&name);
    return EXIT_FINE;
}

int layout_transpose(layout *l, const texts *patterns) {
    const filter wanted = {.patterns = patterns->items, .pattern_count = patterns->count};
    selection s;
    size_t next = 0;
    int status = select_tensors(l->model, &wanted, &s);
    if (status)
        return status;
    for (size_t i = 0; i < l->count && next < s.count && !status; i++) {
        if (s.tensors[next] != tenmap_at(l->model, i))
            continue;
        next++;
        status = l->chosen[i] ? transpose_one(l, i) : EXIT_FINE;
    }
    selection_free(&s);
    return status;
}
