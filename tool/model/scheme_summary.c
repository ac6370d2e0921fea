/* Summarizes how a model's weights are quantized, with the share of each scheme. */
#include "model/scheme_summary.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "open_model.h"
#include "model/dequantized_weights.h"
#include "view/json_out.h"
#include "remote/remote.h"

static scheme_share *share_of_scheme(schemes *s, const tenmap_scheme *scheme) {
    for (size_t i = 0; i < s->count; i++) {
        scheme_share *known = &s->items[i];
        if (strcmp(known->name, scheme->name) == 0 && known->group_rows == scheme->group_rows &&
            known->group_columns == scheme->group_columns)
            return known;
    }
    s->items = need_next(s->items, s->count, sizeof *s->items);
    s->items[s->count] = (scheme_share){.name = scheme->name,
                                        .bits = scheme->bits,
                                        .group_rows = scheme->group_rows,
                                        .group_columns = scheme->group_columns};
    return &s->items[s->count++];
}

static int more_params_first(const void *a, const void *b) {
    const scheme_share *x = a, *y = b;
    if (x->params != y->params)
        return x->params > y->params ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool has_dequantized(const tenmap_model *model) {
    for (size_t i = 0; i < tenmap_count(model); i++)
        if (is_dequantized(tenmap_at(model, i)))
            return true;
    return false;
}

void schemes_find(const tenmap_model *model, schemes *out) {
    *out = (schemes){0};
    if (!has_dequantized(model)) {
        tenmap_options options = open_options();
        tenmap_error error;
        options.flags |= TENMAP_OPEN_DEQUANTIZE;
        if (remote_options(tenmap_path(model), &options))
            return;
        tenmap_status opened = tenmap_open(tenmap_path(model), &options, &out->model, &error);
        remote_opened();
        if (opened != TENMAP_OK) {
            text_add(&out->problem, error.message, strlen(error.message));
            return;
        }
        model = out->model;
    }
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (is_dequantized(t)) {
            scheme_share *share = share_of_scheme(out, tenmap_scheme_of(t));
            share->weights++;
            share->params += t->nelems;
            share->bytes += stored_bytes(t);
            out->weights++;
        }
        if (!is_activation_scale(model, t))
            out->params += t->nelems;
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, more_params_first);
}

void schemes_free(schemes *s) {
    free(s->items);
    text_free(&s->problem);
    tenmap_close(s->model);
    *s = (schemes){0};
}

static void add_scheme(text *t, const scheme_share *s) {
    text_addf(t, "%s", s->name);
    if (s->group_rows > 1 && s->group_columns > 1)
        text_addf(t, " (%ux%u)", s->group_rows, s->group_columns);
    else if (s->group_columns > 1)
        text_addf(t, " (groups of %u)", s->group_columns);
    if (s->params)
        text_addf(t, ", %.2f bits a value", 8 * (double)s->bytes / (double)s->params);
}

void text_add_schemes(text *t, const schemes *s) {
    for (size_t i = 0; i < s->count; i++) {
        text_addf(t, i ? "; " : "");
        text_add_grouped(t, s->items[i].weights);
        text_addf(t, i ? " in " : s->items[i].weights == 1 ? " weight in " : " weights in ");
        add_scheme(t, &s->items[i]);
    }
}

static void schemes_json(const schemes *s) {
    json_key("schemes");
    json_open('[', false);
    for (size_t i = 0; i < s->count; i++) {
        const scheme_share *share = &s->items[i];
        json_open('{', true);
        json_key_text("scheme", share->name, TENMAP_CSTR);
        json_key_uint("bits", share->bits);
        json_key_uint("group_rows", share->group_rows);
        json_key_uint("group_columns", share->group_columns);
        json_key_uint("weights", share->weights);
        json_key_uint("params", share->params);
        json_key_uint("bytes", share->bytes);
        if (share->params)
            json_key_real("bits_per_weight", 8 * (double)share->bytes / (double)share->params);
        json_close();
    }
    json_close();
}

void quantization_json(const quantization *q) {
    if (!q->weights && !(q->gguf && (q->gguf->has_file_type || q->gguf->bits_per_weight > 0)))
        return;
    json_key("quantization");
    json_open('{', false);
    json_key_uint("weights", q->weights + (q->gguf ? q->gguf->block_tensors : 0));
    if (q->gguf && q->gguf->has_file_type) {
        if (q->gguf->file_type_name)
            json_key_text("file_type", q->gguf->file_type_name, TENMAP_CSTR);
        json_key_uint("file_type_number", q->gguf->file_type);
    }
    if (q->gguf && q->gguf->bits_per_weight > 0)
        json_key_real("bits_per_weight", q->gguf->bits_per_weight);
    if (q->known && q->known->count)
        schemes_json(q->known);
    else if (q->by_names)
        json_key_text("names_suggest", q->by_names, TENMAP_CSTR);
    json_close();
}
