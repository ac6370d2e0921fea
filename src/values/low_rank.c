/* Reads A once for a tensor, and each row of B once. */
#include "low_rank.h"

#include <string.h>

void tmi_low_rank_begin(tmi_low_rank *held) {
    *held = (tmi_low_rank){.tensor = NULL};
}

void tmi_low_rank_end(tmi_low_rank *held) {
    tmi_block_free(&held->a);
    tmi_block_free(&held->b);
}

/* The columns of all B together, which are the rows of all A. */
static uint64_t inner_of(const tmi_derived_tensor *d, uint32_t pairs) {
    uint64_t sum = 0;
    for (uint32_t pair = 0; pair < pairs; pair++)
        sum += d->inner[pair];
    return sum;
}

uint64_t tmi_low_rank_rows(const tmi_derived_tensor *d) {
    uint64_t inner = inner_of(d, d->n / 2);
    uint64_t rows = TMI_LOW_RANK_VALUES / (inner ? inner : 1);
    rows = rows < d->rows ? rows : d->rows;
    return rows ? rows : 1;
}

/* Rows of values, to places `line` values apart. */
typedef struct value_lines {
    uint64_t rows, columns, line;
    double *values;
} value_lines;

static tenmap_status read_lines(tmi_term_reader *r, const tmi_derived_term *term, uint64_t first,
                                const value_lines *to, tenmap_error *error) {
    tmi_piece piece = {term->tensor, term->at + first, {to->rows, to->columns}, {to->columns, 1}};
    tmi_term_target target = {TENMAP_F64, TENMAP_CONVERT_NO_STREAM, (unsigned char *)to->values,
                              (size_t)to->line * sizeof(double)};
    return to->rows && to->columns ? tmi_read_piece(r, &piece, &target, error) : TENMAP_OK;
}

/* Rows of A are an odd number of cache lines apart: a column of them then fits into the cache. */
static uint64_t line_of_a(const tmi_derived_tensor *d) {
    enum { TOGETHER = 8 }; /* values in a cache line */
    return ((d->columns / TOGETHER + 1) | 1) * TOGETHER;
}

/* The bytes of `count` values for each of the inner columns; fails if they are too many. */
static tenmap_status hold(tmi_block *block, const tmi_transfer *x, uint64_t inner, uint64_t count,
                          tenmap_error *error) {
    uint64_t bytes;
    tmi_block_free(block);
    if (!tmi_multiply(inner, count, &bytes) || !tmi_multiply(bytes, sizeof(double), &bytes) ||
        bytes > SIZE_MAX / 2)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_LIMIT, x->tensor,
                               "%llu values of %s of its low-rank terms do not fit into memory",
                               (ull)count, tmi_count(inner, "row").text);
    if (!tmi_block_alloc_dirty(block, (size_t)bytes))
        return tmi_fail_memory(error, bytes, "the low-rank terms of a derived tensor");
    return TENMAP_OK;
}

/* Reads A of all pairs. */
static tenmap_status hold_tensor(tmi_low_rank *held, tmi_term_reader *r, const tmi_transfer *x,
                                 tenmap_error *error) {
    const tmi_derived_tensor *d = tmi_derived_of(x->computed);
    uint64_t inner = inner_of(d, d->n / 2), at = 0;
    held->tensor = NULL;
    held->rows = 0;
    held->room = tmi_low_rank_rows(d);
    tenmap_status status = hold(&held->a, x, inner, line_of_a(d), error);
    if (status == TENMAP_OK)
        status = hold(&held->b, x, inner, held->room, error);
    for (uint32_t pair = 0; status == TENMAP_OK && pair < d->n / 2; pair++) {
        value_lines to = {d->inner[pair], d->columns, line_of_a(d), (double *)held->a.bytes + at};
        status = read_lines(r, &d->terms[2 + 2 * pair], 0, &to, error);
        at += to.rows * to.line;
    }
    held->tensor = status == TENMAP_OK ? x->tensor : NULL;
    return status;
}

tenmap_status tmi_low_rank_rows_of(tmi_low_rank *held, tmi_term_reader *r, const tmi_transfer *x,
                                   uint64_t row, uint64_t rows, tenmap_error *error) {
    const tmi_derived_tensor *d = tmi_derived_of(x->computed);
    tenmap_status status = TENMAP_OK;
    if (held->tensor != x->tensor)
        status = hold_tensor(held, r, x, error);
    if (status != TENMAP_OK || (row == held->row && rows <= held->rows))
        return status;
    held->rows = 0;
    for (uint32_t pair = 0; status == TENMAP_OK && pair < d->n / 2; pair++) {
        value_lines to = {rows, d->inner[pair], d->inner[pair],
                          (double *)held->b.bytes + inner_of(d, pair) * held->room};
        status = read_lines(r, &d->terms[1 + 2 * pair], row * d->inner[pair], &to, error);
    }
    held->row = row;
    held->rows = status == TENMAP_OK ? rows : 0;
    return status;
}

tmi_product tmi_low_rank_product(const tmi_low_rank *held, const tmi_derived_tensor *d,
                                 uint32_t pair, uint64_t column) {
    uint64_t before = inner_of(d, pair);
    return (tmi_product){.b = (const double *)held->b.bytes + before * held->room,
                         .a = (const double *)held->a.bytes + before * line_of_a(d) + column,
                         .a_line = (size_t)line_of_a(d),
                         .inner = (size_t)d->inner[pair]};
}
