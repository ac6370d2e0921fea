/* Looks for dead rows and columns in the tensors that have histograms. */
#include <stdlib.h>

#include "model/value_survey.h"
#include "remote/remote.h"
#include "report.h"
#include "tensor_patterns.h"
#include "view/progress.h"

/* Tensors surveyed in one call. */
typedef struct line_batch {
    const tenmap_tensor *tensors[REPORT_BATCH];
    size_t places[REPORT_BATCH]; /* indices in the report */
    value_survey surveys[REPORT_BATCH];
    size_t count;
    uint64_t bytes;
} line_batch;

static report_dead dead_of(const line_survey *lines) {
    return (report_dead){lines->zero, lines->constant, lines->count, lines->first_dead};
}

static int survey_batch(report *r, line_batch *b, unsigned threads) {
    survey_options options = {.threads = threads, .only_dead = true, .in_bar = true};
    selection chosen = {b->tensors, b->count, b->bytes, 0};
    int status = survey_selection(&chosen, NULL, &options, b->surveys);
    for (size_t i = 0; i < b->count && !status; i++) {
        r->dead_rows[b->places[i]] = dead_of(&b->surveys[i].rows);
        r->dead_columns[b->places[i]] = dead_of(&b->surveys[i].columns);
    }
    for (size_t i = 0; i < b->count; i++)
        tenmap_advise(b->tensors[i]->model, b->tensors[i], TENMAP_ADVISE_RELEASE, NULL);
    b->count = 0;
    b->bytes = 0;
    return status;
}

/*
 * Of integers, which are codes or positions, rows of one value are common; and of a tensor that
 * holds one value only, the report says so.
 */
static bool may_be_dead(const report *r, size_t i) {
    const report_stats *s = &r->stats[i];
    return r->bins[i] && tenmap_dtype_kind(r->tensors[i]->dtype) == TENMAP_KIND_FLOAT &&
           (s->min < s->max || s->nan || s->inf);
}

int report_find_dead(report *r, unsigned threads) {
    size_t own = tenmap_count(r->model);
    uint64_t total = 0;
    int status = 0;
    if (!r->bins || is_address(tenmap_path(r->model)))
        return 0;
    line_batch *b = need(1, sizeof *b);
    r->dead_rows = need(r->count, sizeof *r->dead_rows);
    r->dead_columns = need(r->count, sizeof *r->dead_columns);
    for (size_t i = 0; i < own; i++)
        total += may_be_dead(r, i) ? r->tensors[i]->nbytes : 0;
    progress_begin("looking for dead rows", total);
    for (size_t i = 0; i < own && !status; i++) {
        if (!may_be_dead(r, i))
            continue;
        b->tensors[b->count] = r->tensors[i];
        b->places[b->count++] = i;
        b->bytes += r->tensors[i]->nbytes;
        if (b->count == REPORT_BATCH || b->bytes >= REPORT_BATCH_BYTES)
            status = survey_batch(r, b, threads);
    }
    if (!status && b->count)
        status = survey_batch(r, b, threads);
    progress_end();
    free(b);
    return status;
}
