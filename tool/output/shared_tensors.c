/* Finds tensors that a PyTorch file names several times, and reports what an output leaves out. */
#include "output/shared_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint_branch.h"
#include "view/json_out.h"
#include "view/print.h"

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len) {
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : compare_numbers(a_len, b_len);
}

/* 0 if both read the same elements of a file. Strides of axes with one index do not matter. */
static int compare_views(const tenmap_tensor *a, const tenmap_tensor *b) {
    const uint64_t *x = tenmap_strides(a), *y = tenmap_strides(b);
    const uint64_t fields[][2] = {{a->shard, b->shard},
                                  {a->file_offset, b->file_offset},
                                  {a->dtype, b->dtype},
                                  {a->rank, b->rank},
                                  {x != NULL, y != NULL}};
    int order = 0;
    for (size_t i = 0; !order && i < sizeof fields / sizeof fields[0]; i++)
        order = compare_numbers(fields[i][0], fields[i][1]);
    for (uint32_t i = 0; !order && i < a->rank; i++)
        order = compare_numbers(a->shape[i], b->shape[i]);
    for (uint32_t i = 0; !order && x && i < a->rank; i++)
        order = a->shape[i] > 1 ? compare_numbers(x[i], y[i]) : 0;
    return order;
}

/* 0 if both sources would be written with the same bytes, because they read the same elements. */
static int compare_outputs(const tenmap_source *a, const tenmap_source *b) {
    int order = compare_views(a->tensor, b->tensor);
    order = order ? order : compare_numbers(a->dtype, b->dtype);
    return order ? order : compare_numbers(a->flags, b->flags);
}

typedef struct candidate {
    const tenmap_source *source;
    size_t at; /* in the plan */
} candidate;

static int by_output(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    const tenmap_tensor *s = x->source->tensor, *t = y->source->tensor;
    int order = compare_outputs(x->source, y->source);
    return order ? order : compare_bytes(s->name, s->name_len, t->name, t->name_len);
}

/* Only tensors of a PyTorch file, under their own names; empty ones have nothing to share. */
static bool may_share(const plan *p, size_t i) {
    const tenmap_source *s = &p->sources[i];
    const tenmap_tensor *t = s->tensor;
    return t->model == p->models[0] && !s->name && t->nelems &&
           strcmp(tenmap_shard_at(t->model, t->shard)->format, "pytorch") == 0 &&
           (!(t->flags & TENMAP_TENSOR_COMPUTED) || tenmap_strides(t));
}

static int by_key(const void *a, const void *b) {
    const named *x = a, *y = b;
    return compare_bytes(x->name, x->len, y->name, y->len);
}

/* The keys that the output's metadata may have, sorted: the model's, "format", those of --meta. */
static named *sorted_keys(const tenmap_model *model, const output_settings *out, size_t *count) {
    static const char format[] = "format";
    size_t of_model = tenmap_metadata_count(model);
    named *keys = need(of_model + 1 + out->meta.count, sizeof *keys);
    for (size_t i = 0; i < of_model; i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(model, i);
        keys[i] = (named){pair->key, pair->key_len, i};
    }
    keys[of_model] = (named){format, sizeof format - 1, of_model};
    *count = of_model + 1;
    for (size_t i = 0; i < out->meta.count; i++) {
        const char *given = out->meta.items[i];
        keys[(*count)++] = (named){given, strcspn(given, "="), i};
    }
    qsort(keys, *count, sizeof *keys, by_key);
    return keys;
}

static void leave_out(plan *p, const candidate *left, const candidate *kept) {
    p->shared = need_next(p->shared, p->shared_count, sizeof *p->shared);
    p->shared[p->shared_count++] = (plan_alias){left->source->tensor, kept->source->tensor};
}

/* Removes the sources that were left out. */
static void remove_marked(plan *p, const bool *left_out) {
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (left_out[i])
            continue;
        if (p->origins && plan_is_quantized(p, i))
            p->origins[kept] = p->origins[i];
        p->sources[kept++] = p->sources[i];
    }
    p->count = kept;
}

void plan_share(plan *p, const output_settings *out) {
    candidate *list = need(p->count, sizeof *list);
    bool *left_out = need(p->count, sizeof *left_out);
    size_t count = 0, key_count, first = 0;
    named *keys = sorted_keys(p->models[0], out, &key_count);
    for (size_t i = 0; i < p->count; i++)
        if (may_share(p, i))
            list[count++] = (candidate){&p->sources[i], i};
    if (count)
        qsort(list, count, sizeof *list, by_output);
    for (size_t i = 1; i < count; i++) {
        const tenmap_tensor *t = list[i].source->tensor;
        named name = {t->name, t->name_len, 0};
        if (compare_outputs(list[first].source, list[i].source) != 0)
            first = i;
        else if (!bsearch(&name, keys, key_count, sizeof *keys, by_key)) {
            leave_out(p, &list[i], &list[first]);
            left_out[list[i].at] = true;
        }
    }
    remove_marked(p, left_out);
    free(keys);
    free(left_out);
    free(list);
}

/* Reports. */

enum { MOST_SHOWN = 3 };

static void add_rest(text *t, size_t count) {
    if (count > MOST_SHOWN)
        text_addf(t, " and %zu more", count - MOST_SHOWN);
}

static checkpoint_branch branch_of_inputs(const plan *p) {
    checkpoint_branch sum = {NULL, 0};
    for (size_t m = 0; m < p->model_count; m++) {
        checkpoint_branch one = find_branch(p->models[m]);
        sum.name = sum.name ? sum.name : one.name;
        sum.others += one.others;
    }
    return sum;
}

void left_out_print(const plan *p) {
    checkpoint_branch branch = branch_of_inputs(p);
    text t = {0};
    if (p->shared_count)
        text_addf(&t, "%zu tensor%s written once, under another name: ", p->shared_count,
                  p->shared_count == 1 ? "" : "s");
    for (size_t i = 0; i < p->shared_count && i < MOST_SHOWN; i++) {
        const plan_alias *a = &p->shared[i];
        text_addf(&t, i ? ", " : "");
        text_add_safe(&t, a->left->name, a->left->name_len);
        text_addf(&t, " is ");
        text_add_safe(&t, a->kept->name, a->kept->name_len);
    }
    if (p->shared_count) {
        add_rest(&t, p->shared_count);
        puts(t.bytes);
    }
    text_clear(&t);
    if (p->left_pair_count)
        text_addf(&t, "metadata left out, since it would read as other names of tensors: ");
    for (size_t i = 0; i < p->left_pair_count && i < MOST_SHOWN; i++) {
        text_addf(&t, i ? ", " : "");
        text_add_safe(&t, p->left_pairs[i]->key, p->left_pairs[i]->key_len);
    }
    if (p->left_pair_count) {
        add_rest(&t, p->left_pair_count);
        puts(t.bytes);
    }
    text_clear(&t);
    text_add_other_branches(&t, &branch);
    if (t.len)
        puts(t.bytes);
    text_free(&t);
}

void left_out_json(const plan *p) {
    checkpoint_branch branch = branch_of_inputs(p);
    branch_json(&branch);
    if (p->shared_count) {
        json_key("shared");
        json_open('[', false);
        for (size_t i = 0; i < p->shared_count; i++) {
            json_open('{', true);
            json_key_text("name", p->shared[i].left->name, p->shared[i].left->name_len);
            json_key_text("kept", p->shared[i].kept->name, p->shared[i].kept->name_len);
            json_close();
        }
        json_close();
    }
    if (p->left_pair_count) {
        json_key("metadata_left_out");
        json_open('[', true);
        for (size_t i = 0; i < p->left_pair_count; i++)
            json_text(p->left_pairs[i]->key, p->left_pairs[i]->key_len);
        json_close();
    }
}
