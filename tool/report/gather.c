/* Collects what a report shows: findings, statistics, histograms and changes. */
#include <stdlib.h>
#include <string.h>

#include "view/progress.h"
#include "remote/remote.h"
#include "report.h"
#include "tensor_patterns.h"

enum {
    FINDING_LIMIT = 2000, /* findings kept */
    BINS = 64,            /* per histogram; FEW_BINS if there are more than MANY */
    FEW_BINS = 24,
    MANY = 20000 /* histograms */
};

char *report_code_bins(const uint64_t *counts, size_t bins) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    enum { MOST = 13 }; /* five-bit digits for 64 bits */
    char *code = need(MOST * bins + 1, 1), *at = code;
    for (size_t i = 0; i < bins; i++) {
        uint64_t left = counts[i];
        for (; left >= 32; left >>= 5)
            *at++ = digits[32 + (left & 31)];
        *at++ = digits[left];
    }
    char *kept = need((size_t)(at - code) + 1, 1); /* most counts need few digits */
    memcpy(kept, code, (size_t)(at - code));
    free(code);
    return kept;
}

/* Tensors measured in one call. */
typedef struct batch {
    report_stats *stats; /* where results go, by place */
    char **bins;         /* NULL: no histograms */
    const tenmap_tensor *tensors[REPORT_BATCH];
    size_t places[REPORT_BATCH]; /* indices in the report */
    size_t count;
    uint64_t bytes, before; /* of these, and of all tensors measured before */
} batch;

static int on_progress(void *ctx, uint64_t done, uint64_t total) {
    const batch *b = ctx;
    progress_set(b->before +
                 (uint64_t)((double)b->bytes * ((double)done / (double)(total + !total))));
    return interrupted();
}

static void keep_stats(report_stats *out, const tenmap_stats *s) {
    *out = (report_stats){.known = true,
                          .min = s->min,
                          .max = s->max,
                          .mean = s->mean,
                          .std = s->std,
                          .norm = s->norm,
                          .zeros = s->zeros,
                          .nan = s->nans,
                          .inf = s->infinities};
}

/* Includes histograms if bins is nonzero. */
static int measure_batch(batch *b, uint32_t bins, unsigned threads) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    tenmap_stats *stats = need(b->count, sizeof *stats);
    tenmap_error error;
    options.threads = threads;
    options.bins = bins;
    options.histogram = bins ? need(b->count * bins, sizeof *options.histogram) : NULL;
    options.progress = on_progress;
    options.ctx = b;
    tenmap_status status = tenmap_measure(b->tensors, b->count, &options, stats, &error);
    for (size_t i = 0; i < b->count && status == TENMAP_OK; i++) {
        keep_stats(&b->stats[b->places[i]], &stats[i]);
        if (b->bins && bins && stats[i].count > stats[i].nans + stats[i].infinities)
            b->bins[b->places[i]] = report_code_bins(options.histogram + i * bins, bins);
    }
    for (size_t i = 0; i < b->count; i++)
        tenmap_advise(b->tensors[i]->model, b->tensors[i], TENMAP_ADVISE_RELEASE, NULL);
    free(options.histogram);
    free(stats);
    b->before += b->bytes;
    b->count = 0;
    b->bytes = 0;
    return status == TENMAP_OK ? 0 : fail_error(&error);
}

/* Adds a tensor whose results go to `place`, and measures the batch once it is full. */
static int batch_add(batch *b, const tenmap_tensor *t, size_t place, uint32_t bins,
                     unsigned threads) {
    b->tensors[b->count] = t;
    b->places[b->count++] = place;
    b->bytes += t->nbytes;
    if (b->count < REPORT_BATCH && b->bytes < REPORT_BATCH_BYTES)
        return 0;
    return measure_batch(b, bins, threads);
}

/* Chooses the tensors that get a histogram. A pattern that selects nothing is an error. */
static int choose_bins(const report *r, const report_request *request, bool *wants, size_t *count) {
    filter wanted = {.patterns = request->hist.items, .pattern_count = request->hist.count};
    selection chosen;
    uint64_t bytes = 0;
    *count = 0;
    for (size_t i = 0; i < r->count; i++)
        bytes += r->tensors[i]->nbytes;
    if (!request->hist.count && bytes > request->hist_limit)
        return 0;
    int status = select_tensors(r->model, &wanted, &chosen);
    if (status)
        return status;
    /* Both lists are in file order. */
    for (size_t i = 0; i < r->count && *count < chosen.count; i++) {
        wants[i] = r->tensors[i] == chosen.tensors[*count];
        *count += wants[i];
    }
    selection_free(&chosen);
    return 0;
}

/* Excludes unknown dtypes and block dtypes. */
bool report_measurable(const tenmap_tensor *t) {
    return tenmap_dtype_block(t->dtype, NULL, NULL);
}

/*
 * Whether a tensor is measured with a histogram (`binned`), or without. Complex tensors get none,
 * since complex numbers have no order.
 */
static bool is_measured(const report *r, const bool *wants, size_t i, bool binned) {
    const tenmap_tensor *t = r->tensors[i];
    return report_measurable(t) && (wants[i] && t->dtype != TENMAP_C64) == binned;
}

static void announce_measured(const report *r, const bool *wants, bool binned) {
    const tenmap_tensor **tensors = need(r->count, sizeof *tensors);
    size_t count = 0;
    for (size_t i = 0; i < tenmap_count(r->model); i++)
        if (is_measured(r, wants, i, binned))
            tensors[count++] = r->tensors[i];
    remote_will_read(tensors, count);
    free(tensors);
}

/* Measures the tensors that want histograms, or those that do not. */
static int measure_some(report *r, const bool *wants, bool binned, uint32_t bins, unsigned threads,
                        batch *b) {
    int status = 0;
    announce_measured(r, wants, binned);
    for (size_t i = 0; i < tenmap_count(r->model) && !status; i++) {
        if (!is_measured(r, wants, i, binned))
            continue;
        status = batch_add(b, r->tensors[i], i, bins, threads);
    }
    return status || !b->count ? status : measure_batch(b, bins, threads);
}

/* The other model's side of a tensor that changed and has a histogram; NULL: there is none. */
static const tenmap_tensor *changed_from(const report *r, size_t i) {
    const tenmap_tensor *t = r->tensors[i];
    report_state state = r->changes[i].state;
    if (!r->bins[i] || (state != REPORT_CHANGED && state != REPORT_RESHAPED))
        return NULL;
    const tenmap_tensor *other = tenmap_find_n(r->base, t->name, t->name_len);
    return other && report_measurable(other) && other->dtype != TENMAP_C64 ? other : NULL;
}

/* Makes the histograms that the report lays over those of changed tensors. */
static int measure_base(report *r, uint32_t bins, unsigned threads, batch *b) {
    const tenmap_tensor **others = need(r->count, sizeof *others);
    uint64_t total = 0;
    size_t count = 0;
    int status = 0;
    r->base_stats = need(r->count, sizeof *r->base_stats);
    r->base_bins = need(r->count, sizeof *r->base_bins);
    *b = (batch){.stats = r->base_stats, .bins = r->base_bins};
    for (size_t i = 0; i < tenmap_count(r->model); i++)
        if (changed_from(r, i)) {
            others[count++] = changed_from(r, i);
            total += changed_from(r, i)->nbytes;
        }
    progress_begin("measuring the other model", total);
    remote_will_read(others, count);
    free(others);
    for (size_t i = 0; i < tenmap_count(r->model) && !status; i++)
        if (changed_from(r, i))
            status = batch_add(b, changed_from(r, i), i, bins, threads);
    if (!status && b->count)
        status = measure_batch(b, bins, threads);
    progress_end();
    return status;
}

static int measure_all(report *r, const report_request *request) {
    bool *wants = need(r->count, sizeof *wants);
    batch *b = need(1, sizeof *b);
    unsigned threads = (unsigned)request->threads;
    size_t histograms;
    uint64_t total = 0;
    int status = choose_bins(r, request, wants, &histograms);
    uint32_t bins = histograms > MANY ? FEW_BINS : BINS;
    for (size_t i = 0; i < tenmap_count(r->model); i++)
        total += r->tensors[i]->nbytes;
    if (!status) {
        r->stats = need(r->count, sizeof *r->stats);
        r->bins = histograms ? need(r->count, sizeof *r->bins) : NULL;
        *b = (batch){.stats = r->stats, .bins = r->bins};
        progress_begin("measuring", total);
        status = measure_some(r, wants, true, bins, threads, b);
        if (!status)
            status = measure_some(r, wants, false, 0, threads, b);
        progress_end();
        if (!status && r->changes && r->bins)
            status = measure_base(r, bins, threads, b);
    }
    free(b);
    free(wants);
    return status;
}

static void list_tensors(report *r) {
    size_t own = tenmap_count(r->model), others = tenmap_count(r->base);
    r->tensors = need(own + others, sizeof *r->tensors);
    for (size_t i = 0; i < own; i++)
        r->tensors[r->count++] = tenmap_at(r->model, i);
    for (size_t i = 0; i < others; i++) {
        const tenmap_tensor *t = tenmap_at(r->base, i);
        if (!tenmap_find_n(r->model, t->name, t->name_len))
            r->tensors[r->count++] = t;
    }
}

static void keep_finding(void *ctx, const tenmap_finding *found) {
    report *r = ctx;
    if (r->finding_count == FINDING_LIMIT) {
        r->findings_left++;
        return;
    }
    if (!r->findings)
        r->findings = need(FINDING_LIMIT, sizeof *r->findings);
    text message = {0};
    text_add_error(&message, found->message, found->remedy);
    report_finding *f = &r->findings[r->finding_count++];
    *f =
        (report_finding){found->severity, tenmap_found_name(found->code), found->shard,
                         found->offset, need_copy(message.bytes ? message.bytes : "", message.len)};
    text_free(&message);
}

/*
 * Checks by the strict rules, however the model was opened: a report shows what is in the files.
 * The library checks paths, not open models, so headers are read a second time.
 */
static int check(report *r) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_error error;
    options.max_header_bytes = common.max_header;
    int status = remote_options(tenmap_path(r->model), &options);
    if (status)
        return status;
    tenmap_status checked = tenmap_check(tenmap_path(r->model), &options, keep_finding, r, &error);
    remote_opened();
    if (checked != TENMAP_OK)
        return fail_error(&error);
    r->checked = true;
    return 0;
}

int report_gather(report *r, const tenmap_model *model, const tenmap_model *base,
                  const report_request *request) {
    r->model = model;
    r->base = base;
    list_tensors(r);
    int status = check(r);
    if (!status && base) {
        r->changes = need(r->count, sizeof *r->changes);
        status = report_compare(r, (unsigned)request->threads);
    }
    if (!status && request->stats)
        status = measure_all(r, request);
    if (!status)
        status = report_find_dead(r, (unsigned)request->threads);
    return status;
}

void report_free(report *r) {
    for (size_t i = 0; r->bins && i < r->count; i++)
        free(r->bins[i]);
    for (size_t i = 0; r->base_bins && i < r->count; i++)
        free(r->base_bins[i]);
    for (size_t i = 0; i < r->finding_count; i++)
        free(r->findings[i].message);
    free(r->bins);
    free(r->base_bins);
    free(r->base_stats);
    free(r->dead_rows);
    free(r->dead_columns);
    free(r->findings);
    free(r->tensors);
    free(r->stats);
    free(r->changes);
    *r = (report){0};
}
