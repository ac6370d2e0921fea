/* Surveys the values of tensors in pieces: percentiles, positions, dead lines, outliers. */
#include "model/value_survey.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "model/percentiles.h"
#include "parallel_for.h"
#include "view/progress.h"

enum { CHUNK = 1 << 20, MOST_COLUMNS = 1 << 20, MOST_THREADS = 8 };

const double survey_percentiles[SURVEY_PERCENTILES] = {0.1, 1, 5, 25, 50, 75, 95, 99, 99.9};

/* A row or a column while it is read: dead as long as all its values are the first one. */
typedef struct line_state {
    double first;
    uint64_t outliers;
    bool alive;
} line_state;

/* One pass over one tensor. */
typedef struct survey {
    const tenmap_tensor *tensor;
    bool only_dead;
    value_survey *out;
    double low, high; /* values outside are outliers */
    double min, max;
    uint64_t at;         /* the number of the next element */
    uint64_t row_length; /* 0: the tensor has no rows */
    line_state row, *columns;
    uint64_t dead_columns; /* columns that are not alive yet */
} survey;

/* Returns the length of a row, or 0 if there are no rows. */
static uint64_t split_axes(const tenmap_tensor *t, value_survey *out) {
    uint64_t rows = 1, columns = 1;
    uint32_t first_of_columns = t->rank > 3 ? 1 : t->rank - 1;
    if (t->rank < 2 || !t->nelems)
        return 0;
    for (uint32_t i = 0; i < t->rank; i++)
        *(i < first_of_columns ? &rows : &columns) *= t->shape[i];
    /* A line of one value would always be dead. */
    if (rows < 2 || columns < 2)
        return 0;
    out->rows = (line_survey){.count = rows, .length = columns, .first_dead = SURVEY_NONE};
    if (columns <= MOST_COLUMNS)
        out->columns = (line_survey){.count = columns, .length = rows, .first_dead = SURVEY_NONE};
    return columns;
}

/* Keeps the lines with the most outliers; of equal ones, the first. */
static void rank_line(line_survey *lines, uint64_t line, uint64_t outliers) {
    size_t at = lines->worst_count;
    if (!outliers || (at == SURVEY_WORST && lines->worst[at - 1].outliers >= outliers))
        return;
    at = at < SURVEY_WORST ? lines->worst_count++ : at - 1;
    for (; at > 0 && lines->worst[at - 1].outliers < outliers; at--)
        lines->worst[at] = lines->worst[at - 1];
    lines->worst[at] = (struct survey_line){line, outliers};
}

static void end_line(line_survey *lines, uint64_t line, const line_state *state) {
    rank_line(lines, line, state->outliers);
    if (state->alive)
        return;
    lines->zero += state->first == 0;
    lines->constant += state->first != 0;
    if (lines->first_dead == SURVEY_NONE)
        lines->first_dead = line;
}

/* Positions and outliers. `columns` is that of the first value, or NULL. */
static void take_positions(survey *s, const double *values, size_t count, line_state *columns) {
    value_survey *out = s->out;
    for (size_t i = 0; i < count; i++) {
        double x = values[i];
        if (!isfinite(x)) {
            uint64_t *first = isnan(x) ? &out->first_nan : &out->first_infinity;
            *first = *first == SURVEY_NONE ? s->at + i : *first;
            continue;
        }
        if (out->min_at == SURVEY_NONE || x < s->min) {
            s->min = x;
            out->min_at = s->at + i;
        }
        if (out->max_at == SURVEY_NONE || x > s->max) {
            s->max = x;
            out->max_at = s->at + i;
        }
        if (x < s->low || x > s->high) {
            out->outliers++;
            s->row.outliers++;
            if (columns)
                columns[i].outliers++;
        }
    }
}

/* A NaN or an infinity differs from everything, so that its line is alive. */
static bool differs(double x, double first) {
    return !(x == first) || !isfinite(x);
}

/* Values of one row, beginning at column `from`. Once a line is alive, nothing more is compared. */
static void take_row_part(survey *s, const double *values, size_t count, uint64_t from) {
    bool first_row = s->at < s->row_length;
    line_state *columns = s->columns ? s->columns + from : NULL;
    if (from == 0)
        s->row = (line_state){.first = values[0]};
    for (size_t i = 0; i < count && !s->row.alive; i++)
        s->row.alive = differs(values[i], s->row.first);
    for (size_t i = 0; columns && first_row && i < count; i++)
        columns[i].first = values[i];
    for (size_t i = 0; columns && s->dead_columns && i < count; i++)
        if (!columns[i].alive && differs(values[i], columns[i].first)) {
            columns[i].alive = true;
            s->dead_columns--;
        }
    if (!s->only_dead)
        take_positions(s, values, count, columns);
    s->at += count;
}

static void take_values(survey *s, const double *values, size_t count) {
    uint64_t length = s->row_length;
    if (!length) {
        take_row_part(s, values, count, 0);
        return;
    }
    for (size_t i = 0, part; i < count; i += part) {
        uint64_t from = s->at % length, left = length - from;
        part = left < count - i ? (size_t)left : count - i;
        take_row_part(s, values + i, part, from);
        if (s->at % length == 0)
            end_line(&s->out->rows, s->at / length - 1, &s->row);
    }
}

/* What one tensor needs while it is surveyed. */
typedef struct survey_job {
    survey pass;
    percentile_search *search; /* NULL: no percentiles */
    double *room;              /* for CHUNK values */
} survey_job;

/* Reads all values in pieces. The first pass surveys; the others only narrow percentiles. */
static tenmap_status read_once(survey_job *job, bool first, tenmap_error *error) {
    const tenmap_tensor *t = job->pass.tensor;
    for (uint64_t at = 0; at < t->nelems; at += CHUNK) {
        size_t count = t->nelems - at < CHUNK ? (size_t)(t->nelems - at) : CHUNK;
        if (interrupted()) {
            *error = (tenmap_error){.status = TENMAP_ERR_CANCELLED};
            return TENMAP_ERR_CANCELLED;
        }
        tenmap_status status =
            tenmap_read(t, at, count, TENMAP_F64, job->room, count * sizeof *job->room, 0, error);
        if (status != TENMAP_OK)
            return status;
        if (first) {
            take_values(&job->pass, job->room, count);
            progress_add((uint64_t)((double)t->nbytes * (double)count / (double)t->nelems));
        }
        if (job->search)
            percentiles_add(job->search, job->room, count);
    }
    return TENMAP_OK;
}

static void end_columns(survey *s) {
    for (uint64_t i = 0; i < s->out->columns.count; i++)
        end_line(&s->out->columns, i, &s->columns[i]);
}

static tenmap_status run_survey(survey_job *job, tenmap_error *error) {
    tenmap_status status = read_once(job, true, error);
    while (status == TENMAP_OK && job->search && percentiles_end_pass(job->search))
        status = read_once(job, false, error);
    if (status != TENMAP_OK)
        return status;
    end_columns(&job->pass);
    if (job->search)
        percentiles_get(job->search, job->pass.out->percentiles);
    return TENMAP_OK;
}

static tenmap_status survey_tensor(const tenmap_tensor *t, const tenmap_stats *stats,
                                   bool only_dead, value_survey *out, tenmap_error *error) {
    double far = (double)SURVEY_OUTLIER_STDS * stats->std;
    uint64_t finite = stats->count - stats->nans - stats->infinities;
    *out = (value_survey){.known = t->dtype != TENMAP_C64 && t->dtype != TENMAP_OPAQUE,
                          .min_at = SURVEY_NONE,
                          .max_at = SURVEY_NONE,
                          .first_nan = SURVEY_NONE,
                          .first_infinity = SURVEY_NONE};
    for (size_t i = 0; i < SURVEY_PERCENTILES; i++)
        out->percentiles[i] = NAN;
    if (!out->known)
        return TENMAP_OK;
    survey_job job = {.pass = {.tensor = t,
                               .only_dead = only_dead,
                               .out = out,
                               .low = stats->mean - far,
                               .high = stats->mean + far}};
    job.pass.row_length = split_axes(t, out);
    if (only_dead && !job.pass.row_length)
        return TENMAP_OK;
    job.pass.dead_columns = out->columns.count;
    if (out->columns.count)
        job.pass.columns = need((size_t)out->columns.count, sizeof *job.pass.columns);
    if (!only_dead && finite)
        job.search = percentiles_new(survey_percentiles, SURVEY_PERCENTILES, finite);
    job.room = need(t->nelems < CHUNK ? (size_t)t->nelems : CHUNK, sizeof *job.room);
    tenmap_status status = run_survey(&job, error);
    free(job.pass.columns);
    percentiles_free(job.search);
    free(job.room);
    return status;
}

/* All tensors. */

typedef struct survey_all {
    const selection *chosen;
    const tenmap_stats *stats; /* NULL: only dead lines are looked for */
    bool only_dead;
    value_survey *out;
    atomic_flag failed; /* the first failure is the one that is kept */
    tenmap_error error;
} survey_all;

static int survey_one(void *ctx, size_t i) {
    static const tenmap_stats unknown;
    survey_all *all = ctx;
    tenmap_error error = {0};
    const tenmap_stats *stats = all->stats ? &all->stats[i] : &unknown;
    if (survey_tensor(all->chosen->tensors[i], stats, all->only_dead, &all->out[i], &error) ==
        TENMAP_OK)
        return 0;
    if (!atomic_flag_test_and_set(&all->failed))
        all->error = error;
    return 1;
}

int survey_selection(const selection *s, const tenmap_stats *stats, const survey_options *options,
                     value_survey *out) {
    survey_all all = {.chosen = s,
                      .stats = stats,
                      .only_dead = options->only_dead,
                      .out = out,
                      .failed = ATOMIC_FLAG_INIT};
    unsigned threads = options->threads ? options->threads : default_threads();
    if (!options->in_bar)
        progress_begin("reading", s->bytes);
    int failed =
        parallel_for(threads < MOST_THREADS ? threads : MOST_THREADS, s->count, survey_one, &all);
    if (!options->in_bar)
        progress_end();
    return failed ? fail_error(&all.error) : EXIT_FINE;
}

void text_add_element(text *t, const tenmap_tensor *tensor, uint64_t element) {
    uint64_t inner = tensor->nelems;
    text_addf(t, "[");
    for (uint32_t i = 0; i < tensor->rank && inner; i++) {
        inner /= tensor->shape[i];
        text_addf(t, "%s%" PRIu64, i ? ", " : "", element / inner);
        element %= inner;
    }
    text_addf(t, "]");
}
