/* Compares the values of the tensors that two models share. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare_values.h"
#include "view/measure_progress.h"
#include "report.h"

static bool same_shape(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

/* Finds the pairs of equal shape and their tensors' indices in the report. */
static pair *find_pairs(report *r, size_t *places, size_t *count) {
    pair *pairs = need(r->count, sizeof *pairs);
    *count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const tenmap_tensor *a = r->tensors[i], *b = NULL;
        report_change *change = &r->changes[i];
        *change = (report_change){REPORT_REMOVED, NULL, NAN, NAN, NAN, 0, 0};
        if (a->model != r->model)
            continue;
        b = tenmap_find_n(r->base, a->name, a->name_len);
        bool same_form = b && same_shape(a, b) && a->dtype == b->dtype;
        change->state = !b ? REPORT_ADDED : same_form ? REPORT_SAME : REPORT_RESHAPED;
        change->other = same_form ? NULL : b;
        if (!b || !same_shape(a, b))
            continue;
        places[*count] = i;
        pairs[(*count)++] = (pair){.a = a, .b = b};
    }
    return pairs;
}

/* Whether there is something to measure. */
static bool wants_norm(const pair *p) {
    return p->comparable && p->found.different && report_measurable(p->a) &&
           report_measurable(p->b);
}

/*
 * Measures the norm of the other side for pairs that differ, since it puts the difference into
 * proportion. The norms of all others are NaN.
 */
static int measure_norms(const pair *pairs, size_t count, unsigned threads, double *norms) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    selection wanted = {need(count, sizeof *wanted.tensors), 0, 0, 0};
    tenmap_stats *stats = need(count, sizeof *stats);
    options.threads = threads;
    for (size_t i = 0; i < count; i++)
        if (wants_norm(&pairs[i])) {
            wanted.tensors[wanted.count++] = pairs[i].b;
            wanted.bytes += pairs[i].b->nbytes;
        }
    int status = measure_selection(&wanted, &options, stats);
    for (size_t i = 0, k = 0; i < count && !status; i++)
        norms[i] = wants_norm(&pairs[i]) ? stats[k++].norm : (double)NAN;
    selection_free(&wanted);
    free(stats);
    return status;
}

/* If the other norm is 0, any change counts as a relative change of 1. */
static void fill_change(report_change *change, const pair *p, double norm) {
    const difference *d = &p->found;
    double apart = sqrt(d->sum_squares);
    if (d->different && change->state == REPORT_SAME)
        change->state = p->comparable ? REPORT_CHANGED : REPORT_UNREAD;
    if (!p->comparable && d->different)
        return;
    change->relative = apart > 0 ? apart / (norm > 0 || isnan(norm) ? norm : apart) : 0;
    change->largest = d->max_abs;
    change->share = d->count ? (double)d->different / (double)d->count : 0;
    change->unlike = d->unlike;
    change->gained = d->unlike_a;
}

int report_compare(report *r, unsigned threads) {
    size_t *places = need(r->count, sizeof *places), count;
    pair *pairs = find_pairs(r, places, &count);
    double *norms = need(count, sizeof *norms);
    int status = compare_pairs(pairs, count, (tolerance){0, 0}, threads);
    if (!status)
        status = measure_norms(pairs, count, threads, norms);
    for (size_t i = 0; i < count && !status; i++)
        fill_change(&r->changes[places[i]], &pairs[i], norms[i]);
    tenmap_advise(r->model, NULL, TENMAP_ADVISE_RELEASE, NULL);
    tenmap_advise(r->base, NULL, TENMAP_ADVISE_RELEASE, NULL);
    free(norms);
    free(pairs);
    free(places);
    return status;
}
