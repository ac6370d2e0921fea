/* Compares the values of tensor pairs on several threads. */
#include "compare/compare_values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/dequantized_weights.h"
#include "remote/remote.h"
#include "view/progress.h"
#include "parallel_for.h"

/* Elements per unit of work for a thread, and elements compared together. */
enum { PART = 1 << 20, BLOCK = 4096 };

typedef struct part {
    size_t pair;
    uint64_t first, count; /* elements */
    difference found;
} part;

typedef struct comparison {
    pair *pairs;
    part *parts;
    size_t part_count;
    tolerance within;
} comparison;

static void add_difference(difference *all, const difference *more) {
    all->count += more->count;
    all->different += more->different;
    all->beyond += more->beyond;
    all->unlike += more->unlike;
    all->unlike_a += more->unlike_a;
    all->max_abs = fmax(all->max_abs, more->max_abs);
    all->max_rel = fmax(all->max_rel, more->max_rel);
    all->sum_abs += more->sum_abs;
    all->sum_rel += more->sum_rel;
    all->sum_squares += more->sum_squares;
    all->squares_a += more->squares_a;
    all->squares_b += more->squares_b;
}

static uint64_t elements_of(const pair *p) {
    return p->is_part ? p->count : p->a->nelems;
}

/* For progress: the approximate bytes of this many elements of A. */
static uint64_t bytes_of(const pair *p, uint64_t elements) {
    return elements == p->a->nelems
               ? p->a->nbytes
               : (uint64_t)((double)elements / (double)p->a->nelems * (double)p->a->nbytes);
}

static void add_squares(difference *d, const double *a, const double *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        d->squares_a += isfinite(a[i]) ? a[i] * a[i] : 0;
        d->squares_b += isfinite(b[i]) ? b[i] * b[i] : 0;
    }
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Called if not both are finite. Equal infinities, or NaN on both sides, are no difference. */
static void compare_specials(difference *d, double a, double b) {
    if (a == b || (isnan(a) && isnan(b)))
        return;
    d->different++;
    d->unlike++;
    d->unlike_a += isfinite(a) ? 0 : 1;
    d->beyond++;
}

/*
 * Has no branch on whether two values are equal: in models of few bits about half may be, at
 * random. Equal values add zeros. Sums are added in order, so that they do not depend on which
 * thread does the work.
 */
static void compare_values(difference *d, const double *a, const double *b, size_t count,
                           tolerance within) {
    difference sum = *d;
    for (size_t i = 0; i < count; i++) {
        double of_a = fabs(a[i]), of_b = fabs(b[i]);
        if (!(of_a <= DBL_MAX && of_b <= DBL_MAX)) {
            compare_specials(&sum, a[i], b[i]);
            continue;
        }
        double apart = fabs(a[i] - b[i]), most = larger(of_a, of_b);
        double relative = apart / (most > 0 ? most : 1);
        sum.different += apart > 0;
        sum.beyond += apart > within.atol + within.rtol * of_a;
        sum.max_abs = larger(apart, sum.max_abs);
        sum.max_rel = larger(relative, sum.max_rel);
        sum.sum_abs += apart;
        sum.sum_rel += relative;
        sum.sum_squares += apart * apart;
    }
    *d = sum;
}

/* Reads as F64, to which all dtypes except C64 convert; the parts of a C64 are floats. */
static tenmap_status read_block(const tenmap_tensor *t, uint64_t first, size_t count, double *out,
                                tenmap_error *error) {
    float parts[2 * BLOCK];
    if (t->dtype != TENMAP_C64)
        return tenmap_read(t, first, count, TENMAP_F64, out, count * sizeof *out, 0, error);
    tenmap_status status = tenmap_read(t, first, count, TENMAP_C64, parts, sizeof parts, 0, error);
    for (size_t i = 0; status == TENMAP_OK && i < 2 * count; i++)
        out[i] = (double)parts[i];
    return status;
}

/* Reads real numbers from `first` on, taking each head's rows alternately from its two halves. */
static tenmap_status read_permuted(const tenmap_tensor *t, uint64_t head_rows, uint64_t first,
                                   size_t count, double *out, tenmap_error *error) {
    uint64_t columns = t->shape[0] ? t->nelems / t->shape[0] : 1;
    tenmap_status status = TENMAP_OK;
    while (count > 0 && status == TENMAP_OK) {
        uint64_t row = first / columns, skip = first % columns, in_head = row % head_rows;
        uint64_t from = row - in_head + in_head / 2 + in_head % 2 * (head_rows / 2);
        size_t step = columns - skip < count ? (size_t)(columns - skip) : count;
        status = tenmap_read(t, from * columns + skip, step, TENMAP_F64, out, step * sizeof *out, 0,
                             error);
        out += step;
        first += step;
        count -= step;
    }
    return status;
}

static tenmap_status read_side(const pair *p, bool b, uint64_t first, size_t count, double *out,
                               tenmap_error *error) {
    const tenmap_tensor *t = b ? p->b : p->a;
    if (p->head_rows && p->permuted_b == b)
        return read_permuted(t, p->head_rows, first, count, out, error);
    return read_block(t, (b ? p->first_b : p->first_a) + first, count, out, error);
}

/*
 * Whether elements [first, first+count) have the same bytes. Both sides have the same dtype, and
 * `first` is at a block boundary.
 */
static tenmap_status same_bytes(const pair *p, uint64_t first, size_t count, bool *same,
                                tenmap_error *error) {
    unsigned char a[BLOCK * 8], b[BLOCK * 8];
    uint64_t at, size;
    *same = false;
    if (!tenmap_dtype_bytes(p->a->dtype, first, &at) ||
        !tenmap_dtype_bytes(p->a->dtype, count, &size))
        return TENMAP_OK;
    if (p->a->data && p->b->data) {
        *same =
            memcmp((const char *)p->a->data + at, (const char *)p->b->data + at, (size_t)size) == 0;
        return TENMAP_OK;
    }
    tenmap_status status = tenmap_read_bytes(p->a, at, (size_t)size, a, error);
    if (status != TENMAP_OK)
        return status;
    status = tenmap_read_bytes(p->b, at, (size_t)size, b, error);
    *same = status == TENMAP_OK && memcmp(a, b, (size_t)size) == 0;
    return status;
}

static tenmap_status compare_block(const comparison *all, part *work, uint64_t first, size_t count,
                                   tenmap_error *error) {
    const pair *p = &all->pairs[work->pair];
    double a[2 * BLOCK], b[2 * BLOCK];
    size_t values = p->a->dtype == TENMAP_C64 ? 2 * count : count;
    bool same = false;
    tenmap_status status = TENMAP_OK;
    work->found.count += values;
    bool computed = has_no_bytes(p->a) || has_no_bytes(p->b);
    if (!computed && p->a->dtype == p->b->dtype && !p->is_part && !p->head_rows)
        status = same_bytes(p, first, count, &same, error);
    if (status != TENMAP_OK || same)
        return status;
    status = read_side(p, false, first, count, a, error);
    if (status == TENMAP_OK)
        status = read_side(p, true, first, count, b, error);
    if (status == TENMAP_OK && p->is_part)
        add_squares(&work->found, a, b, values);
    if (status == TENMAP_OK)
        compare_values(&work->found, a, b, values, all->within);
    return status;
}

/*
 * Compares bytes alone: for tensors of an unknown dtype, or pairs whose dtypes have no common
 * values.
 */
static tenmap_status compare_opaque(const pair *p, difference *found, tenmap_error *error) {
    unsigned char a[BLOCK], b[BLOCK];
    uint64_t size = p->a->nbytes;
    found->count = p->a->nelems;
    if (size != p->b->nbytes)
        found->different = found->beyond = found->count;
    for (uint64_t at = 0; !found->different && at < size; at += BLOCK) {
        size_t step = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        tenmap_status status = tenmap_read_bytes(p->a, at, step, a, error);
        if (status == TENMAP_OK)
            status = tenmap_read_bytes(p->b, at, step, b, error);
        if (status != TENMAP_OK)
            return status;
        if (memcmp(a, b, step) != 0)
            found->different = found->beyond = found->count;
    }
    return TENMAP_OK;
}

static int compare_part(void *ctx, size_t i) {
    comparison *all = ctx;
    part *work = &all->parts[i];
    pair *p = &all->pairs[work->pair];
    tenmap_error error;
    tenmap_status status = TENMAP_OK;
    if (interrupted())
        return fail(EXIT_INTERRUPTED, "interrupted");
    if (!p->comparable)
        status = compare_opaque(p, &work->found, &error);
    for (uint64_t at = 0; p->comparable && status == TENMAP_OK && at < work->count; at += BLOCK) {
        uint64_t left = work->count - at;
        status =
            compare_block(all, work, work->first + at, left < BLOCK ? (size_t)left : BLOCK, &error);
    }
    progress_add(bytes_of(p, work->count));
    return status == TENMAP_OK ? EXIT_FINE : fail_error(&error);
}

static bool has_numbers_in_common(const tenmap_tensor *a, const tenmap_tensor *b) {
    if (a->dtype == TENMAP_OPAQUE || b->dtype == TENMAP_OPAQUE)
        return false;
    return (a->dtype == TENMAP_C64) == (b->dtype == TENMAP_C64);
}

static void announce_pairs(const pair *pairs, size_t count) {
    const tenmap_tensor **tensors = need(2 * count, sizeof *tensors);
    for (size_t i = 0; i < count; i++) {
        tensors[2 * i] = pairs[i].a;
        tensors[2 * i + 1] = pairs[i].b;
    }
    remote_will_read(tensors, 2 * count);
    free(tensors);
}

int compare_pairs(pair *pairs, size_t count, tolerance within, unsigned threads) {
    comparison all = {.pairs = pairs, .within = within};
    uint64_t total = 0;
    size_t most = count;
    for (size_t i = 0; i < count; i++) {
        pairs[i].comparable = has_numbers_in_common(pairs[i].a, pairs[i].b);
        most += pairs[i].comparable ? (size_t)(elements_of(&pairs[i]) / PART) : 0;
    }
    all.parts = need(most, sizeof *all.parts);
    for (size_t i = 0; i < count; i++) {
        uint64_t elements = elements_of(&pairs[i]), first = 0;
        total += bytes_of(&pairs[i], elements);
        while (first < elements) {
            uint64_t step =
                pairs[i].comparable && elements - first > PART ? PART : elements - first;
            all.parts[all.part_count++] = (part){.pair = i, .first = first, .count = step};
            first += step;
        }
    }
    announce_pairs(pairs, count);
    progress_begin("comparing", total);
    int status = parallel_for(threads, all.part_count, compare_part, &all);
    progress_end();
    for (size_t i = 0; !status && i < all.part_count; i++)
        add_difference(&pairs[all.parts[i].pair].found, &all.parts[i].found);
    free(all.parts);
    return status;
}
