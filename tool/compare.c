#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "progress.h"
#include "work.h"

/* Elements that a thread takes at once, and those that it looks at together. */
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
    all->max_abs = fmax(all->max_abs, more->max_abs);
    all->max_rel = fmax(all->max_rel, more->max_rel);
    all->sum_abs += more->sum_abs;
    all->sum_rel += more->sum_rel;
    all->sum_squares += more->sum_squares;
}

static void compare_values(difference *d, const double *a, const double *b, size_t count,
                           tolerance within) {
    for (size_t i = 0; i < count; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
            continue;
        d->different++;
        if (!isfinite(a[i]) || !isfinite(b[i])) {
            d->unlike++;
            d->beyond++;
            continue;
        }
        double apart = fabs(a[i] - b[i]);
        double relative = apart / fmax(fabs(a[i]), fabs(b[i]));
        d->beyond += apart > within.atol + within.rtol * fabs(a[i]);
        d->max_abs = fmax(d->max_abs, apart);
        d->max_rel = fmax(d->max_rel, relative);
        d->sum_abs += apart;
        d->sum_rel += relative;
        d->sum_squares += apart * apart;
    }
}

/* As F64, which all dtypes but C64 convert to; the parts of that one are floats. */
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

/* Whether elements [first, first+count) are the same bytes; both of one dtype. */
static tenmap_status same_bytes(const pair *p, uint64_t first, size_t count, bool *same,
                                tenmap_error *error) {
    unsigned char a[BLOCK * 8], b[BLOCK * 8];
    uint32_t bits = tenmap_dtype_bits(p->a->dtype);
    uint64_t at = first / 8 * bits;
    size_t size = (size_t)(count / 8 * bits + (count % 8 * bits + 7) / 8);
    if (p->a->data && p->b->data) {
        *same = memcmp((const char *)p->a->data + at, (const char *)p->b->data + at, size) == 0;
        return TENMAP_OK;
    }
    tenmap_status status = tenmap_read_bytes(p->a, at, size, a, error);
    if (status != TENMAP_OK)
        return status;
    status = tenmap_read_bytes(p->b, at, size, b, error);
    *same = status == TENMAP_OK && memcmp(a, b, size) == 0;
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
    bool computed = (p->a->flags | p->b->flags) & TENMAP_TENSOR_COMPUTED; /* have no bytes */
    if (!computed && p->a->dtype == p->b->dtype &&
        tenmap_dtype_bits(p->a->dtype)) /* blocks: by their values */
        status = same_bytes(p, first, count, &same, error);
    if (status != TENMAP_OK || same)
        return status;
    status = read_block(p->a, first, count, a, error);
    if (status == TENMAP_OK)
        status = read_block(p->b, first, count, b, error);
    if (status == TENMAP_OK)
        compare_values(&work->found, a, b, values, all->within);
    return status;
}

/* Tensors of a dtype that is unknown, or of a pair that has no numbers in common: bytes alone. */
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
    progress_add(work->count * p->a->nbytes / (p->a->nelems ? p->a->nelems : 1));
    return status == TENMAP_OK ? EXIT_FINE : fail_error(&error);
}

static bool has_numbers_in_common(const tenmap_tensor *a, const tenmap_tensor *b) {
    if (a->dtype == TENMAP_OPAQUE || b->dtype == TENMAP_OPAQUE)
        return false;
    return (a->dtype == TENMAP_C64) == (b->dtype == TENMAP_C64);
}

int compare_pairs(pair *pairs, size_t count, tolerance within, unsigned threads) {
    comparison all = {.pairs = pairs, .within = within};
    uint64_t total = 0;
    size_t most = count;
    for (size_t i = 0; i < count; i++) {
        pairs[i].comparable = has_numbers_in_common(pairs[i].a, pairs[i].b);
        most += pairs[i].comparable ? (size_t)(pairs[i].a->nelems / PART) : 0;
    }
    all.parts = need(most, sizeof *all.parts);
    for (size_t i = 0; i < count; i++) {
        uint64_t elements = pairs[i].a->nelems, first = 0;
        total += pairs[i].a->nbytes;
        while (first < elements) {
            uint64_t step =
                pairs[i].comparable && elements - first > PART ? PART : elements - first;
            all.parts[all.part_count++] = (part){.pair = i, .first = first, .count = step};
            first += step;
        }
    }
    progress_begin("comparing", total);
    int status = work_run(threads, all.part_count, compare_part, &all);
    progress_end();
    for (size_t i = 0; !status && i < all.part_count; i++)
        add_difference(&pairs[all.parts[i].pair].found, &all.parts[i].found);
    free(all.parts);
    return status;
}
