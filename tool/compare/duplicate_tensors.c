/*
 * Finds tensors with the same bytes inside one model, by hashes first and then by comparing bytes.
 */
#include "compare/duplicate_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "tensor_patterns.h"

enum { SAMPLE = 64, SAMPLES = 4, SIGNIFICANT_BYTES = 256 };

/* FNV-1a. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t len) {
    const unsigned char *b = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ b[i]) * 0x100000001b3;
    return hash;
}

uint64_t duplicate_key(const tenmap_tensor *t) {
    uint64_t hash = mix(0xcbf29ce484222325, &t->dtype, sizeof t->dtype);
    hash = mix(hash, &t->nbytes, sizeof t->nbytes);
    return t->rank ? mix(hash, t->shape, t->rank * sizeof *t->shape) : hash;
}

/* The period, in bytes, of a constant tensor. */
static size_t element_width(const tenmap_tensor *t) {
    uint64_t bytes = 1;
    (void)tenmap_dtype_bytes(t->dtype, 1, &bytes);
    return (size_t)bytes;
}

uint64_t duplicate_sample(const tenmap_tensor *t, bool *significant) {
    unsigned char bytes[SAMPLES * SAMPLE];
    size_t used = 0, size = t->nbytes < SAMPLE ? (size_t)t->nbytes : SAMPLE;
    if (significant)
        *significant = false;
    for (uint64_t i = 0; i < SAMPLES; i++, used += size)
        if (tenmap_read_bytes(t, (t->nbytes - size) / (SAMPLES - 1) * i, size, bytes + used,
                              NULL) != TENMAP_OK)
            return 0;
    size_t width = element_width(t);
    if (significant)
        *significant =
            t->nbytes >= SIGNIFICANT_BYTES && memcmp(bytes, bytes + width, used - width) != 0;
    return mix(1, bytes, used);
}

/* Inside one model. */

typedef struct duplicate_candidate {
    const tenmap_tensor *tensor;
    uint64_t kind, sample;
} duplicate_candidate;

static int by_signs(const void *a, const void *b) {
    const duplicate_candidate *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->sample != y->sample)
        return x->sample < y->sample ? -1 : 1;
    return 0;
}

/*
 * Like memcmp, but in pieces, so that SIGINT takes effect within a tensor. After an interruption
 * the result is not used.
 */
static int compare_long(const char *a, const char *b, uint64_t size) {
    const uint64_t piece = 64 << 20;
    int order = 0;
    for (uint64_t at = 0; at < size && !order && !interrupted(); at += piece)
        order = memcmp(a + at, b + at, (size_t)(size - at < piece ? size - at : piece));
    return order;
}

/*
 * Compares dtypes and shapes too, since hashes may be made to collide. Tensors that differ usually
 * do so early; at worst each is read as often as sorting compares it.
 */
static int compare_bytes(const duplicate_candidate *x, const duplicate_candidate *y) {
    const tenmap_tensor *a = x->tensor, *b = y->tensor;
    if (a->dtype != b->dtype)
        return a->dtype < b->dtype ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int order = a->rank ? memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) : 0;
    if (!order && a->nbytes != b->nbytes)
        order = a->nbytes < b->nbytes ? -1 : 1;
    return order ? order : compare_long(a->data, b->data, a->nbytes);
}

static int by_bytes(const void *a, const void *b) {
    const duplicate_candidate *x = a, *y = b;
    int order = by_signs(x, y);
    if (!order && !interrupted())
        order = compare_bytes(x, y);
    if (order)
        return order;
    return natural_compare(x->tensor->name, x->tensor->name_len, y->tensor->name,
                           y->tensor->name_len);
}

/* Keeps the tensors whose hashes equal those of another one. */
static size_t keep_candidates(duplicate_candidate *list, size_t count) {
    size_t kept = 0;
    if (count)
        qsort(list, count, sizeof *list, by_signs);
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1; end < count && by_signs(&list[at], &list[end]) == 0;)
            end++;
        for (size_t i = at; end - at > 1 && i < end; i++)
            list[kept++] = list[i];
    }
    return kept;
}

static bool is_constant(const tenmap_tensor *t) {
    const char *bytes = t->data;
    size_t width = element_width(t), size = (size_t)t->nbytes;
    return size <= width || compare_long(bytes, bytes + width, size - width) == 0;
}

static uint64_t saved_by(const duplicate_group *g) {
    return (g->count - 1) * g->tensors[0]->nbytes;
}

static int larger_group(const void *a, const void *b) {
    const duplicate_group *x = a, *y = b;
    if (saved_by(x) != saved_by(y))
        return saved_by(x) > saved_by(y) ? -1 : 1;
    return natural_compare(x->tensors[0]->name, x->tensors[0]->name_len, y->tensors[0]->name,
                           y->tensors[0]->name_len);
}

static void group_equal(const duplicate_candidate *list, size_t count, duplicates *out) {
    size_t used = 0;
    out->tensors = need(count, sizeof *out->tensors);
    out->groups = need(count, sizeof *out->groups);
    for (size_t at = 0, end; at < count && !interrupted(); at = end) {
        for (end = at + 1; end < count && by_signs(&list[at], &list[end]) == 0 &&
                           compare_bytes(&list[at], &list[end]) == 0;)
            end++;
        if (end - at < 2)
            continue;
        if (is_constant(list[at].tensor)) {
            out->constant_tensors += end - at;
            continue;
        }
        duplicate_group g = {out->tensors + used, end - at};
        for (size_t i = at; i < end; i++)
            out->tensors[used++] = list[i].tensor;
        out->bytes += saved_by(&g);
        out->groups[out->count++] = g;
    }
    if (out->count)
        qsort(out->groups, out->count, sizeof *out->groups, larger_group);
}

int find_duplicates(const tenmap_model *model, duplicates *out) {
    size_t count = 0;
    duplicate_candidate *list = need(tenmap_count(model), sizeof *list);
    *out = (duplicates){0};
    catch_interrupts();
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (t->nbytes && t->data)
            list[count++] = (duplicate_candidate){t, duplicate_key(t), 0};
    }
    count = keep_candidates(list, count);
    for (size_t i = 0; i < count && !interrupted(); i++)
        list[i].sample = duplicate_sample(list[i].tensor, NULL);
    count = keep_candidates(list, count);
    if (count && !interrupted())
        qsort(list, count, sizeof *list, by_bytes);
    if (!interrupted())
        group_equal(list, count, out);
    free(list);
    return interrupted() ? fail(EXIT_INTERRUPTED, "interrupted") : EXIT_FINE;
}

void duplicates_free(duplicates *d) {
    free(d->tensors);
    free(d->groups);
    *d = (duplicates){0};
}
