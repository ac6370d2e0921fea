/* Summarizes a model from its headers: parameters, dtypes, layers, alignment. */
#include "model/model_summary.h"

#include <stdlib.h>
#include <string.h>

#include "model/dequantized_weights.h"
#include "model/checkpoint_branch.h"
#include "model/gguf_metadata.h"
#include "model/module_numbers.h"
#include "view/print.h"
#include "view/tree.h"

enum { MAX_DTYPES = 256 };

static dtype_share *share_of(summary *s, const char *name) {
    for (size_t i = 0; i < s->dtype_count; i++)
        if (strcmp(s->dtypes[i].name, name) == 0)
            return &s->dtypes[i];
    /* A lenient open may meet any number of dtypes; the last entry collects the rest. */
    if (s->dtype_count == MAX_DTYPES)
        return &s->dtypes[MAX_DTYPES - 1];
    s->dtypes[s->dtype_count] = (dtype_share){name, 0, 0, 0};
    return &s->dtypes[s->dtype_count++];
}

static int compare_shares(const void *a, const void *b) {
    const dtype_share *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool strange_name(const tenmap_tensor *t) {
    const unsigned char *s = (const unsigned char *)t->name;
    for (size_t i = 0, n; i < t->name_len; i += n) {
        uint32_t point = 0;
        n = s[i] < 0x80 ? 1 : decode_point(s + i, t->name_len - i, &point);
        if (!n || unsafe_point(s[i] < 0x80 ? s[i] : point))
            return true;
    }
    return t->name_len == 0;
}

static void count_tensors(summary *s) {
    dtype_share *share = NULL;
    s->dtypes = need(MAX_DTYPES, sizeof *s->dtypes);
    for (size_t i = 0; i < s->all.count; i++) {
        const tenmap_tensor *t = s->all.tensors[i];
        const char *name = tenmap_dtype_text(t);
        if (!share || strcmp(share->name, name) != 0)
            share = share_of(s, name);
        share->tensors++;
        share->params += t->nelems;
        share->bytes += t->nbytes;
        s->misaligned += !has_no_bytes(t) && !(t->flags & TENMAP_TENSOR_ALIGNED);
        s->empty += t->nelems == 0;
        s->strange += strange_name(t);
    }
    qsort(s->dtypes, s->dtype_count, sizeof *s->dtypes, compare_shares);
}

/* Counts the parts of a quantized weight as one weight. Only its codes count as parameters. */
static void count_params(summary *s) {
    s->params = s->all.elements;
    for (size_t i = 0; i < s->all.count; i++) {
        tenmap_quantized w;
        if (is_dequantized(s->all.tensors[i])) {
            s->quantized++;
            continue;
        }
        if (!tenmap_quantized_of(s->all.tensors[i], &w))
            continue;
        s->quantized++;
        s->scheme = s->scheme ? s->scheme : w.family;
        s->params_least = s->params_least || (!w.values && w.parts[0]->nelems);
        s->params += w.values ? w.values : w.parts[0]->nelems;
        for (size_t k = 0; k < w.part_count; k++)
            s->params -= w.parts[k]->nelems;
    }
}

static void count_files(summary *s) {
    s->alignment = 4096;
    for (size_t i = 0; i < tenmap_shard_count(s->model); i++) {
        const tenmap_shard *shard = tenmap_shard_at(s->model, i);
        uint64_t alignment = alignment_of(shard->data_offset);
        s->header_bytes += shard->header_bytes;
        s->alignment = alignment < s->alignment ? alignment : s->alignment;
        s->unclaimed += shard->size - (shard->data_offset - shard->offset);
    }
    for (size_t i = 0; i < s->all.count; i++)
        s->unclaimed -= stored_bytes(s->all.tensors[i]);
    /* GGUF requires padding. In checkpoints headers lie between tensors, which may share bytes. */
    if (is_gguf(s->model) || is_checkpoint(s->model))
        s->unclaimed = 0;
}

/*
 * Finds the first number in the name that counts modules. A number after the last dot counts
 * tensors, and a number at the start has no prefix to identify its stack.
 */
static bool layer_number(const tenmap_tensor *t, number_span *out) {
    for (out->end = 0; number_find(t->name, t->name_len, out->end, out);)
        if (out->begin && (out->end < t->name_len || t->name[out->begin - 1] != '.'))
            return true;
    return false;
}

static void keep_layers(summary *s, const layers *l) {
    if (l->count > 1 && s->layers_count < MAX_LAYERS)
        s->found[s->layers_count++] = *l;
}

/* Expects the tensors in tree order, with names split at numbers. */
static void find_layers(summary *s) {
    layers now = {NULL, 0, 0};
    uint64_t number = 0;
    for (size_t i = 0; i < s->all.count; i++) {
        const tenmap_tensor *t = s->all.tensors[i];
        number_span at;
        bool numbered = layer_number(t, &at);
        bool same = numbered && now.prefix && at.begin - 1 == now.len &&
                    memcmp(t->name, now.prefix, now.len) == 0;
        if (!same) {
            keep_layers(s, &now);
            now = (layers){numbered ? t->name : NULL, numbered ? at.begin - 1 : 0, 0};
        }
        if (!numbered)
            continue;
        now.count += !same || at.value != number;
        number = at.value;
    }
    keep_layers(s, &now);
}

static int larger_first(const void *a, const void *b) {
    const tenmap_tensor *x = *(const tenmap_tensor *const *)a;
    const tenmap_tensor *y = *(const tenmap_tensor *const *)b;
    if (x->nbytes != y->nbytes)
        return x->nbytes > y->nbytes ? -1 : 1;
    return natural_compare(x->name, x->name_len, y->name, y->name_len);
}

int summarize(const tenmap_model *model, summary *out) {
    filter everything = {0};
    *out = (summary){.model = model};
    int status = select_tensors(model, &everything, &out->all);
    if (status)
        return status;
    count_tensors(out);
    count_params(out);
    count_files(out);
    tree_sort(&out->all, true);
    find_layers(out);
    qsort(out->all.tensors, out->all.count, sizeof *out->all.tensors, larger_first);
    return EXIT_FINE;
}

void summary_free(summary *s) {
    free(s->dtypes);
    selection_free(&s->all);
}
