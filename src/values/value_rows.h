/*
 * Makers that give values compute them as F32, one row of a stored matrix at a time, and say
 * whether the stored matrix is transposed. value_rows.c splits the boxes that a transfer asks for
 * into tiles that suit the maker, converts the values to the wanted dtype and stores them.
 */
#ifndef TENMAP_VALUE_ROWS_H
#define TENMAP_VALUE_ROWS_H

#include "../kernels/kernels.h"
#include "values.h"

typedef struct tmi_value_rows tmi_value_rows;

/*
 * The most values that are asked for at once: as F32, directly into the destination, and as an F32
 * tile; and the bytes of a tile of codes, or of elements that are transposed in the destination's
 * dtype.
 */
enum {
    TMI_SOURCE_RUN = 2048,
    TMI_FUSED_RUN = 16384,
    TMI_TILE_VALUES = TMI_SOURCE_RUN * 8,
    TMI_TILE_BYTES = TMI_TILE_VALUES * 20
};

/*
 * The destination of values that are computed in one pass: F32, BF16 or F16, with TENMAP_CONVERT_*
 * flags.
 */
typedef struct tmi_destination {
    tenmap_dtype as;
    unsigned char *dst;
    uint32_t flags;
    bool *normal; /* NULL, or set to false unless all values are known to be normal (values.h) */
    bool done;    /* set by the function that computes the values, if it did */
} tmi_destination;

/* A tile of a transposed tensor: which part of the tensor s->tile holds. */
typedef struct tmi_tile {
    uint64_t row, column; /* its first row and column in the stored matrix */
    size_t wide, high;    /* its stored rows and columns: columns and rows of the tensor */
    size_t line;          /* bytes from one line of s->tile to the next */
    unsigned skip;        /* codes before the first wanted one: tiles begin with a whole word */
    size_t runs;          /* groups along a row of the tensor, each with a scale */
    size_t first, group;  /* values of the first group, and of each other group */
} tmi_tile;

/*
 * `count` values of row `row` of matrix `matrix`, from `column` on. Rows, columns and matrices are
 * those that are stored.
 */
typedef struct tmi_row_run {
    uint64_t matrix, row, column;
    size_t count;
} tmi_row_run;

/*
 * How the values of one kind of tensor are computed. `row` computes a run of at most TMI_SOURCE_RUN
 * values.
 */
typedef struct tmi_row_ops {
    tenmap_status (*row)(tmi_value_rows *rows, const tmi_row_run *run, float *values,
                         tenmap_error *error);
    /*
     * Computes at most TMI_FUSED_RUN values in one pass, and sets target->done. If it leaves
     * target->done unset, the caller uses `row`.
     */
    tenmap_status (*fused)(tmi_value_rows *rows, const tmi_row_run *run, tmi_destination *target,
                           tenmap_error *error);
    /*
     * Fills s->tile with the codes of `wide` stored rows and `high` of their columns, starting at
     * (row, column). Sets *done if the layout allows it and the codes fit. Then `transposed_row`
     * computes row `i` of the tile, as the tensor has it: into the target if that is not NULL and
     * `transposed_row` sets its `done`, otherwise into `values` as F32.
     */
    tenmap_status (*transpose_tile)(tmi_value_rows *rows, uint64_t matrix, const tmi_tile *tile,
                                    bool *done, tenmap_error *error);
    void (*transposed_row)(tmi_value_rows *rows, size_t i, float *values, tmi_destination *target);
    /*
     * Computes the stored rows of such a tile in one pass, tile->line bytes apart, at target->dst.
     * Sets target->done if it did.
     */
    tenmap_status (*tile_rows)(tmi_value_rows *rows, uint64_t matrix, const tmi_tile *tile,
                               tmi_destination *target, tenmap_error *error);
} tmi_row_ops;

/*
 * A part of a matrix of the tensor, and where it goes: row after row, from element `to` of the
 * transfer on.
 */
typedef struct tmi_values_box {
    uint64_t matrix, row, column, rows, columns, to;
} tmi_values_box;

/* What running boxes needs. The state of a maker of values begins with it. */
struct tmi_value_rows {
    const tmi_row_ops *ops;
    uint64_t rows, columns; /* of a stored matrix */
    size_t wide, high;      /* of a tile, if the tensor is transposed */
    bool transposed;
    /* Rows follow one another in every part: a run may continue in the next row. */
    bool rows_contiguous;
    /* A tile as F32 as it is stored, the same transposed, and that in the destination's dtype. */
    float stored[TMI_TILE_VALUES], transposed_f32[TMI_TILE_VALUES];
    unsigned char tile[TMI_TILE_BYTES];
    tmi_tile at; /* or what `tile` holds after transpose_tile, which may use the others too */
};

/* Computes elements [first, first+count) of the transfer and stores them. */
tenmap_status tmi_value_rows_run(tmi_value_rows *rows, const tmi_transfer *x, uint64_t first,
                                 uint64_t count, tenmap_error *error);

#endif
