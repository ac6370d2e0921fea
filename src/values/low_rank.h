/* Holds A, and rows of B, of low-rank products as F64, so that each is read once. */
#ifndef TENMAP_LOW_RANK_H
#define TENMAP_LOW_RANK_H

#include "../kernels/kernels.h"
#include "../model/derived.h"
#include "term_reader.h"

enum { TMI_LOW_RANK_VALUES = 32 << 10 }; /* of B, or of a tile of the result */

typedef struct tmi_low_rank {
    const tenmap_tensor *tensor; /* of which A is held; NULL: none */
    tmi_block a, b;              /* of all pairs, one after the other */
    uint64_t row, rows;          /* which rows of B are held; 0 rows: none */
    uint64_t room;               /* the rows of B that fit */
} tmi_low_rank;

void tmi_low_rank_begin(tmi_low_rank *held);
void tmi_low_rank_end(tmi_low_rank *held);
/* How many rows of B, of all pairs, are held at most; at least 1. */
uint64_t tmi_low_rank_rows(const tmi_derived_tensor *d);
/* Makes it hold A, and rows [row, row+rows) of B, of the transfer's tensor. */
tenmap_status tmi_low_rank_rows_of(tmi_low_rank *held, tmi_term_reader *r, const tmi_transfer *x,
                                   uint64_t row, uint64_t rows, tenmap_error *error);
/* The operands of a pair for the rows that are held; the caller sets how many of them. */
tmi_product tmi_low_rank_product(const tmi_low_rank *held, const tmi_derived_tensor *d,
                                 uint32_t pair, uint64_t column);

#endif
