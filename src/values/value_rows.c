/* Stores the values that a transfer asks for, box by box, in tiles that suit their stored order. */
#include "value_rows.h"
#include "conversion_route.h"
#include "cpu.h"

#include <string.h>

/* Converts values and stores them at consecutive elements of the transfer, from number `to` on. */
static void store_converted(const tmi_transfer *x, uint64_t to, const float *values, uint64_t count,
                            uint32_t flags) {
    tmi_elements from = {TENMAP_F32, 0, !TMI_BIG_ENDIAN};
    while (count > 0) {
        unsigned bit;
        uint64_t part = count;
        unsigned char *dst = tmi_transfer_place(x, to, &part, &bit);
        tmi_elements target = {x->as, bit, !TMI_BIG_ENDIAN};
        tmi_route(target, dst, from, values, part, flags);
        values += part;
        to += part;
        count -= part;
    }
}

/* Whether values of the destination's dtype can be computed in one pass. */
static bool has_fused_dtype(const tmi_transfer *x) {
    return x->as == TENMAP_F32 || x->as == TENMAP_BF16 || x->as == TENMAP_F16;
}

/*
 * Computes values of a run in one pass, and stores them from element `to` of the transfer on. Sets
 * run->count to how many it computed: 0 if there is no kernel for them. Kernels use non-temporal
 * stores to aligned vectors only, so for other destinations the values are computed into s->tile
 * and then copied with non-temporal stores.
 */
static tenmap_status store_fused(tmi_value_rows *s, const tmi_transfer *x, tmi_row_run *run,
                                 uint64_t to, tenmap_error *error) {
    enum { FUSED_COPIED = 4096 };
    tmi_kernel *stream_copy = tmi_cpu_kernels()->stream_copy;
    unsigned bit;
    uint64_t part = run->count;
    unsigned char *dst = tmi_transfer_place(x, to, &part, &bit);
    tmi_destination target = {.as = x->as, .dst = dst, .flags = x->flags, .normal = x->normal};
    bool copied = stream_copy && (x->flags & TENMAP_CONVERT_STREAM) && (uintptr_t)dst % 32 != 0;
    if (copied) {
        target.dst = s->tile;
        target.flags = x->flags & TENMAP_CONVERT_SATURATE;
    }
    uint64_t most = copied ? FUSED_COPIED : TMI_FUSED_RUN;
    run->count = (size_t)(part < most ? part : most);
    tenmap_status status = s->ops->fused(s, run, &target, error);
    if (target.done && copied)
        stream_copy(dst, s->tile, run->count * tmi_dtype_width(x->as), 0);
    else if (!target.done)
        run->count = 0;
    return status;
}

/* The next values may not be normal, as tmi_values_wanted.normal has it. */
static void not_known_normal(const tmi_transfer *x) {
    if (x->normal)
        *x->normal = false;
}

/* Runs a box that is not transposed: row after row. */
static tenmap_status run_rows(tmi_value_rows *s, const tmi_transfer *x, const tmi_values_box *box,
                              tenmap_error *error) {
    bool fused = s->ops->fused && has_fused_dtype(x);
    bool rows_contiguous = s->rows_contiguous && box->columns == s->columns;
    uint64_t rows = rows_contiguous ? 1 : box->rows,
             columns = rows_contiguous ? box->rows * s->columns : box->columns;
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns;) {
            uint64_t to = box->to + i * columns + j, left = columns - j;
            size_t fused_most = left < TMI_FUSED_RUN ? (size_t)left : TMI_FUSED_RUN;
            tmi_row_run run = {box->matrix, box->row + i, box->column + j, fused ? fused_most : 0};
            tenmap_status status = TENMAP_OK;
            if (fused)
                status = store_fused(s, x, &run, to, error);
            if (status == TENMAP_OK && run.count == 0) {
                run.count = left < TMI_SOURCE_RUN ? (size_t)left : TMI_SOURCE_RUN;
                not_known_normal(x);
                status = s->ops->row(s, &run, s->stored, error);
                if (status == TENMAP_OK)
                    store_converted(x, to, s->stored, run.count, x->flags);
            }
            if (status != TENMAP_OK)
                return status;
            j += run.count;
        }
    return TENMAP_OK;
}

/* Stores the rows of a tile whose codes are transposed, from element `to` of the transfer on. */
static void store_transposed_rows(tmi_value_rows *s, const tmi_transfer *x, uint64_t to,
                                  uint64_t line) {
    uint32_t flags = (x->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM;
    size_t wide = s->at.wide;
    for (size_t i = 0; i < s->at.high; i++, to += line) {
        float values[TMI_SOURCE_RUN];
        unsigned bit;
        uint64_t part = wide;
        tmi_destination target = {.as = x->as, .flags = x->flags};
        target.dst = tmi_transfer_place(x, to, &part, &bit);
        s->ops->transposed_row(s, i, values, has_fused_dtype(x) && part == wide ? &target : NULL);
        if (!target.done)
            store_converted(x, to, values, wide, flags);
    }
}

static void transpose_floats(float *to, const float *from, size_t rows, size_t columns) {
    enum { SQUARE = 8 };
    for (size_t r = 0; r < rows; r += SQUARE)
        for (size_t c = 0; c < columns; c += SQUARE)
            for (size_t i = r; i < rows && i < r + SQUARE; i++)
                for (size_t k = c; k < columns && k < c + SQUARE; k++)
                    to[k * rows + i] = from[i * columns + k];
}

/* The element of the transfer that a tile of a box begins with. */
static uint64_t tile_begin(const tmi_values_box *box, const tmi_tile *tile) {
    return box->to + (tile->column - box->row) * box->columns + (tile->row - box->column);
}

/*
 * Computes a tile as it is stored, in the destination's dtype, and transposes it into the
 * destination. Sets *done if it could.
 */
static tenmap_status store_tile_rows(tmi_value_rows *s, const tmi_transfer *x,
                                     const tmi_values_box *box, tmi_tile *tile, bool *done,
                                     tenmap_error *error) {
    const tmi_kernels *k = tmi_cpu_kernels();
    size_t bytes = tmi_dtype_width(x->as);
    tmi_destination target = {.as = x->as, .dst = s->tile, .flags = x->flags};
    tile->line =
        tile->high * bytes + 64; /* the lines of one column then fall into many cache sets */
    if (!s->ops->tile_rows || !has_fused_dtype(x) || x->row_stride ||
        tile->wide * tile->line > sizeof s->tile)
        return TENMAP_OK;
    tenmap_status status = s->ops->tile_rows(s, box->matrix, tile, &target, error);
    tmi_transpose *transpose = bytes == 2 ? k->transpose16 : k->transpose32;
    *done = status == TENMAP_OK && target.done;
    if (*done)
        transpose((tmi_lines){x->dst + tile_begin(box, tile) * bytes, (size_t)box->columns * bytes},
                  (tmi_const_lines){s->tile, tile->line}, tile->wide, tile->high,
                  (x->flags & TENMAP_CONVERT_STREAM) != 0);
    return status;
}

/* Computes a tile as F32, transposes it and converts it. */
static tenmap_status store_f32_tile(tmi_value_rows *s, const tmi_transfer *x,
                                    const tmi_values_box *box, const tmi_tile *tile,
                                    tenmap_error *error) {
    size_t high = tile->high, wide = tile->wide;
    for (size_t k = 0; k < wide; k++) {
        tmi_row_run run = {box->matrix, tile->row + k, tile->column, high};
        tenmap_status status = s->ops->row(s, &run, s->stored + k * high, error);
        if (status != TENMAP_OK)
            return status;
    }
    transpose_floats(s->transposed_f32, s->stored, wide, high);
    uint32_t flags = (x->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM;
    uint64_t to = tile_begin(box, tile);
    if (tenmap_dtype_bits(x->as) < 8 || x->row_stride) {
        for (size_t i = 0; i < high; i++)
            store_converted(x, to + i * box->columns, s->transposed_f32 + i * wide, wide, flags);
        return TENMAP_OK;
    }
    size_t bytes = tmi_dtype_width(x->as), line = wide * bytes;
    tmi_elements target = {x->as, 0, !TMI_BIG_ENDIAN}, from = {TENMAP_F32, 0, !TMI_BIG_ENDIAN};
    tmi_route(target, s->tile, from, s->transposed_f32, high * wide, flags);
    for (size_t i = 0; i < high; i++)
        memcpy(x->dst + (to + i * box->columns) * bytes, s->tile + i * line, line);
    return TENMAP_OK;
}

/* Runs a tile of the box. One that is too large for the F32 buffers is split in two. */
static tenmap_status run_tile(tmi_value_rows *s, const tmi_transfer *x, const tmi_values_box *box,
                              tmi_tile tile, tenmap_error *error) {
    bool done = false;
    tenmap_status status = TENMAP_OK;
    if (s->ops->transpose_tile)
        status = s->ops->transpose_tile(s, box->matrix, &tile, &done, error);
    if (status == TENMAP_OK && done)
        store_transposed_rows(s, x, tile_begin(box, &tile), box->columns);
    if (status == TENMAP_OK && !done)
        status = store_tile_rows(s, x, box, &tile, &done, error);
    if (status != TENMAP_OK || done)
        return status;
    if (tile.wide * tile.high <= TMI_TILE_VALUES)
        return store_f32_tile(s, x, box, &tile, error);
    tmi_tile half = {.row = tile.row, .column = tile.column, .wide = tile.wide, .high = tile.high};
    size_t *longer = tile.wide > tile.high ? &half.wide : &half.high, whole = *longer;
    *longer = whole / 2;
    status = run_tile(s, x, box, half, error);
    *(longer == &half.wide ? &half.row : &half.column) += whole / 2;
    *longer = whole - whole / 2;
    return status == TENMAP_OK ? run_tile(s, x, box, half, error) : status;
}

/*
 * Runs a box whose columns are stored rows. Tiles go down the tensor's rows first, so that each
 * page of the parts is visited once, not again for every few rows. Elements of less than a byte go
 * in order, row by row.
 */
static tenmap_status run_transposed(tmi_value_rows *s, const tmi_transfer *x,
                                    const tmi_values_box *box, tenmap_error *error) {
    size_t high = tenmap_dtype_bits(x->as) < 8 ? 1 : s->high, wide = s->wide;
    bool rows_first = high == 1;
    uint64_t rows = (box->rows + high - 1) / high, columns = (box->columns + wide - 1) / wide;
    not_known_normal(x);
    for (uint64_t i = 0; i < rows * columns; i++) {
        uint64_t row = (rows_first ? i / columns : i % rows) * high;
        uint64_t column = (rows_first ? i % columns : i / rows) * wide;
        uint64_t rows_left = box->rows - row, columns_left = box->columns - column;
        tmi_tile tile = {.row = box->column + column,
                         .column = box->row + row,
                         .wide = columns_left < wide ? (size_t)columns_left : wide,
                         .high = rows_left < high ? (size_t)rows_left : high};
        tenmap_status status = run_tile(s, x, box, tile, error);
        if (status != TENMAP_OK)
            return status;
    }
    return TENMAP_OK;
}

/* The largest box of at most `count` elements that begins with element `first`. */
static tmi_values_box next_box(const tmi_value_rows *s, const tmi_transfer *x, uint64_t first,
                               uint64_t count) {
    uint64_t rows = s->transposed ? s->columns : s->rows;
    uint64_t columns = s->transposed ? s->rows : s->columns;
    uint64_t at = tmi_transfer_position(x, first), inside = first % x->run;
    uint64_t together = count < x->run - inside ? count : x->run - inside;
    tmi_values_box box = {.matrix = at / columns / rows,
                          .row = at / columns % rows,
                          .column = at % columns,
                          .rows = 1,
                          .columns = columns - at % columns,
                          .to = first};
    if (box.columns > together)
        box.columns = together;
    uint64_t most = rows - box.row;
    if (box.columns == columns) {
        box.rows = together / columns;
    } else if (inside == 0 && box.columns == x->run && x->walked && x->walk[0].stride == columns) {
        uint64_t left = x->walk[0].extent - first / x->run % x->walk[0].extent;
        box.rows = count / x->run < left ? count / x->run : left;
    }
    box.rows = box.rows < most ? box.rows : most;
    return box;
}

tenmap_status tmi_value_rows_run(tmi_value_rows *s, const tmi_transfer *x, uint64_t first,
                                 uint64_t count, tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    while (status == TENMAP_OK && count > 0) {
        tmi_values_box box = next_box(s, x, first, count);
        status = s->transposed ? run_transposed(s, x, &box, error) : run_rows(s, x, &box, error);
        first += box.rows * box.columns;
        count -= box.rows * box.columns;
    }
    if ((x->flags & TENMAP_CONVERT_STREAM) && tmi_cpu_kernels()->fence)
        tmi_cpu_kernels()->fence();
    return status;
}
