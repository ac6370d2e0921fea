/* Measures relative change and cosine similarity between two models, per tensor and per kind. */
#include "compare/relative_change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "view/measure_progress.h"
#include "model/module_numbers.h"

/*
 * False if one side has a NaN or an infinity that the other lacks: then no norm describes the
 * distance.
 */
static bool has_norms(const pair *p) {
    return p->comparable && p->found.different && !p->found.unlike;
}

const tenmap_tensor *pair_tensor(const pair *p) {
    return p->is_part && p->b->nelems == p->count ? p->b : p->a;
}

static void kind_name(const pair *p, text *out) {
    const tenmap_tensor *t = pair_tensor(p);
    number_span at = {0};
    size_t done = 0;
    while (number_find(t->name, t->name_len, at.end, &at)) {
        text_add(out, t->name + done, at.begin - done);
        text_add(out, "*", 1);
        done = at.end;
    }
    text_add(out, t->name + done, t->name_len - done);
}

static void dtypes_name(const pair *p, text *out) {
    const char *a = tenmap_dtype_text(p->a), *b = tenmap_dtype_text(p->b);
    text_add(out, a, strlen(a));
    text_addf(out, " -> ");
    text_add(out, b, strlen(b));
}

typedef struct kind_member {
    char *kind;
    size_t pair;
} kind_member;

static int by_kind(const void *a, const void *b) {
    return strcmp(((const kind_member *)a)->kind, ((const kind_member *)b)->kind);
}

/*
 * Marks the unchanged pairs whose kind contains a changed one: their norm is part of the kind's
 * norm.
 */
static void mark_siblings(const pair *pairs, size_t count, void (*name_of)(const pair *, text *),
                          bool *marked) {
    kind_member *list = need(count, sizeof *list);
    text name = {0};
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (pairs[i].comparable) {
            text_clear(&name);
            name_of(&pairs[i], &name);
            list[used++] = (kind_member){need_copy(name.bytes ? name.bytes : "", name.len), i};
        }
    qsort(list, used, sizeof *list, by_kind);
    for (size_t at = 0, end; at < used; at = end) {
        bool changed = false;
        for (end = at; end < used && by_kind(&list[at], &list[end]) == 0; end++)
            changed = changed || has_norms(&pairs[list[end].pair]);
        for (size_t i = at; i < end; i++)
            marked[list[i].pair] |= changed && !pairs[list[i].pair].found.different;
    }
    for (size_t i = 0; i < used; i++)
        free(list[i].kind);
    free(list);
    text_free(&name);
}

int measure_changes(pair *pairs, size_t count, bool across, unsigned threads) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    selection both = {need(2 * count, sizeof *both.tensors), 0, 0, 0};
    bool *sibling = need(count, sizeof *sibling);
    options.threads = threads;
    mark_siblings(pairs, count, kind_name, sibling);
    if (across)
        mark_siblings(pairs, count, dtypes_name, sibling);
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].is_part)
            continue; /* their norms come from the comparison */
        if (has_norms(&pairs[i]) || sibling[i])
            both.tensors[both.count++] = pairs[i].a;
        if (has_norms(&pairs[i]))
            both.tensors[both.count++] = pairs[i].b;
    }
    tenmap_stats *stats = need(both.count, sizeof *stats);
    int status = both.count ? measure_selection(&both, &options, stats) : 0;
    size_t next = 0;
    for (size_t i = 0; !status && i < count; i++) {
        pair *p = &pairs[i];
        if (p->is_part) {
            p->norm_a = sqrt(p->found.squares_a);
            p->norm_b = sqrt(p->found.squares_b);
            continue;
        }
        if (has_norms(p) || sibling[i])
            p->norm_a = stats[next++].norm;
        if (has_norms(p))
            p->norm_b = stats[next++].norm;
    }
    free(stats);
    free(sibling);
    selection_free(&both);
    return status;
}

static double ratio_of(double change, double norm) {
    return norm > 0 ? change / norm : change > 0 ? INFINITY : 0;
}

double relative_change(const pair *p) {
    return has_norms(p) ? ratio_of(sqrt(p->found.sum_squares), p->norm_a) : (double)NAN;
}

/* Uses both norms and that of the difference: a*b = (|a|^2 + |b|^2 - |a - b|^2) / 2. */
double cosine_of(const pair *p) {
    if (!has_norms(p) || !(p->norm_a > 0) || !(p->norm_b > 0))
        return (double)NAN;
    double apart = p->norm_a - p->norm_b;
    double cosine = 1 - (p->found.sum_squares - apart * apart) / (2 * p->norm_a * p->norm_b);
    return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}

/* Kinds. */

static int by_name(const void *a, const void *b) {
    return strcmp(((const change_kind *)a)->name, ((const change_kind *)b)->name);
}

double kind_change(const change_kind *kind) {
    return ratio_of(sqrt(kind->squares), sqrt(kind->norm));
}

static int by_change(const void *a, const void *b) {
    double x = kind_change(a), y = kind_change(b);
    return x != y ? (x < y) - (x > y) : by_name(a, b);
}

static void add_to(change_kind *to, const change_kind *from) {
    to->tensors += from->tensors;
    to->changed += from->changed;
    to->count += from->count;
    to->different += from->different;
    to->squares += from->squares;
    to->norm += from->norm;
    to->max_abs = fmax(to->max_abs, from->max_abs);
    free(from->name);
}

change_kind *change_kinds(const pair *pairs, size_t count, bool by_dtypes, size_t *kinds) {
    change_kind *list = need(count, sizeof *list);
    text name = {0};
    size_t used = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        const difference *d = &pairs[i].found;
        if (!pairs[i].comparable)
            continue;
        text_clear(&name);
        (by_dtypes ? dtypes_name : kind_name)(&pairs[i], &name);
        list[used++] = (change_kind){need_copy(name.bytes, name.len),
                                     1,
                                     d->different > 0,
                                     d->count,
                                     d->different,
                                     has_norms(&pairs[i]) ? d->sum_squares : 0,
                                     pairs[i].norm_a * pairs[i].norm_a,
                                     d->max_abs};
    }
    qsort(list, used, sizeof *list, by_name);
    for (size_t at = 0, end; at < used; at = end) {
        for (end = at + 1; end < used && by_name(&list[at], &list[end]) == 0; end++)
            add_to(&list[at], &list[end]);
        if (list[at].changed && (list[at].tensors > 1 || by_dtypes))
            list[kept++] = list[at];
        else
            free(list[at].name);
    }
    qsort(list, kept, sizeof *list, by_change);
    text_free(&name);
    *kinds = kept;
    return list;
}

void free_kinds(change_kind *kinds, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(kinds[i].name);
    free(kinds);
}
