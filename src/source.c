/* Values that are made: a transfer's boxes, in the tiles that their source likes. */
#include "values.h"
#include "source.h"
#include "kernels/kernels.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * A tile of a matrix that is stored the other way round: as many stored rows as fill cache lines of the
 * destination, and as many of their columns as fill those of the file. Where parts are read, it is long
 * along the stored rows, so that reads are.
 */
enum { TILE_WIDE = 64, TILE_HIGH = 64, TILE_READ = TMI_SOURCE_RUN, TILE_FLAT = 8 };

/* Turns a thread's source to the tensor, unless it is there already. */
static tenmap_status turn_to(tmi_source *s, const tmi_transfer *x, const tmi_window *w,
                             tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    bool reading = w && w->room;
    bool ahead = tmi_transfer_is_dense(x);
    if (s->tensor != t || s->reading != reading) {
        const tmi_computed *c = tmi_computed_of(t);
        s->tensor = NULL;
        s->maker = &tmi_recipe_maker;
        s->recipe = &c->recipe;
        s->rows = c->recipe.rows;
        s->columns = c->recipe.columns;
        s->transposed = c->recipe.transposed;
        s->reading = reading;
        for (unsigned i = 0; i < TMI_PART_COUNT; i++) {
            tmi_part *part = &s->parts[i];
            part->tensor = c->parts[i];
            part->base = part->tensor && !reading ? part->tensor->data : NULL;
            part->window.bytes = NULL;
            part->window.ahead = true;
            part->window.direct_fd = -1;
        }
    }
    s->parts[TMI_PART_VALUES].window.ahead = ahead || s->transposed;
    s->parts[TMI_PART_VALUES].window.direct_fd = reading ? w->direct_fd : -1;
    if (s->tensor == t)
        return TENMAP_OK;
    const tenmap_tensor *turned = t;
    tenmap_status status = TENMAP_OK;
    s->tensor = t;
    if (s->maker->begin)
        status = s->maker->begin(s, error);
    s->tensor = status == TENMAP_OK ? turned : NULL;
    return status;
}

/* Elements that belong together in the destination, from number `to` of the transfer on. */
static void place_values(const tmi_transfer *x, uint64_t to, const float *values, uint64_t count,
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

/* A box that lies as it is stored: row after row. */
static tenmap_status run_rows(tmi_source *s, const tmi_transfer *x, const tmi_values_box *box,
                              tenmap_error *error) {
    for (uint64_t i = 0; i < box->rows; i++)
        for (uint64_t j = 0; j < box->columns; j += TMI_SOURCE_RUN) {
            uint64_t left = box->columns - j;
            size_t count = left < TMI_SOURCE_RUN ? (size_t)left : TMI_SOURCE_RUN;
            tenmap_status status = s->maker->row(s, box->matrix, box->row + i, box->column + j,
                                                 count, s->stored, error);
            if (status != TENMAP_OK)
                return status;
            place_values(x, box->to + i * box->columns + j, s->stored, count, x->flags);
        }
    return TENMAP_OK;
}

static void turn_tile(float *to, const float *from, size_t rows, size_t columns) {
    enum { SQUARE = 8 };
    for (size_t r = 0; r < rows; r += SQUARE)
        for (size_t c = 0; c < columns; c += SQUARE)
            for (size_t i = r; i < rows && i < r + SQUARE; i++)
                for (size_t k = c; k < columns && k < c + SQUARE; k++)
                    to[k * rows + i] = from[i * columns + k];
}

/* `high` rows and `wide` columns of the box, as the tensor has them, from (row, column) on. */
static tenmap_status run_tile(tmi_source *s, const tmi_transfer *x, const tmi_values_box *box,
                              uint64_t row, uint64_t column, size_t high, size_t wide,
                              tenmap_error *error) {
    for (size_t k = 0; k < wide; k++) {
        tenmap_status status = s->maker->row(s, box->matrix, box->column + column + k,
                                             box->row + row, high, s->stored + k * high, error);
        if (status != TENMAP_OK)
            return status;
    }
    turn_tile(s->turned, s->stored, wide, high);
    uint32_t flags = (x->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM;
    uint64_t to = box->to + row * box->columns + column;
    if (tenmap_dtype_bits(x->as) < 8 || x->row_stride) {
        for (size_t i = 0; i < high; i++)
            place_values(x, to + i * box->columns, s->turned + i * wide, wide, flags);
        return TENMAP_OK;
    }
    size_t bytes = tmi_dtype_width(x->as), line = wide * bytes;
    tmi_elements target = {x->as, 0, !TMI_BIG_ENDIAN}, from = {TENMAP_F32, 0, !TMI_BIG_ENDIAN};
    tmi_route(target, s->placed, from, s->turned, high * wide, flags);
    for (size_t i = 0; i < high; i++)
        memcpy(x->dst + (to + i * box->columns) * bytes, s->placed + i * line, line);
    return TENMAP_OK;
}

/* A box whose columns are stored rows. Elements of less than a byte go in order, row by row. */
static tenmap_status run_turned(tmi_source *s, const tmi_transfer *x, const tmi_values_box *box,
                                tenmap_error *error) {
    size_t high = tenmap_dtype_bits(x->as) < 8 ? 1 : s->parts[0].base ? TILE_HIGH : TILE_READ;
    size_t wide = s->parts[0].base ? TILE_WIDE : TILE_FLAT;
    bool rows_first = s->parts[0].base || high == 1;
    uint64_t rows = (box->rows + high - 1) / high, columns = (box->columns + wide - 1) / wide;
    for (uint64_t i = 0; i < rows * columns; i++) {
        uint64_t row = (rows_first ? i / columns : i % rows) * high;
        uint64_t column = (rows_first ? i % columns : i / rows) * wide;
        uint64_t rows_left = box->rows - row, columns_left = box->columns - column;
        tenmap_status status =
            run_tile(s, x, box, row, column, rows_left < high ? (size_t)rows_left : high,
                     columns_left < wide ? (size_t)columns_left : wide, error);
        if (status != TENMAP_OK)
            return status;
    }
    return TENMAP_OK;
}

/* The largest box that elements from `first` on begin with, at most `count` of them. */
static tmi_values_box next_box(const tmi_source *s, const tmi_transfer *x, uint64_t first,
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

static tmi_source *new_source(tenmap_error *error) {
    tmi_source *s = malloc(sizeof *s);
    if (!s) {
        tmi_fail_memory(error, sizeof *s, "making values");
        return NULL;
    }
    memset(s, 0, offsetof(tmi_source, kept)); /* the rest is written before it is read */
    return s;
}

void tmi_source_free(tmi_source *s) {
    for (unsigned i = 0; s && i < TMI_PART_COUNT; i++)
        tmi_block_free(&s->parts[i].room);
    free(s);
}

/* Elements of a tensor that has a source. */
static tenmap_status make_values(const tmi_transfer *x, const tmi_window *w, tmi_source *s,
                                 uint64_t first, uint64_t count, tenmap_error *error) {
    tenmap_status status = turn_to(s, x, w, error);
    while (status == TENMAP_OK && count > 0) {
        tmi_values_box box = next_box(s, x, first, count);
        status = s->transposed ? run_turned(s, x, &box, error) : run_rows(s, x, &box, error);
        first += box.rows * box.columns;
        count -= box.rows * box.columns;
    }
    return status;
}

tenmap_status tmi_values_run(const tmi_transfer *x, tmi_window *w, tmi_source **source,
                             uint64_t first, uint64_t count, tenmap_error *error) {
    if (!x->made)
        return tmi_transfer_run(x, w, first, count, error);
    if (!*source)
        *source = new_source(error);
    return *source ? make_values(x, w, *source, first, count, error) : TENMAP_ERR_MEMORY;
}

/* The bytes that elements before number `i` of a tensor's take, of all its parts together. */
static uint64_t bytes_before(const tenmap_tensor *t, uint64_t i) {
    uint64_t all = tmi_computed_of(t)->part_bytes;
    if (i >= t->nelems)
        return all;
    return (uint64_t)((double)all * ((double)i / (double)t->nelems));
}

uint64_t tmi_stored_bytes(const tenmap_tensor *t, uint64_t first, uint64_t count) {
    if (!(t->flags & TENMAP_TENSOR_COMPUTED)) {
        uint64_t bytes = t->nbytes;
        if (count != t->nelems)
            (void)tmi_dtype_bytes(t->dtype, count, &bytes);
        return bytes;
    }
    return bytes_before(t, first + count) - bytes_before(t, first);
}

tenmap_status tmi_values_read(const tenmap_tensor *t, tmi_source **source, uint64_t first,
                              uint64_t count, tenmap_dtype as, uint32_t flags, void *dst,
                              size_t dst_bytes, bool checked, tenmap_error *error) {
    tmi_window reads = {.room = dst, .direct_fd = -1}; /* which only says that there is one */
    tmi_transfer x;
    tenmap_status status = tmi_transfer_begin(&x, t, TENMAP_AS_STORED, as, flags, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_range(&x, first, count, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_target(&x, dst, dst_bytes, 0, error);
    if (status != TENMAP_OK || count == 0)
        return status;
    return tmi_values_run(&x, checked ? &reads : NULL, source, 0, count, error);
}
