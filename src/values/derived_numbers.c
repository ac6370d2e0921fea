/*
 * Computes with tensors: sums with factors, low-rank products, and what the caller's function makes
 * of values. Sums and products are computed as F64, element by element in one order, and rounded
 * once: the result of an element does not depend on what else is asked for.
 */
#include "../model/derived.h"
#include "conversion_route.h"
#include "cpu.h"
#include "low_rank.h"
#include "term_reader.h"
#include "value_source.h"

#include <string.h>

/* The values that are computed at once. */
enum { SUMMED = TMI_LOW_RANK_VALUES };
/* Values of each term that the caller's function gets at once, at most. */
enum { CALLED = 2048 };
/* The rows of a tile of a low-rank product: each of them uses all that was read of A. */
enum { PRODUCT_ROWS = 16 };

typedef struct number_source {
    tmi_term_reader reader; /* comes first */
    tmi_low_rank low_rank;
    union {
        struct {
            double sum[SUMMED], value[SUMMED];
        } f64;
        float f32[4 * SUMMED];
    } at;
} number_source;

/* Elements of the result, which lie one after the other: from `number` of the transfer on. */
typedef struct number_run {
    uint64_t position, number, count; /* position: in the tensor */
} number_run;

/* Converts values and stores them from element `to` of the transfer on. */
static void store_numbers(const tmi_transfer *x, uint64_t to, tenmap_dtype from, const void *values,
                          uint64_t count) {
    const unsigned char *at = values;
    tmi_elements source = {from, 0, !TMI_BIG_ENDIAN};
    while (count > 0) {
        unsigned bit;
        uint64_t part = count;
        unsigned char *dst = tmi_transfer_place(x, to, &part, &bit);
        tmi_route((tmi_elements){x->as, bit, !TMI_BIG_ENDIAN}, dst, source, at, part, x->flags);
        at += part * tmi_dtype_width(from);
        to += part;
        count -= part;
    }
}

/*
 * Which of two NaNs an addition keeps depends on the compiler, so each becomes the same one. Then
 * rounds the sums.
 */
static void store_sums(const tmi_transfer *x, uint64_t to, double *sums, size_t count) {
    const uint64_t nan = UINT64_C(0x7ff8000000000000);
    for (size_t i = 0; i < count; i++)
        if (sums[i] != sums[i])
            memcpy(&sums[i], &nan, sizeof nan);
    store_numbers(x, to, TENMAP_F64, sums, count);
}

/* Reads the elements of a term that a run of the result is computed from. */
static tenmap_status read_term(number_source *s, const tmi_derived_term *term,
                               const number_run *run, tenmap_dtype as, void *values,
                               tenmap_error *error) {
    tmi_piece piece = {term->tensor, term->at + run->position, {1, 0}, {run->count, 1}};
    tmi_term_target target = {as, TENMAP_CONVERT_NO_STREAM, values, 0};
    return tmi_read_piece(&s->reader, &piece, &target, error);
}

/* A factor of 1 changes nothing. */
static void times_factor(double *values, size_t count, double factor) {
    for (size_t i = 0; factor != 1 && i < count; i++)
        values[i] *= factor;
}

/* Sums. */

static tenmap_status run_sum(number_source *s, const tmi_transfer *x, number_run *run,
                             tenmap_error *error) {
    const tmi_derived_tensor *d = tmi_derived_of(x->computed);
    const tmi_kernels *kernels = tmi_cpu_kernels();
    double *sum = s->at.f64.sum, *value = s->at.f64.value;
    run->count = run->count < SUMMED ? run->count : SUMMED;
    size_t count = (size_t)run->count;
    tenmap_status status = read_term(s, &d->terms[0], run, TENMAP_F64, sum, error);
    if (status == TENMAP_OK)
        times_factor(sum, count, d->terms[0].factor);
    for (uint32_t k = 1; status == TENMAP_OK && k < d->n; k++) {
        status = read_term(s, &d->terms[k], run, TENMAP_F64, value, error);
        if (status == TENMAP_OK)
            kernels->add_scaled(sum, value, count, d->terms[k].factor);
    }
    if (status == TENMAP_OK)
        store_sums(x, run->number, sum, count);
    return status;
}

/* The caller's function. */

/* Fails with what the caller's function said, or with our own message if it said nothing. */
static tenmap_status fail_call(tenmap_status status, tenmap_error *why, tenmap_error *error) {
    why->status = status;
    if (error)
        *error = *why;
    return status;
}

static tenmap_status run_call(number_source *s, const tmi_transfer *x, number_run *run,
                              tenmap_error *error) {
    const tmi_derived_tensor *d = tmi_derived_of(x->computed);
    const float *terms[TMI_MOST_SUMMED];
    uint64_t most = 4 * SUMMED / (d->n + 1);
    most = most < CALLED ? most : CALLED;
    run->count = run->count < most ? run->count : most;
    tenmap_status status = TENMAP_OK;
    for (uint32_t k = 0; status == TENMAP_OK && k < d->n; k++)
        status = read_term(s, &d->terms[k], run, TENMAP_F32, s->at.f32 + (k + 1) * most, error);
    for (uint64_t i = 0, n; status == TENMAP_OK && i < run->count; i += n) {
        uint64_t at = run->position + i, column = at % d->columns;
        tenmap_error why;
        n = d->columns - column < run->count - i ? d->columns - column : run->count - i;
        for (uint32_t k = 0; k < d->n; k++)
            terms[k] = s->at.f32 + (k + 1) * most + i;
        TMI_FAIL_TENSOR(&why, TENMAP_ERR_ARGUMENT, x->tensor, "%s",
                        "the function that computes it (call) failed");
        status = d->call(d->ctx, at / d->columns / d->rows, at / d->columns % d->rows, column,
                         (size_t)n, terms, s->at.f32 + i, &why);
        if (status != TENMAP_OK)
            return fail_call(status, &why, error);
    }
    if (status == TENMAP_OK)
        store_numbers(x, run->number, TENMAP_F32, s->at.f32, run->count);
    return status;
}

/* Low-rank products. */

/* A tile of the matrix: rows [row, row+rows) and columns [column, column+columns). */
typedef struct number_tile {
    uint64_t row, column;
    size_t rows, columns;
} number_tile;

/* Sets the sums of a tile to the factor times W, or to 0. */
static tenmap_status begin_product(number_source *s, const tmi_derived_tensor *d,
                                   const number_tile *tile, tenmap_error *error) {
    const tmi_derived_term *w = &d->terms[0];
    double *sum = s->at.f64.sum;
    if (!w->tensor) {
        memset(sum, 0, tile->rows * tile->columns * sizeof *sum);
        return TENMAP_OK;
    }
    tmi_piece piece = {w->tensor,
                       w->at + tile->row * d->columns + tile->column,
                       {tile->rows, d->columns},
                       {tile->columns, 1}};
    tmi_term_target target = {TENMAP_F64, TENMAP_CONVERT_NO_STREAM, (unsigned char *)sum,
                              tile->columns * sizeof *sum};
    tenmap_status status = tmi_read_piece(&s->reader, &piece, &target, error);
    if (status == TENMAP_OK)
        times_factor(sum, tile->rows * tile->columns, w->factor);
    return status;
}

/* Computes a tile, whose rows go to the transfer `columns` of the matrix apart. */
static tenmap_status run_tile_of(number_source *s, const tmi_transfer *x, const number_tile *tile,
                                 uint64_t number, tenmap_error *error) {
    const tmi_derived_tensor *d = tmi_derived_of(x->computed);
    const tmi_kernels *kernels = tmi_cpu_kernels();
    double *sum = s->at.f64.sum, *value = s->at.f64.value;
    size_t count = tile->rows * tile->columns;
    tenmap_status status = begin_product(s, d, tile, error);
    for (uint32_t pair = 0; status == TENMAP_OK && pair < d->n / 2; pair++) {
        tmi_product product = tmi_low_rank_product(&s->low_rank, d, pair, tile->column);
        product.rows = tile->rows;
        product.columns = tile->columns;
        kernels->product(value, &product);
        kernels->add_scaled(sum, value, count, d->terms[1 + 2 * pair].factor);
    }
    for (size_t i = 0; status == TENMAP_OK && i < tile->rows; i++)
        store_sums(x, number + i * d->columns, sum + i * tile->columns, tile->columns);
    return status;
}

/*
 * Takes whole rows, many at a time, so that what is read of A serves all of them; or else a part of
 * one row.
 */
static tenmap_status run_low_rank(number_source *s, const tmi_transfer *x, number_run *run,
                                  tenmap_error *error) {
    const tmi_derived_tensor *d = tmi_derived_of(x->computed);
    const uint64_t whole = d->columns;
    uint64_t row = run->position / whole, column = run->position % whole, rows = 1;
    uint64_t columns = whole - column, most = tmi_low_rank_rows(d);
    if (column == 0 && run->count >= whole) {
        uint64_t high = SUMMED / whole;
        high = high > PRODUCT_ROWS ? high : PRODUCT_ROWS;
        most = most < high ? most : high;
        rows = run->count / whole < most ? run->count / whole : most;
    }
    columns = columns < run->count ? columns : run->count;
    run->count = rows * columns;
    tenmap_status status = tmi_low_rank_rows_of(&s->low_rank, &s->reader, x, row, rows, error);
    uint64_t wide = SUMMED / rows;
    for (uint64_t i = 0; status == TENMAP_OK && i < columns; i += wide) {
        uint64_t n = columns - i < wide ? columns - i : wide;
        number_tile tile = {row, column + i, (size_t)rows, (size_t)n};
        status = run_tile_of(s, x, &tile, run->number + i, error);
    }
    return status;
}

/* All of them. */

static tenmap_status run_numbers(void *state, const tmi_transfer *x, const tmi_window *w,
                                 uint64_t first, uint64_t count, tenmap_error *error) {
    number_source *s = state;
    uint32_t op = tmi_derived_of(x->computed)->op;
    tenmap_status status = TENMAP_OK;
    tmi_term_reader_switch(&s->reader, w);
    if (x->normal)
        *x->normal = false;
    while (status == TENMAP_OK && count > 0) {
        uint64_t left = x->run - first % x->run;
        number_run run = {tmi_transfer_position(x, first), first, count < left ? count : left};
        status = op == TENMAP_DERIVE_SUM    ? run_sum(s, x, &run, error)
                 : op == TENMAP_DERIVE_CALL ? run_call(s, x, &run, error)
                                            : run_low_rank(s, x, &run, error);
        first += run.count;
        count -= run.count;
    }
    return status;
}

static void begin_numbers(void *state, const tmi_nested_calls *nested) {
    number_source *s = state;
    tmi_term_reader_begin(&s->reader, nested);
    tmi_low_rank_begin(&s->low_rank);
}

static void end_numbers(void *state) {
    number_source *s = state;
    tmi_term_reader_end(&s->reader);
    tmi_low_rank_end(&s->low_rank);
}

static bool numbers_in_rows(const tmi_computed *computed, const tmi_nested_calls *nested) {
    const tmi_derived_tensor *d = tmi_derived_of(computed);
    bool rows = d->op != TENMAP_DERIVE_LOW_RANK; /* many rows use what is read of A */
    for (uint32_t k = 0; rows && k < d->n; k++)
        rows = nested->in_rows(d->terms[k].tensor);
    return rows;
}

const tmi_maker tmi_combine_maker = {sizeof(number_source), begin_numbers,   end_numbers,
                                     run_numbers,           numbers_in_rows, NULL};
