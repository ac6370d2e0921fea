/* Finds the tensors that are blended with each other, by their names and the numbers in them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "blend/blend.h"
#include "model/dequantized_weights.h"
#include "model/module_numbers.h"
#include "remote/remote.h"
#include "view/print.h"

/* Layer stacking repeats tensors: a bound on all of the output's. */
enum { MOST_TENSORS = 1 << 22, MOST_FAULTS = 5 };

/* A tensor whose name has a number: model.layers.3.mlp.weight. */
typedef struct layer_tensor {
    const tenmap_tensor *tensor;
    number_span number; /* what is before it is the name of the stack */
    size_t at;          /* in the model */
} layer_tensor;

/* The layers that have one name up to their number. */
typedef struct layer_stack {
    const char *prefix;
    size_t len;
    size_t first, end; /* in `items` */
    uint64_t count;    /* different numbers */
} layer_stack;

typedef struct model_layers {
    layer_tensor *items; /* by stack, number and place in the model */
    size_t count;
    layer_stack *stacks; /* by name */
    size_t stack_count;
} model_layers;

typedef struct tensor_finder {
    blend_job *job;
    model_layers *layers; /* one per model */
    const char *prefix;   /* of the stack whose layers are taken by number; NULL: whole models */
    size_t prefix_len;
    text faults;
    size_t fault_count;
} tensor_finder;

/* Stacks of layers. */

static int compare_prefixes(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t shorter = a_len < b_len ? a_len : b_len;
    int order = shorter ? memcmp(a, b, shorter) : 0;
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_layer(const void *a, const void *b) {
    const layer_tensor *x = a, *y = b;
    int order =
        compare_prefixes(x->tensor->name, x->number.begin, y->tensor->name, y->number.begin);
    if (order)
        return order;
    if (x->number.value != y->number.value)
        return x->number.value < y->number.value ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static bool same_stack(const layer_tensor *x, const layer_tensor *y) {
    return compare_prefixes(x->tensor->name, x->number.begin, y->tensor->name, y->number.begin) ==
           0;
}

static void list_stacks(model_layers *l) {
    for (size_t i = 0; i < l->count; i++) {
        const layer_tensor *t = &l->items[i];
        if (i == 0 || !same_stack(t, &l->items[i - 1])) {
            l->stacks = need_next(l->stacks, l->stack_count, sizeof *l->stacks);
            l->stacks[l->stack_count++] = (layer_stack){t->tensor->name, t->number.begin, i, i, 0};
        }
        layer_stack *s = &l->stacks[l->stack_count - 1];
        s->count += s->first == i || t->number.value != l->items[i - 1].number.value;
        s->end = i + 1;
    }
}

static void find_layers(const tenmap_model *model, model_layers *out) {
    out->items = need(tenmap_count(model), sizeof *out->items);
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        number_span at;
        if (number_find(t->name, t->name_len, 0, &at))
            out->items[out->count++] = (layer_tensor){t, at, i};
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_layer);
    list_stacks(out);
}

static const layer_stack *find_stack(const model_layers *l, const char *prefix, size_t len) {
    size_t first = 0, end = l->stack_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const layer_stack *s = &l->stacks[middle];
        int order = compare_prefixes(s->prefix, s->len, prefix, len);
        if (order == 0)
            return s;
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

/* The tensors of one layer: [*first, *end) of the items. */
static void find_layer(const model_layers *l, const layer_stack *s, uint64_t layer, size_t *first,
                       size_t *end) {
    size_t low = s ? s->first : 0, high = s ? s->end : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->items[middle].number.value < layer)
            low = middle + 1;
        else
            high = middle;
    }
    *first = *end = low;
    while (s && *end < s->end && l->items[*end].number.value == layer)
        ++*end;
}

/* The stack whose layers slices take: the one with most layers. */
static int choose_stack(tensor_finder *f) {
    const blend_recipe *r = f->job->recipe;
    const model_layers *l = &f->layers[0];
    const layer_stack *best = NULL, *other = NULL;
    for (size_t i = 0; i < l->stack_count; i++) {
        const layer_stack *s = &l->stacks[i];
        if (!best || s->count > best->count) {
            best = s;
            other = NULL;
        } else if (s->count == best->count) {
            other = s;
        }
    }
    if (!best)
        return recipe_fail(r, 0, "'%s' has no numbered layers that slices could take",
                           shown_path(r->models[0]));
    if (other)
        return recipe_fail(r, 0,
                           "'%s' has two stacks of %" PRIu64
                           " layers, %s and %s, so it is not known which one slices take",
                           shown_path(r->models[0]), best->count,
                           shown_name(best->prefix, best->len),
                           shown_name(other->prefix, other->len));
    f->prefix = best->prefix;
    f->prefix_len = best->len;
    f->job->layers_before = best->count;
    return EXIT_FINE;
}

/* What does not match. */

static text *add_fault(tensor_finder *f) {
    if (f->fault_count++ >= MOST_FAULTS)
        return NULL;
    text_addf(&f->faults, f->fault_count > 1 ? "; " : "");
    return &f->faults;
}

static const char *path_of(const tensor_finder *f, const blend_source *s) {
    return shown_path(f->job->recipe->models[s->model]);
}

static void add_missing(tensor_finder *f, const blend_source *s, const char *name, size_t len) {
    text *t = add_fault(f);
    if (t)
        text_addf(t, "'%s' has no %s", path_of(f, s), shown_name(name, len));
}

static bool same_shape(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->rank == b->rank &&
           (!a->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static void add_difference(tensor_finder *f, const blend_tensor *b, size_t i, bool shape) {
    const tenmap_tensor *x = b->terms[0], *y = b->terms[i];
    text *t = add_fault(f);
    if (!t)
        return;
    text_addf(t, "%s is ", shown_name(x->name, x->name_len));
    if (shape)
        text_add_shape(t, x);
    else
        text_addf(t, "%s", stored_as(x));
    text_addf(t, " in '%s' but ", path_of(f, &b->slice->sources[0]));
    if (shape)
        text_add_shape(t, y);
    else
        text_addf(t, "%s", stored_as(y));
    text_addf(t, " in '%s'", path_of(f, &b->slice->sources[i]));
}

static int fail_faults(tensor_finder *f) {
    if (f->fault_count > MOST_FAULTS)
        text_addf(&f->faults, "; and %zu more", f->fault_count - MOST_FAULTS);
    return fail(EXIT_FAILED, "the models do not match: %s", f->faults.bytes);
}

/* Tensors of the output. */

static const model_layers *layers_of(const tensor_finder *f, const blend_source *s) {
    return &f->layers[s->model];
}

static const tenmap_model *model_of(const tensor_finder *f, const blend_source *s) {
    return f->job->p->models[s->model];
}

/* The name with another number of the layer. */
static void set_number(text *out, const char *name, size_t len, const number_span *at,
                       uint64_t number) {
    text_clear(out);
    text_add(out, name, at->begin);
    text_addf(out, "%" PRIu64, number);
    text_add(out, name + at->end, len - at->end);
}

/* Whether values are computed; all terms have dtypes of one kind if they match. */
static bool is_float(const tenmap_tensor *t) {
    return tenmap_dtype_kind(t->dtype) == TENMAP_KIND_FLOAT;
}

static void check_terms(tensor_finder *f, blend_tensor *b) {
    const tenmap_tensor *x = b->terms[0];
    for (size_t i = 1; i < b->slice->count; i++) {
        const tenmap_tensor *y = b->terms[i];
        if (!same_shape(x, y))
            add_difference(f, b, i, true);
        else if (is_float(x) != is_float(y) || (!is_float(x) && x->dtype != y->dtype))
            add_difference(f, b, i, false);
    }
    b->moved = !is_float(x);
}

static size_t reference_of(const tensor_finder *f, const blend_slice *s) {
    size_t base = slice_base(f->job->recipe, s);
    for (size_t i = 0; i < s->count; i++)
        if (s->sources[i].model == base)
            return i;
    return 0;
}

/* What a group of tensors has in common: a slice, and of its layers the one with this number. */
typedef struct tensor_group {
    const blend_slice *slice;
    size_t reference; /* the source whose tensors are listed */
    uint64_t step;    /* the layer, counted in the slice */
    uint64_t number;  /* of the layer in the output */
    bool layer;       /* the name's number is that of a layer that the recipe takes */
    double t;
} tensor_group;

/* Adds the tensor that all sources have under the name of `t`, one of the reference's. */
static void add_tensor(tensor_finder *f, const tensor_group *g, const tenmap_tensor *t,
                       const number_span *at) {
    const blend_slice *s = g->slice;
    blend_tensor b = {.slice = s, .t = g->t, .base = NO_MODEL};
    text name = {0};
    bool whole = true;
    size_t base = slice_base(f->job->recipe, s);
    b.terms = need(s->count, sizeof *b.terms);
    for (size_t i = 0; i < s->count; i++) {
        const blend_source *from = &s->sources[i];
        if (g->layer)
            set_number(&name, t->name, t->name_len, at, from->begin + g->step);
        b.terms[i] = i == g->reference ? t
                     : g->layer        ? tenmap_find_n(model_of(f, from), name.bytes, name.len)
                                       : tenmap_find_n(model_of(f, from), t->name, t->name_len);
        b.base = from->model == base ? i : b.base;
        if (!b.terms[i])
            add_missing(f, from, g->layer ? name.bytes : t->name,
                        g->layer ? name.len : t->name_len);
        whole = whole && b.terms[i];
    }
    if (g->layer)
        set_number(&name, t->name, t->name_len, at, g->number);
    b.name_len = g->layer ? name.len : t->name_len;
    b.name = need_copy(g->layer ? name.bytes : t->name, b.name_len);
    text_free(&name);
    if (whole)
        check_terms(f, &b);
    blend_job *job = f->job;
    job->tensors = need_next(job->tensors, job->count, sizeof *job->tensors);
    job->tensors[job->count++] = b;
}

/* Whether a plain model has the tensor at all. */
static bool is_wanted(const tenmap_tensor *t) {
    return !is_activation_scale(t->model, t);
}

/* Finds the tensors of a source that the reference lacks. */
static void check_extra(tensor_finder *f, const tensor_group *g, const blend_source *from,
                        const tenmap_tensor *t, const number_span *at) {
    const blend_source *reference = &g->slice->sources[g->reference];
    text name = {0};
    if (from == reference)
        return;
    if (g->layer)
        set_number(&name, t->name, t->name_len, at, reference->begin + g->step);
    else
        text_add(&name, t->name, t->name_len);
    if (!tenmap_find_n(model_of(f, reference), name.bytes ? name.bytes : "", name.len))
        add_missing(f, reference, name.bytes, name.len);
    text_free(&name);
}

static int too_many(const tensor_finder *f) {
    return f->job->count > MOST_TENSORS
               ? recipe_fail(f->job->recipe, 0, "the output would have more than %d tensors",
                             (int)MOST_TENSORS)
               : EXIT_FINE;
}

/* Whole models. */

static double place_of(const tensor_finder *f, const blend_source *s, const tenmap_tensor *t) {
    number_span at;
    if (!number_find(t->name, t->name_len, 0, &at))
        return 0;
    const layer_stack *stack = find_stack(layers_of(f, s), t->name, at.begin);
    if (!stack || stack->count < 2)
        return 1;
    double place = (double)at.value / (double)(stack->count - 1);
    return place < 1 ? place : 1;
}

static int find_whole(tensor_finder *f) {
    const blend_slice *s = &f->job->recipe->slices[0];
    tensor_group g = {.slice = s, .reference = reference_of(f, s)};
    const blend_source *reference = &s->sources[g.reference];
    for (size_t m = 0; m < s->count; m++) {
        const tenmap_model *model = model_of(f, &s->sources[m]);
        for (size_t i = 0; i < tenmap_count(model); i++) {
            const tenmap_tensor *t = tenmap_at(model, i);
            if (!is_wanted(t))
                continue;
            if (m == g.reference) {
                g.t = place_of(f, reference, t);
                add_tensor(f, &g, t, NULL);
            } else {
                check_extra(f, &g, &s->sources[m], t, NULL);
            }
        }
    }
    return too_many(f);
}

/* By layers. */

static bool is_of_layer(const tensor_finder *f, const tenmap_tensor *t) {
    number_span at;
    return number_find(t->name, t->name_len, 0, &at) &&
           compare_prefixes(t->name, at.begin, f->prefix, f->prefix_len) == 0;
}

static bool has_part(const tenmap_tensor *t, const char *part) {
    size_t len = strlen(part);
    for (size_t i = 0; t->name_len >= len && i <= t->name_len - len; i++)
        if (memcmp(t->name + i, part, len) == 0)
            return true;
    return false;
}

/* Whether a tensor outside of the layers comes before them: embeddings do. */
static bool comes_before(const tenmap_tensor *t) {
    static const char *const parts[] = {"embed", "embd", "wte", "wpe", NULL};
    static const char *const heads[] = {"embed_out", "unembed", NULL};
    bool before = false, head = false;
    for (size_t i = 0; parts[i]; i++)
        before = before || has_part(t, parts[i]);
    for (size_t i = 0; heads[i]; i++)
        head = head || has_part(t, heads[i]);
    return before && !head;
}

/* Adds what lies before the layers or after them, from the models of a slice. */
static void find_outside(tensor_finder *f, const blend_slice *s, bool before) {
    tensor_group g = {.slice = s, .reference = reference_of(f, s)};
    for (size_t m = 0; m < s->count; m++) {
        const tenmap_model *model = model_of(f, &s->sources[m]);
        for (size_t i = 0; i < tenmap_count(model); i++) {
            const tenmap_tensor *t = tenmap_at(model, i);
            if (!is_wanted(t) || is_of_layer(f, t) || comes_before(t) != before)
                continue;
            if (m == g.reference)
                add_tensor(f, &g, t, NULL);
            else
                check_extra(f, &g, &s->sources[m], t, NULL);
        }
    }
}

static int find_one_layer(tensor_finder *f, const tensor_group *g) {
    const blend_slice *s = g->slice;
    size_t before = f->job->count;
    for (size_t m = 0; m < s->count; m++) {
        const blend_source *from = &s->sources[m];
        const model_layers *l = layers_of(f, from);
        size_t first, end;
        find_layer(l, find_stack(l, f->prefix, f->prefix_len), from->begin + g->step, &first, &end);
        if (first == end)
            return recipe_fail(f->job->recipe, from->line, "'%s' has no layer %" PRIu64 " in %s",
                               path_of(f, from), from->begin + g->step,
                               shown_name(f->prefix, f->prefix_len));
        for (size_t i = first; i < end; i++) {
            const layer_tensor *t = &l->items[i];
            if (!is_wanted(t->tensor))
                continue;
            if (m == g->reference)
                add_tensor(f, g, t->tensor, &t->number);
            else
                check_extra(f, g, from, t->tensor, &t->number);
        }
    }
    return f->job->count == before ? EXIT_FINE : too_many(f);
}

static int find_slice(tensor_finder *f, const blend_slice *s) {
    blend_job *job = f->job;
    tensor_group g = {.slice = s, .reference = reference_of(f, s), .layer = true};
    uint64_t layers = s->sources[0].end - s->sources[0].begin;
    int status = EXIT_FINE;
    for (; !status && g.step < layers; g.step++) {
        g.t = layers > 1 ? (double)g.step / (double)(layers - 1) : 1;
        g.number = job->layers_after;
        status = find_one_layer(f, &g);
        size_t at = (size_t)job->layers_after++;
        job->layer_from = need_next(job->layer_from, at, sizeof *job->layer_from);
        job->layer_from[at] = (size_t)(s->sources[g.reference].begin + g.step);
    }
    return status;
}

static int find_by_layers(tensor_finder *f) {
    const blend_recipe *r = f->job->recipe;
    int status = choose_stack(f);
    if (status)
        return status;
    find_outside(f, &r->slices[0], true);
    for (size_t i = 0; !status && i < r->slice_count; i++)
        status = find_slice(f, &r->slices[i]);
    if (!status)
        find_outside(f, &r->slices[r->slice_count - 1], false);
    return status;
}

int blend_find_tensors(blend_job *job) {
    tensor_finder f = {.job = job};
    f.layers = need(job->p->model_count, sizeof *f.layers);
    for (size_t m = 0; m < job->p->model_count; m++)
        find_layers(job->p->models[m], &f.layers[m]);
    int status = job->recipe->by_layers ? find_by_layers(&f) : find_whole(&f);
    if (!status && f.fault_count)
        status = fail_faults(&f);
    if (!status && !job->count)
        status = fail(EXIT_FAILED, "'%s' has no tensors", shown_path(job->recipe->models[0]));
    for (size_t m = 0; m < job->p->model_count; m++) {
        free(f.layers[m].items);
        free(f.layers[m].stacks);
    }
    free(f.layers);
    text_free(&f.faults);
    return status;
}

void blend_free(blend_job *job) {
    for (size_t i = 0; i < job->count; i++) {
        free(job->tensors[i].name);
        free(job->tensors[i].terms);
        free(job->tensors[i].weights);
        free(job->tensors[i].rule);
    }
    free(job->tensors);
    free(job->layer_from);
    *job = (blend_job){0};
}
