/* Makes the merged model, one expression for each tensor of the base. */
#include "lora/lora_derive.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/dequantized_weights.h"

enum { MOST_TERMS = 129, MOST_SUMMED = 64 };

/* A tensor of the output as far as its steps are known. */
typedef struct expression {
    tenmap_derived d;          /* its `terms` are set when it is complete */
    tenmap_term *terms;        /* owned */
    const tenmap_tensor *base; /* before the adapters' steps */
    uint64_t matrix[2];
} expression;

/* Most tensors have one term, so each has only as many as it needs. */
static tenmap_term *next_term(expression *e) {
    e->terms = need_more(e->terms, e->d.n + 1, sizeof *e->terms);
    return &e->terms[e->d.n++];
}

static void begin_expression(expression *e, const tenmap_tensor *t, const lora_step *added) {
    e->d = (tenmap_derived){.name = added ? added->name : t->name, .op = TENMAP_DERIVE_RENAME};
    *next_term(e) = (tenmap_term){.tensor = t};
    e->base = t;
}

/* Makes a model of one tensor, which steps that follow can take. */
static int make_hidden(lora_merged *out, tenmap_derived d, const tenmap_term *terms,
                       const tenmap_tensor **made) {
    tenmap_error error;
    d.terms = terms;
    out->hidden = need_next(out->hidden, out->hidden_count, sizeof *out->hidden);
    if (tenmap_derive(&d, 1, NULL, &out->hidden[out->hidden_count], &error) != TENMAP_OK)
        return fail_error(&error);
    *made = tenmap_at(out->hidden[out->hidden_count++], 0);
    return EXIT_FINE;
}

/* Goes on with the tensor so far as the first term of an operation. */
static int continue_with(lora_merged *out, expression *e, uint32_t op) {
    const tenmap_tensor *made = e->terms[0].tensor;
    int status = EXIT_FINE;
    if (e->d.op != TENMAP_DERIVE_RENAME)
        status = make_hidden(out, e->d, e->terms, &made);
    e->terms[0] = (tenmap_term){.tensor = made, .factor = 1};
    e->d = (tenmap_derived){.name = e->d.name, .op = op, .n = 1};
    return status;
}

static int add_product(lora_merged *out, expression *e, const lora_step *s) {
    uint32_t flags = s->transposed ? TENMAP_TERM_TRANSPOSED : 0;
    if (e->d.op != TENMAP_DERIVE_LOW_RANK || e->d.n + 2 > MOST_TERMS) {
        int status = continue_with(out, e, TENMAP_DERIVE_LOW_RANK);
        if (status)
            return status;
    }
    *next_term(e) = (tenmap_term){.tensor = s->terms[0], .factor = s->factor, .flags = flags};
    *next_term(e) = (tenmap_term){.tensor = s->terms[1], .flags = flags};
    return EXIT_FINE;
}

static int add_sum(lora_merged *out, expression *e, const lora_step *s) {
    if (e->d.op != TENMAP_DERIVE_SUM || e->d.n == MOST_SUMMED) {
        int status = continue_with(out, e, TENMAP_DERIVE_SUM);
        if (status)
            return status;
    }
    *next_term(e) = (tenmap_term){.tensor = s->terms[0], .factor = s->factor};
    return EXIT_FINE;
}

static int new_dora(lora_merged *out, const expression *e, const lora_step *s, lora_dora **made) {
    lora_dora *d = need(1, sizeof *d);
    expression norm = {0};
    out->doras = need_next(out->doras, out->dora_count, sizeof *out->doras);
    out->doras[out->dora_count++] = *made = d;
    begin_expression(&norm, e->base, NULL);
    int status = add_product(out, &norm, s);
    if (!status)
        status = make_hidden(out, norm.d, norm.terms, &d->weight);
    free(norm.terms);
    if (status)
        return status;
    d->magnitude = s->magnitude;
    d->rows = d->weight->shape[0];
    d->columns = d->rows ? d->weight->nelems / d->rows : 0;
    d->by_column = s->transposed;
    d->outputs = d->by_column ? d->columns : d->rows;
    return EXIT_FINE;
}

/*
 * Functions get and give F32. For an output of F32 that would round twice, so the function gets
 * each value as two: rounded to F32, and what the rounding left out.
 */
static int split_value(lora_merged *out, expression *e, const tenmap_tensor *whole) {
    tenmap_term terms[2] = {{.tensor = whole, .shape = e->matrix, .rank = 2}};
    tenmap_derived d = {.name = e->d.name, .dtype = TENMAP_F32, .op = TENMAP_DERIVE_CALL, .n = 1};
    const tenmap_tensor *rounded = NULL, *rest = NULL;
    d.call = lora_copy_values;
    int status = make_hidden(out, d, terms, &rounded);
    if (status)
        return status;
    d.op = TENMAP_DERIVE_SUM;
    d.call = NULL;
    d.n = 2;
    terms[0].factor = 1;
    terms[1] = (tenmap_term){.tensor = rounded, .factor = -1};
    status = make_hidden(out, d, terms, &rest);
    e->d.n = 0;
    *next_term(e) = (tenmap_term){.tensor = rounded};
    *next_term(e) = (tenmap_term){.tensor = rest};
    return status;
}

static int scale_outputs(lora_merged *out, expression *e, lora_dora *dora, tenmap_dtype to) {
    const tenmap_tensor *whole;
    int status = make_hidden(out, e->d, e->terms, &whole);
    if (status)
        return status;
    if (whole->dtype == TENMAP_F64 && to == TENMAP_AS_STORED)
        return fail(EXIT_FAILED,
                    "%s is F64, and the magnitudes of a DoRA are applied in F32; --to f32 writes "
                    "the model in F32",
                    shown_name(whole->name, whole->name_len));
    tenmap_dtype dtype = whole->dtype == TENMAP_F64 ? TENMAP_F32 : whole->dtype;
    dora->exact = tenmap_dtype_bits(to ? to : dtype) >= 32;
    e->matrix[0] = dora->rows;
    e->matrix[1] = dora->columns;
    if (dora->exact) {
        status = split_value(out, e, whole);
    } else {
        e->d.n = 0;
        *next_term(e) = (tenmap_term){.tensor = whole, .shape = e->matrix, .rank = 2};
    }
    e->d = (tenmap_derived){.name = e->d.name,
                            .dtype = dtype,
                            .op = TENMAP_DERIVE_CALL,
                            .n = e->d.n,
                            .shape = whole->shape,
                            .rank = whole->rank,
                            .call = lora_scale_outputs,
                            .ctx = dora};
    return status;
}

static int add_dora(lora_merged *out, expression *e, const lora_step *s, tenmap_dtype to) {
    lora_dora *dora;
    int status = new_dora(out, e, s, &dora);
    if (!status)
        status = add_product(out, e, s);
    return status ? status : scale_outputs(out, e, dora, to);
}

static int add_step(lora_merged *out, expression *e, const lora_step *s, tenmap_dtype to) {
    switch (s->op) {
    case LORA_REPLACE:
        begin_expression(e, s->terms[0], s);
        return EXIT_FINE;
    case LORA_LOW_RANK:
        return add_product(out, e, s);
    case LORA_DORA:
        return add_dora(out, e, s, to);
    case LORA_SUM:
        return add_sum(out, e, s);
    case LORA_ADD:
        break;
    }
    return EXIT_FINE;
}

/* Steps by the tensor that they are for; those of one tensor stay in their order. */
static int compare_steps(const void *a, const void *b) {
    const lora_step *const *x = a, *const *y = b;
    if ((*x)->target != (*y)->target)
        return (*x)->target < (*y)->target ? -1 : 1;
    return (*x > *y) - (*x < *y);
}

static size_t first_step(const lora_step *const *sorted, size_t count, const tenmap_tensor *t) {
    size_t first = 0, end = count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (sorted[middle]->target < t)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* All tensors of the output. Their terms are kept until the model is made. */
typedef struct expressions {
    expression **items;
    tenmap_derived *tensors;
    tenmap_dtype *dtypes; /* of the base */
    size_t count;
} expressions;

static expression *next_expression(expressions *all, const tenmap_tensor *t,
                                   const lora_step *added) {
    all->items = need_next(all->items, all->count, sizeof *all->items);
    all->dtypes = need_next(all->dtypes, all->count, sizeof *all->dtypes);
    expression *e = need(1, sizeof *e);
    all->dtypes[all->count] = t->dtype;
    all->items[all->count++] = e;
    begin_expression(e, t, added);
    return e;
}

/* Tensors that the base lacks. If several adapters have one, the last counts. */
static void collect_added(const lora_mapping *m, expressions *all) {
    named *names = need(m->step_count, sizeof *names);
    bool *later = need(m->step_count, sizeof *later);
    size_t count = 0;
    for (size_t i = 0; i < m->step_count; i++)
        if (m->steps[i].op == LORA_ADD)
            names[count++] = (named){m->steps[i].name, m->steps[i].name_len, i};
    sort_named(names, count);
    for (size_t i = 1; i < count; i++)
        later[names[i - 1].at] = same_named(&names[i - 1], &names[i]);
    for (size_t i = 0; i < m->step_count; i++)
        if (m->steps[i].op == LORA_ADD && !later[i])
            next_expression(all, m->steps[i].target, &m->steps[i]);
    free(later);
    free(names);
}

static int collect(const lora_mapping *m, tenmap_dtype to, lora_merged *out, expressions *all) {
    const lora_step **sorted = need(m->step_count, sizeof *sorted);
    int status = EXIT_FINE;
    for (size_t i = 0; i < m->step_count; i++)
        sorted[i] = &m->steps[i];
    if (m->step_count)
        qsort(sorted, m->step_count, sizeof *sorted, compare_steps);
    for (size_t i = 0; !status && i < tenmap_count(m->base); i++) {
        const tenmap_tensor *t = tenmap_at(m->base, i);
        if (is_activation_scale(m->base, t))
            continue;
        expression *e = next_expression(all, t, NULL);
        size_t at = first_step(sorted, m->step_count, t);
        for (; !status && at < m->step_count && sorted[at]->target == t; at++)
            status = add_step(out, e, sorted[at], to);
    }
    if (!status)
        collect_added(m, all);
    free(sorted);
    return status;
}

static void free_expressions(expressions *all) {
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i]->terms);
        free(all->items[i]);
    }
    free(all->items);
    free(all->tensors);
    free(all->dtypes);
}

/* Integers stay as they are, whatever --to says. */
static void choose_dtypes(plan *p, const expressions *all, tenmap_dtype to) {
    for (size_t i = 0; i < all->count; i++) {
        tenmap_dtype wanted = to ? to : all->dtypes[i], now = p->sources[i].tensor->dtype;
        bool floats = tenmap_dtype_kind(now) == TENMAP_KIND_FLOAT &&
                      tenmap_dtype_kind(wanted) == TENMAP_KIND_FLOAT;
        bool written = tenmap_dtype_bits(wanted) >= 16 || to;
        if (floats && written && wanted != now)
            p->sources[i].dtype = wanted;
    }
}

static tenmap_derived completed(const expression *e) {
    tenmap_derived d = e->d;
    d.terms = e->terms;
    return d;
}

int lora_derive(const lora_mapping *m, tenmap_dtype to, plan *p, lora_merged *out) {
    expressions all = {0};
    *out = (lora_merged){0};
    int status = collect(m, to, out, &all);
    all.tensors = need(all.count, sizeof *all.tensors);
    for (size_t i = 0; i < all.count; i++)
        all.tensors[i] = completed(all.items[i]);
    if (!status)
        status = plan_derive(p, all.tensors, all.count);
    if (!status)
        choose_dtypes(p, &all, to);
    free_expressions(&all);
    return status;
}

void lora_merged_free(lora_merged *merged) {
    while (merged->hidden_count)
        tenmap_close(merged->hidden[--merged->hidden_count]);
    for (size_t i = 0; i < merged->dora_count; i++)
        lora_dora_free(merged->doras[i]);
    free(merged->hidden);
    free(merged->doras);
}
