/*
 * The first pass over the models: norms and products for slerp, thresholds for ties, magnitudes for
 * dare, and whether integers are equal. Everything is read in pieces, by one thread per tensor.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "blend/blend.h"
#include "command.h"
#include "parallel_for.h"
#include "remote/remote.h"
#include "view/progress.h"

enum { PIECE = 1 << 15 }; /* elements */

/*
 * Several threads may find a fault at once. One of them tells it, because the names in messages lie
 * in memory that threads share, and since one fault is enough.
 */
static atomic_flag told = ATOMIC_FLAG_INIT;

static bool is_first_fault(void) {
    return !atomic_flag_test_and_set(&told);
}

/* One thread's view of one tensor, a piece at a time. */
typedef struct piece_reader {
    const tenmap_tensor *a, *b;
    tenmap_dtype dtype;
    size_t width; /* bytes of an element */
    uint64_t first;
    size_t count;
    char *at[2]; /* the values of a and of b */
} piece_reader;

static piece_reader open_pieces(const tenmap_tensor *a, const tenmap_tensor *b,
                                tenmap_dtype dtype) {
    piece_reader r = {.a = a, .b = b, .dtype = dtype, .width = tenmap_dtype_bits(dtype) / 8};
    r.at[0] = need(2 * (size_t)PIECE, r.width);
    r.at[1] = r.at[0] + PIECE * r.width;
    return r;
}

static void show_piece(const tenmap_tensor *t, size_t count) {
    progress_add((uint64_t)((double)t->nbytes * ((double)count / (double)t->nelems)));
}

/* Reads the next piece of both. Sets count to 0 at the end. Returns 0 or an exit code. */
static int next_piece(piece_reader *r) {
    tenmap_error error;
    uint64_t left;
    r->first += r->count;
    left = r->a->nelems - r->first;
    r->count = left < PIECE ? (size_t)left : PIECE;
    if (interrupted())
        return EXIT_INTERRUPTED;
    for (int i = 0; r->count && i < 2; i++) {
        const tenmap_tensor *t = i ? r->b : r->a;
        if (tenmap_read(t, r->first, r->count, r->dtype, r->at[i], PIECE * r->width, 0, &error) !=
            TENMAP_OK)
            return interrupted()      ? EXIT_INTERRUPTED
                   : is_first_fault() ? fail_error(&error)
                                      : EXIT_FAILED;
        show_piece(t, r->count);
    }
    return EXIT_FINE;
}

static void close_pieces(piece_reader *r) {
    free(r->at[0]);
}

/* Integers. */

static const char *path_of_term(const blend_job *job, const blend_tensor *b, size_t i) {
    return shown_path(job->recipe->models[b->slice->sources[i].model]);
}

static int fail_unequal(const blend_job *job, const blend_tensor *b, size_t i) {
    if (!is_first_fault())
        return EXIT_FAILED;
    return fail(EXIT_FAILED,
                "%s is %s, which is not blended, and it is not the same in '%s' and '%s'",
                shown_name(b->name, b->name_len), tenmap_dtype_name(b->terms[0]->dtype),
                path_of_term(job, b, 0), path_of_term(job, b, i));
}

static int compare_terms(const blend_job *job, const blend_tensor *b) {
    int status = EXIT_FINE;
    for (size_t i = 1; !status && i < b->slice->count; i++) {
        piece_reader r = open_pieces(b->terms[0], b->terms[i], b->terms[0]->dtype);
        for (status = next_piece(&r); !status && r.count; status = next_piece(&r))
            if (memcmp(r.at[0], r.at[1], r.count * r.width) != 0) {
                status = fail_unequal(job, b, i);
                break;
            }
        close_pieces(&r);
    }
    return status;
}

/* Slerp. */

static int measure_angle(blend_tensor *b) {
    size_t other = 1 - b->base;
    double squares[2] = {0}, products = 0;
    piece_reader r = open_pieces(b->terms[b->base], b->terms[other], TENMAP_F64);
    int status;
    for (status = next_piece(&r); !status && r.count; status = next_piece(&r)) {
        const double *x = (const double *)(void *)r.at[0], *y = (const double *)(void *)r.at[1];
        for (size_t i = 0; i < r.count; i++) {
            double xx = x[i] * x[i], yy = y[i] * y[i], xy = x[i] * y[i];
            squares[0] += xx;
            squares[1] += yy;
            products += xy;
        }
    }
    close_pieces(&r);
    b->norms[0] = sqrt(squares[0]);
    b->norms[1] = sqrt(squares[1]);
    b->dot = products;
    if (!status && !(isfinite(squares[0]) && isfinite(squares[1])))
        return !is_first_fault()
                   ? EXIT_FAILED
                   : fail(EXIT_FAILED,
                          "%s has values that are not finite, so slerp has no angle for it",
                          shown_name(b->name, b->name_len));
    return status;
}

/*
 * Thresholds of ties: the k-th largest magnitude, exactly. A magnitude has 31 bits. The first pass
 * counts the upper 16, the second the lower 15 of those that share the upper ones of the k-th.
 */
enum { UPPER = 1 << 16, LOWER = 1 << 15 };

static uint32_t magnitude_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

typedef struct magnitude_counts {
    uint64_t *upper, *lower;
    uint32_t prefix; /* of the k-th */
    uint64_t left;   /* of the k, those that are not above what was counted */
} magnitude_counts;

typedef void count_piece(magnitude_counts *c, const float *base, const float *model, size_t count);

static void count_upper(magnitude_counts *c, const float *base, const float *model, size_t count) {
    for (size_t i = 0; i < count; i++)
        c->upper[magnitude_bits(model[i] - base[i]) >> 15]++;
}

static void count_lower(magnitude_counts *c, const float *base, const float *model, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = magnitude_bits(model[i] - base[i]);
        if (bits >> 15 == c->prefix)
            c->lower[bits & (LOWER - 1)]++;
    }
}

/* The bin that holds the k-th largest, when *left are still to be found; reduces *left. */
static uint32_t find_bin(const uint64_t *bins, size_t size, uint64_t *left) {
    size_t i = size - 1;
    while (i > 0 && bins[i] < *left)
        *left -= bins[i--];
    return (uint32_t)i;
}

static int count_all(const blend_tensor *b, size_t term, magnitude_counts *c, count_piece *count) {
    piece_reader r = open_pieces(b->terms[b->base], b->terms[term], TENMAP_F32);
    int status;
    for (status = next_piece(&r); !status && r.count; status = next_piece(&r))
        count(c, (const float *)(void *)r.at[0], (const float *)(void *)r.at[1], r.count);
    close_pieces(&r);
    return status;
}

/* The place of the element that is the `left`-th of those that have the least magnitude. */
static int find_last(const blend_tensor *b, size_t term, delta_trim *trim, uint64_t left) {
    piece_reader r = open_pieces(b->terms[b->base], b->terms[term], TENMAP_F32);
    int status;
    for (status = next_piece(&r); !status && r.count && left; status = next_piece(&r)) {
        const float *base = (const float *)(void *)r.at[0];
        const float *model = (const float *)(void *)r.at[1];
        for (size_t i = 0; left && i < r.count; i++)
            if (magnitude_bits(model[i] - base[i]) == trim->least && --left == 0)
                trim->last = r.first + i;
    }
    close_pieces(&r);
    return status;
}

static int measure_threshold(const blend_tensor *b, size_t term, delta_trim *trim) {
    magnitude_counts c = {.left = trim->kept};
    c.upper = need(UPPER + LOWER, sizeof *c.upper);
    c.lower = c.upper + UPPER;
    int status = count_all(b, term, &c, count_upper);
    if (!status) {
        c.prefix = find_bin(c.upper, UPPER, &c.left);
        status = count_all(b, term, &c, count_lower);
    }
    if (!status) {
        uint32_t low = find_bin(c.lower, LOWER, &c.left);
        trim->least = c.prefix << 15 | low;
        trim->last = UINT64_MAX;
        if (c.left < c.lower[low] && trim->least)
            status = find_last(b, term, trim, c.left);
    }
    free(c.upper);
    return status;
}

/* The scale with which the values that are left have the sum of magnitudes that all had. */
static int measure_scale(const blend_tensor *b, size_t term, delta_trim *trim) {
    double before = 0, after = 0;
    const double least = 1e-7; /* below it, values are left as they are */
    piece_reader r = open_pieces(b->terms[b->base], b->terms[term], TENMAP_F32);
    int status;
    for (status = next_piece(&r); !status && r.count; status = next_piece(&r)) {
        const float *base = (const float *)(void *)r.at[0];
        const float *model = (const float *)(void *)r.at[1];
        for (size_t i = 0; i < r.count; i++) {
            float delta = model[i] - base[i];
            before += fabs((double)delta);
            after += fabs((double)trimmed(trim, delta, r.first + i));
        }
    }
    close_pieces(&r);
    if (!status && !isfinite(before))
        return !is_first_fault() ? EXIT_FAILED
                                 : fail(EXIT_FAILED,
                                        "%s has values that are not finite, so their magnitudes "
                                        "cannot be kept: use "
                                        "--rescale density or --rescale no",
                                        shown_name(b->name, b->name_len));
    if (before >= least && after >= least)
        trim->scale = (float)(before / after);
    return status;
}

/* Which passes a model needs. */
static bool needs_threshold(const delta_trim *trim) {
    return trim->kind == TRIM_MAGNITUDE;
}

static bool needs_scale(const blend_job *job, const delta_trim *trim) {
    return trim->rescale && job->recipe->rescale != RESCALE_DENSITY;
}

static int measure_deltas(const blend_job *job, blend_tensor *b) {
    int status = EXIT_FINE;
    for (size_t i = 0, n = 0; !status && i < b->slice->count; i++) {
        if (i == b->base)
            continue;
        delta_trim *trim = &b->rule->trims[n++];
        if (needs_threshold(trim))
            status = measure_threshold(b, i, trim);
        if (!status && needs_scale(job, trim))
            status = measure_scale(b, i, trim);
    }
    return status;
}

static int measure_tensor(void *ctx, size_t i) {
    const blend_job *job = ctx;
    blend_tensor *b = &job->tensors[i];
    if (!b->terms[0]->nelems)
        return EXIT_FINE;
    if (b->moved)
        return compare_terms(job, b);
    if (job->recipe->method == BLEND_SLERP)
        return measure_angle(b);
    return b->rule ? measure_deltas(job, b) : EXIT_FINE;
}

/* How often the terms of a tensor are read, at least; all models count alike. */
static uint64_t pass_bytes(const blend_job *job, const blend_tensor *b) {
    uint64_t bytes = 0, passes = 0;
    const delta_trim *trims = b->rule ? b->rule->trims : NULL;
    for (size_t i = 0; b->rule && i < b->rule->count; i++)
        passes += (needs_threshold(&trims[i]) ? 2u : 0u) + (needs_scale(job, &trims[i]) ? 1u : 0u);
    for (size_t i = 0; i < b->slice->count; i++)
        bytes += b->terms[i]->nbytes;
    if (b->moved)
        return b->slice->count > 1 ? bytes : 0;
    if (job->recipe->method == BLEND_SLERP)
        return bytes;
    return b->slice->count ? passes * 2 * (bytes / b->slice->count) : 0;
}

int blend_measure(blend_job *job, unsigned threads) {
    const tenmap_tensor **read = NULL;
    size_t count = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < job->count; i++) {
        const blend_tensor *b = &job->tensors[i];
        uint64_t more = pass_bytes(job, b);
        bytes += more;
        for (size_t k = 0; more && k < b->slice->count; k++) {
            read = need_next(read, count, sizeof *read);
            read[count++] = b->terms[k];
        }
    }
    if (!count)
        return EXIT_FINE;
    remote_will_read(read, count);
    free(read);
    progress_begin("measuring", bytes);
    int status = parallel_for(threads, job->count, measure_tensor, job);
    progress_end();
    return status == EXIT_INTERRUPTED ? fail(status, "interrupted") : status;
}
