/* Reports names and row orders that an output has from llama.cpp's converter. */
#include "output/gguf_origin.h"

#include <stdio.h>

#include "model/gguf_metadata.h"
#include "model/name_map.h"
#include "tensor_patterns.h"
#include "view/json_out.h"
#include "view/print.h"

typedef struct gguf_origin {
    size_t names;    /* tensors that have llama.cpp's names in the output */
    size_t permuted; /* query and key projections whose rows are in llama.cpp's order */
} gguf_origin;

static bool matches(const char *const *patterns, const char *name, size_t len) {
    for (; *patterns; patterns++)
        if (glob_match(*patterns, name, len))
            return true;
    return false;
}

static gguf_origin find_origin(const plan *p) {
    static const char *const names[] = {"blk.*", "*.blk.*", "token_embd.*", "output_norm.*", NULL};
    static const char *const permuted[] = {"blk.*.attn_[qk].weight", "blk.*.attn_[qk].bias", NULL};
    gguf_origin found = {0};
    const tenmap_model *model = NULL;
    bool gguf = false, permutes = false;
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_tensor *t = plan_origin(p, i);
        size_t len;
        const char *name = plan_name(p, i, &len);
        if (!t)
            continue;
        if (t->model != model) {
            model = t->model;
            gguf = is_gguf(model);
            permutes = gguf && find_head_order(model).heads;
        }
        found.names += gguf && matches(names, name, len);
        found.permuted += permutes && matches(permuted, t->name, t->name_len);
    }
    return found;
}

void gguf_origin_print(const plan *p) {
    gguf_origin found = find_origin(p);
    text line = {0};
    if (!found.names && !found.permuted)
        return;
    text_addf(&line, "note: ");
    if (found.names)
        text_addf(&line, "the tensors keep llama.cpp's names");
    if (found.permuted)
        text_addf(&line, "%sthe rows of %zu query and key projection%s keep llama.cpp's order",
                  found.names ? ", and " : "", found.permuted, found.permuted == 1 ? "" : "s");
    text_addf(&line, "; transformers expects its own");
    print_wrapped(line.bytes, 0, print_width() ? print_width() : 100);
    text_free(&line);
}

void gguf_origin_json(const plan *p) {
    gguf_origin found = find_origin(p);
    if (!found.names && !found.permuted)
        return;
    json_key("gguf");
    json_open('{', true);
    json_key_uint("llama_cpp_names", found.names);
    json_key_uint("permuted_projections", found.permuted);
    json_close();
}
