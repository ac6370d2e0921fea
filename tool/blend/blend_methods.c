/*
 * The methods as derived tensors. What is a sum of tensors with factors is one (SUM, in F64); ties
 * and dare, which choose among elements, are functions of them (CALL, in F32).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blend/blend.h"
#include "command.h"

/* Ties and dare. */

float trimmed(const delta_trim *trim, float delta, uint64_t index) {
    uint32_t bits;
    switch (trim->kind) {
    case TRIM_NONE:
        return delta;
    case TRIM_ALL:
        return 0;
    case TRIM_RANDOM:
        return random_number(trim->key, index) < trim->below ? delta : 0;
    case TRIM_MAGNITUDE:
        break;
    }
    memcpy(&bits, &delta, sizeof bits);
    bits &= 0x7fffffff;
    return bits > trim->least || (bits == trim->least && index <= trim->last) ? delta : 0;
}

/* The weighted differences of an element, and their sum. */
static float weigh(const delta_rule *rule, const float *const *terms, size_t i, uint64_t index,
                   float *weighted) {
    float sum = 0;
    for (size_t m = 0; m < rule->count; m++) {
        const delta_trim *trim = &rule->trims[m];
        float delta = terms[m + 1][i] - terms[0][i];
        float scaled = trimmed(trim, delta, index);
        if (trim->rescale)
            scaled = scaled * trim->scale;
        weighted[m] = scaled * trim->weight;
        sum = sum + weighted[m];
    }
    return sum;
}

/* The sum of those that have the sign of the sum of all, and of their weights. */
static float elect(const delta_rule *rule, const float *weighted, float sum, float *divisor) {
    bool positive = sum >= 0;
    float mixed = 0, weights = 0;
    for (size_t m = 0; m < rule->count; m++) {
        float x = weighted[m];
        if (positive ? x > 0 : x < 0) {
            mixed = mixed + x;
            weights = weights + rule->trims[m].weight;
        } else if (isnan(x)) {
            mixed = x;
        }
    }
    *divisor = weights == 0 ? 1 : weights;
    return mixed;
}

static float all_weights(const delta_rule *rule) {
    const float least = 1e-8f;
    float weights = 0;
    for (size_t m = 0; m < rule->count; m++)
        weights = weights + rule->trims[m].weight;
    return fabsf(weights) < least ? 1 : weights;
}

static tenmap_status blend_deltas(void *ctx, uint64_t matrix, uint64_t row, uint64_t column,
                                  size_t count, const float *const *terms, float *out,
                                  tenmap_error *error) {
    const delta_rule *rule = ctx;
    float weighted[MAX_BLENDED];
    uint64_t index = (matrix * rule->rows + row) * rule->columns + column;
    float divisor = rule->elect ? 1 : all_weights(rule);
    (void)error;
    for (size_t i = 0; i < count; i++) {
        float mixed = weigh(rule, terms, i, index + i, weighted);
        if (rule->elect)
            mixed = elect(rule, weighted, mixed, &divisor);
        if (rule->normalize)
            mixed = mixed / divisor;
        if (rule->lambda != 1)
            mixed = mixed * rule->lambda;
        out[i] = terms[0][i] + mixed;
    }
    return TENMAP_OK;
}

/* Sums. */

typedef struct derived_maker {
    blend_job *job;
    tenmap_dtype to;
    tenmap_derived *items;
    tenmap_term *terms; /* of all items, one after the other */
    size_t term_count;
} derived_maker;

static void add_term(derived_maker *m, tenmap_derived *d, const tenmap_tensor *tensor,
                     double factor) {
    m->terms[m->term_count++] = (tenmap_term){.tensor = tensor, .factor = factor};
    d->n++;
}

/* A tensor with the factor 0 is not read, so infinities and NaN in it count as 0 too. */
static int add_factor(derived_maker *m, tenmap_derived *d, const tenmap_tensor *tensor,
                      double factor) {
    if (!isfinite(factor))
        return fail(EXIT_FAILED, "the weights of %s give a factor that is not finite",
                    shown_name(d->name, strlen(d->name)));
    if (factor != 0)
        add_term(m, d, tensor, factor);
    return EXIT_FINE;
}

static tenmap_status write_zeros(void *ctx, uint64_t matrix, uint64_t row, uint64_t column,
                                 size_t count, const float *const *terms, float *out,
                                 tenmap_error *error) {
    (void)ctx;
    (void)matrix;
    (void)row;
    (void)column;
    (void)terms;
    (void)error;
    memset(out, 0, count * sizeof *out);
    return TENMAP_OK;
}

/* A sum needs a term: without one, it is zeros of the shape of `like`. */
static void end_sum(derived_maker *m, tenmap_derived *d, const tenmap_tensor *like) {
    if (d->n)
        return;
    d->op = TENMAP_DERIVE_CALL;
    d->call = write_zeros;
    add_term(m, d, like, 0);
}

static int make_linear(derived_maker *m, const blend_tensor *b, tenmap_derived *d) {
    double sum = 0;
    int status = EXIT_FINE;
    for (size_t i = 0; i < b->slice->count; i++)
        sum += b->weights[i];
    if (b->normalize && sum == 0)
        return fail(EXIT_FAILED,
                    "the weights of %s add up to 0, so they cannot be normalized: normalize: false "
                    "in a recipe and --normalize no leave them as they are",
                    shown_name(b->name, b->name_len));
    for (size_t i = 0; !status && i < b->slice->count; i++)
        status = add_factor(m, d, b->terms[i], b->normalize ? b->weights[i] / sum : b->weights[i]);
    return status;
}

/* base + lambda * sum of weight * (model - base), as one sum of all tensors. */
static int make_task(derived_maker *m, const blend_tensor *b, tenmap_derived *d) {
    const double least = 1e-8;
    double sum = 0, of_base = 1;
    int status = EXIT_FINE;
    for (size_t i = 0; i < b->slice->count; i++)
        sum += i == b->base ? 0 : b->weights[i];
    double share = b->normalize && fabs(sum) >= least ? b->share / sum : b->share;
    for (size_t i = 0; i < b->slice->count; i++)
        of_base -= i == b->base ? 0 : share * b->weights[i];
    status = add_factor(m, d, b->terms[b->base], of_base);
    for (size_t i = 0; !status && i < b->slice->count; i++)
        if (i != b->base)
            status = add_factor(m, d, b->terms[i], share * b->weights[i]);
    return status;
}

/* Along the great circle, or along the line between vectors that are nearly parallel. */
static int make_slerp(derived_maker *m, const blend_tensor *b, tenmap_derived *d) {
    const double parallel = 0.9995, least = 1e-8;
    double norm = (b->norms[0] > least ? b->norms[0] : 1) * (b->norms[1] > least ? b->norms[1] : 1);
    double cosine = fmin(fmax(b->dot / norm, -1), 1), t = b->share;
    double factors[2] = {1 - t, t};
    if (fabs(cosine) <= parallel) {
        double angle = acos(cosine), sine = sin(angle);
        factors[0] = sin((1 - t) * angle) / sine;
        factors[1] = sin(t * angle) / sine;
    }
    int status = add_factor(m, d, b->terms[b->base], factors[0]);
    return status ? status : add_factor(m, d, b->terms[1 - b->base], factors[1]);
}

static int make_deltas(derived_maker *m, const blend_tensor *b, tenmap_derived *d) {
    if (d->dtype == TENMAP_F64)
        return fail(EXIT_FAILED, "%s would be F64, but %s computes in F32: add --to f32",
                    shown_name(b->name, b->name_len), blend_method_names[m->job->recipe->method]);
    d->op = TENMAP_DERIVE_CALL;
    d->call = blend_deltas;
    d->ctx = b->rule;
    add_term(m, d, b->terms[b->base], 0);
    for (size_t i = 0; i < b->slice->count; i++)
        if (i != b->base)
            add_term(m, d, b->terms[i], 0);
    return EXIT_FINE;
}

/* The dtype that is asked for, else that of the base or the first model if numbers have one. */
static tenmap_dtype choose_dtype(const derived_maker *m, const blend_tensor *b) {
    tenmap_dtype dtype = b->terms[b->base == NO_MODEL ? 0 : b->base]->dtype;
    if (m->to != TENMAP_AS_STORED)
        return m->to;
    bool plain =
        dtype == TENMAP_F64 || dtype == TENMAP_F32 || dtype == TENMAP_F16 || dtype == TENMAP_BF16;
    return plain ? dtype : TENMAP_F32;
}

static int make_derived(derived_maker *m, const blend_tensor *b, tenmap_derived *d) {
    *d = (tenmap_derived){.name = b->name, .terms = m->terms + m->term_count};
    int status = EXIT_FINE;
    if (b->moved) {
        d->op = TENMAP_DERIVE_RENAME;
        add_term(m, d, b->terms[b->base == NO_MODEL ? 0 : b->base], 0);
        return EXIT_FINE;
    }
    d->op = TENMAP_DERIVE_SUM;
    d->dtype = choose_dtype(m, b);
    switch (m->job->recipe->method) {
    case BLEND_LINEAR:
        status = make_linear(m, b, d);
        break;
    case BLEND_SLERP:
        status = make_slerp(m, b, d);
        break;
    case BLEND_TASK_ARITHMETIC:
        status = make_task(m, b, d);
        break;
    case BLEND_PASSTHROUGH:
        status = add_factor(m, d, b->terms[0], b->share);
        break;
    default:
        return make_deltas(m, b, d);
    }
    if (!status)
        end_sum(m, d, b->terms[0]);
    return status;
}

/* Names with NUL inside cannot be those of derived tensors. */
static int check_name(const blend_tensor *b) {
    if (memchr(b->name, '\0', b->name_len))
        return fail(EXIT_FAILED, "the name %s has a NUL inside; rename it first",
                    shown_name(b->name, b->name_len));
    return EXIT_FINE;
}

int blend_derive(blend_job *job, tenmap_dtype to) {
    derived_maker m = {.job = job, .to = to};
    size_t terms = 0;
    int status = EXIT_FINE;
    for (size_t i = 0; i < job->count; i++)
        terms += job->tensors[i].slice->count;
    m.items = need(job->count, sizeof *m.items);
    m.terms = need(terms, sizeof *m.terms);
    for (size_t i = 0; !status && i < job->count; i++) {
        status = check_name(&job->tensors[i]);
        if (!status)
            status = make_derived(&m, &job->tensors[i], &m.items[i]);
    }
    if (!status)
        status = plan_derive(job->p, m.items, job->count);
    /* What is only moved may be of a dtype that cannot be written, or of another than asked for. */
    for (size_t i = 0; !status && i < job->count; i++) {
        const tenmap_tensor *t = job->p->sources[i].tensor;
        bool number = tenmap_dtype_kind(t->dtype) == TENMAP_KIND_FLOAT;
        if (number && to != TENMAP_AS_STORED && to != t->dtype)
            job->p->sources[i].dtype = to;
    }
    free(m.items);
    free(m.terms);
    return status;
}
