/* Helpers for weights that the library dequantizes, and for the tensors that belong to them. */
#include "model/dequantized_weights.h"

#include <stddef.h>
#include <string.h>

bool has_no_bytes(const tenmap_tensor *t) {
    return t->flags & TENMAP_TENSOR_COMPUTED;
}

static bool has_scheme(const tenmap_tensor *t, const char *name) {
    return has_no_bytes(t) && strcmp(tenmap_scheme_of(t)->name, name) == 0;
}

bool is_derived(const tenmap_tensor *t) {
    return has_scheme(t, "derived");
}

bool is_dequantized(const tenmap_tensor *t) {
    return has_no_bytes(t) && !has_scheme(t, "strided") && !is_derived(t);
}

const char *stored_as(const tenmap_tensor *t) {
    return is_dequantized(t) ? tenmap_scheme_of(t)->name : tenmap_dtype_text(t);
}

uint64_t stored_bytes(const tenmap_tensor *t) {
    uint64_t bytes = 0;
    if (!has_no_bytes(t))
        return t->nbytes;
    for (uint32_t i = 0; i < tenmap_scheme_of(t)->part_count; i++)
        bytes += tenmap_part_at(t, i)->nbytes;
    return bytes;
}

bool is_activation_scale(const tenmap_model *model, const tenmap_tensor *t) {
    static const char *const ends[] = {"input_scale", "input_zero_point", "input_global_scale",
                                       "scale_input", "activation_scale"};
    char weight[1024];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t end = strlen(ends[i]), stem = t->name_len - end;
        if (t->name_len <= end || memcmp(t->name + stem, ends[i], end) != 0 ||
            stem + sizeof "weight" > sizeof weight)
            continue;
        memcpy(weight, t->name, stem);
        memcpy(weight + stem, "weight", sizeof "weight");
        const tenmap_tensor *w = tenmap_find_n(model, weight, stem + sizeof "weight" - 1);
        return w && is_dequantized(w);
    }
    return false;
}
