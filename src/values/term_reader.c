/* Reads pieces of the terms of derived tensors: ranges, rows, transposed tiles, single elements. */
#include "../model/computed.h"
#include "../kernels/kernels.h"
#include "cpu.h"
#include "term_reader.h"

#include <string.h>

/* The window on a stored term that is not in memory. */
enum { TERM_WINDOW = 256 << 10, LEAST_TERM_WINDOW = 64 << 10 };
/* Runs of mapped bytes that are worth asking the system for before they are touched. */
enum { POPULATE_FROM = 256 << 10 };
/* Shorter rows, in bytes, are written with normal stores. */
enum { STREAM_ROW_FROM = 4 << 10 };
/* Rows that begin at most this many bytes apart are read together with the gaps. */
enum { ROW_GAP = 16 << 10 };
/* A tile of elements that are transposed: so many at most go down a column of the result. */
enum { TILE_HIGH = 512 };
/* Elements at most this far apart are picked from a run that is read whole. */
enum { PICKED_STRIDE = 16 };

void tmi_term_reader_begin(tmi_term_reader *r, const tmi_nested_calls *nested) {
    r->nested = nested;
    r->source = NULL;
    r->next = 0;
    r->reading = false;
    r->direct_fd = -1;
    r->direct_of = NULL;
    for (unsigned i = 0; i < TMI_TERM_WINDOWS; i++)
        tmi_part_begin(&r->stored[i]);
}

void tmi_term_reader_end(tmi_term_reader *r) {
    r->nested->release(r->source);
    for (unsigned i = 0; i < TMI_TERM_WINDOWS; i++)
        tmi_part_close(&r->stored[i]);
}

void tmi_term_reader_switch(tmi_term_reader *r, const tmi_window *w) {
    bool reading = w && w->buffer;
    for (unsigned i = 0; i < TMI_TERM_WINDOWS && reading != r->reading; i++)
        r->stored[i].tensor = NULL;
    r->reading = reading;
    r->direct_fd = reading ? w->direct_fd : -1;
    r->direct_of = reading ? w->bytes : NULL;
}

/* The descriptor for reads of a tensor that bypass the page cache, or -1. */
static int direct_fd_of(const tmi_term_reader *r, const tenmap_tensor *t) {
    return r->direct_of == &tmi_shard_of(t)->bytes ? r->direct_fd : -1;
}

/* The reader of a stored tensor, with an open window if its bytes are not to be used in memory. */
static tenmap_status find_reader(tmi_term_reader *r, const tenmap_tensor *t, bool ahead,
                                 tmi_part_reader **out, tenmap_error *error) {
    unsigned i = 0;
    while (i < TMI_TERM_WINDOWS && r->stored[i].tensor != t)
        i++;
    if (i == TMI_TERM_WINDOWS) {
        i = r->next;
        r->next = (i + 1) % TMI_TERM_WINDOWS;
        tmi_part_switch(&r->stored[i], t, r->reading);
    }
    tmi_part_reader *part = *out = &r->stored[i];
    if (part->base)
        return TENMAP_OK;
    part->window.direct_fd = direct_fd_of(r, t);
    part->window.ahead = ahead;
    size_t size = tmi_bytes_window_size(&tmi_shard_of(t)->bytes, TERM_WINDOW);
    return tmi_part_open(part, size < LEAST_TERM_WINDOW ? LEAST_TERM_WINDOW : size, false, error);
}

/*
 * A maker of strided tensors takes blocks of the tensor's axes. Whether rows of `run` elements,
 * `stride` apart, are one.
 */
static bool is_block_of(const tenmap_tensor *t, uint64_t at, uint64_t rows, uint64_t stride,
                        uint64_t run) {
    uint64_t inside = 1, cut = 0, row_axis = 0;
    for (uint32_t d = t->rank; d-- > 0; inside *= t->shape[d]) {
        uint64_t index = at / inside % t->shape[d];
        if (!cut && run <= inside * t->shape[d]) { /* the outermost axis of a run */
            cut = 1;
            if (run % inside != 0 || at % inside != 0 || index + run / inside > t->shape[d])
                return false;
        } else if (cut && !row_axis && stride == inside && t->shape[d] > 1) {
            row_axis = 1;
            if (index + rows > t->shape[d])
                return false;
        }
    }
    return cut && row_axis;
}

/* Reads rows whose elements lie one after the other in the tensor. */
static tenmap_status run_rows_of(tmi_term_reader *r, tmi_transfer *y, bool ahead,
                                 tenmap_error *error) {
    const tenmap_tensor *t = y->tensor;
    if (y->computed) {
        tmi_window marks = {.buffer = r->reading ? y->dst : NULL, .direct_fd = direct_fd_of(r, t)};
        marks.bytes = &tmi_shard_of(t)->bytes;
        return r->nested->run(y, &marks, &r->source, 0, y->count, error);
    }
    tmi_part_reader *part;
    tmi_window none = {.buffer = NULL};
    tenmap_status status = find_reader(r, t, ahead, &part, error);
    if (status != TENMAP_OK)
        return status;
    if (part->base && tmi_bytes_of(y->stored, y->run) >= POPULATE_FROM) {
        uint64_t begin, end;
        tmi_transfer_extent(y, 0, y->count, &begin, &end);
        status = tmi_populate_span((tmi_span){tmi_shard_of(t), begin, end}, t, error);
    }
    return status == TENMAP_OK
               ? tmi_transfer_run(y, part->base ? &none : &part->window, 0, y->count, error)
               : status;
}

/* Reads a piece whose columns lie one after the other in the tensor. */
static tenmap_status read_rows(tmi_term_reader *r, const tmi_piece *p, const tmi_term_target *to,
                               tenmap_error *error) {
    const tenmap_tensor *t = p->tensor;
    uint64_t rows = p->row.extent, columns = p->column.extent;
    uint64_t line = tmi_bytes_of(to->as, columns);
    tmi_walk walk = {rows, p->row.stride};
    tmi_transfer y = {.tensor = t,
                      .stored = t->dtype,
                      .computed = tmi_computed_of(t),
                      .as = to->as,
                      .flags = to->flags,
                      .elements = t->nelems,
                      .dst = to->dst,
                      .row = columns,
                      .start = p->at,
                      .run = columns,
                      .count = columns,
                      .walk = &walk};
    if (rows > 1 && walk.stride == columns && to->line == line) /* one long row */
        y.row = y.run = y.count = rows * columns;
    if (y.count < rows * columns && tmi_bytes_of(to->as, columns) < STREAM_ROW_FROM)
        y.flags = (y.flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM;
    bool ahead = y.count == rows * columns || columns >= walk.stride / 2 ||
                 tmi_stored_distance(t, t->dtype, walk.stride) <= ROW_GAP;
    if (y.count == rows * columns)
        return run_rows_of(r, &y, ahead, error);
    if (!y.computed || y.computed->maker != TMI_MAKER_STRIDED ||
        is_block_of(t, p->at, rows, walk.stride, columns)) {
        y.row_stride = to->line != line ? to->line : 0;
        y.count = rows * columns;
        y.walked = 1;
        return run_rows_of(r, &y, ahead, error);
    }
    tenmap_status status = TENMAP_OK;
    for (uint64_t i = 0; status == TENMAP_OK && i < rows; i++) {
        status = run_rows_of(r, &y, ahead, error);
        y.start += walk.stride;
        y.dst += to->line;
    }
    return status;
}

/* Copies `count` elements that lie `step` bytes apart to places that lie `to_step` bytes apart. */
static void pick_apart(unsigned char *to, size_t to_step, const unsigned char *from, size_t step,
                       size_t count, size_t width) {
#define PICK_WIDTH(size)                                                                           \
    for (size_t i = 0; i < count; i++)                                                             \
    memcpy(to + i * to_step, from + i * step, size)
    if (width == 1)
        PICK_WIDTH(1);
    else if (width == 2)
        PICK_WIDTH(2);
    else if (width == 4)
        PICK_WIDTH(4);
    else
        PICK_WIDTH(8);
#undef PICK_WIDTH
}

/* Transposes lines of elements: line i of `from` becomes column i of the result. */
static void transpose_lines(const tmi_term_target *to, const unsigned char *from, size_t from_line,
                            size_t lines, size_t count, size_t width) {
    enum { SQUARE = 16 };
    const tmi_kernels *k = tmi_cpu_kernels();
    tmi_lines out = {to->dst, to->line};
    tmi_const_lines in = {from, from_line};
    if (width == 2)
        k->transpose16(out, in, lines, count, false);
    else if (width == 4)
        k->transpose32(out, in, lines, count, false);
    for (size_t i = 0; i < lines && width != 2 && width != 4; i += SQUARE)
        for (size_t j = 0; j < count; j += SQUARE)
            for (size_t n = i; n < lines && n < i + SQUARE; n++)
                pick_apart(to->dst + j * to->line + n * width, to->line,
                           from + n * from_line + j * width, width,
                           count - j < SQUARE ? count - j : SQUARE, width);
}

/* A tile of a piece. */
static tmi_piece tile_of(const tmi_piece *p, uint64_t row, uint64_t column, uint64_t rows,
                         uint64_t columns) {
    return (tmi_piece){p->tensor,
                       p->at + row * p->row.stride + column * p->column.stride,
                       {rows, p->row.stride},
                       {columns, p->column.stride}};
}

static tmi_term_target target_at(const tmi_term_target *to, uint64_t row, uint64_t column,
                                 size_t width) {
    tmi_term_target out = *to;
    out.flags = (to->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM;
    out.dst += row * to->line + column * width;
    return out;
}

/* The bytes of a stored tensor that is in memory and not converted; otherwise NULL. */
static const unsigned char *bytes_in_place(const tmi_term_reader *r, const tmi_piece *p,
                                           const tmi_term_target *to, size_t width) {
    const tenmap_tensor *t = p->tensor;
    if (r->reading || !t->data || to->as != t->dtype || (TMI_BIG_ENDIAN && width > 1))
        return NULL;
    return (const unsigned char *)t->data + p->at * width;
}

/* Reads a piece whose rows lie one after the other in the tensor: it is transposed. */
static tenmap_status read_transposed(tmi_term_reader *r, const tmi_piece *p,
                                     const tmi_term_target *to, tenmap_error *error) {
    size_t width = tmi_dtype_width(to->as), room = TMI_TRANSPOSED_BYTES / width;
    uint64_t rows = p->row.extent, columns = p->column.extent;
    uint64_t high = rows < TILE_HIGH ? rows : TILE_HIGH, wide = room / high;
    tenmap_status status = TENMAP_OK;
    wide = wide < columns ? wide : columns;
    for (uint64_t j = 0; status == TENMAP_OK && j < columns; j += wide)
        for (uint64_t i = 0; status == TENMAP_OK && i < rows; i += high) {
            size_t h = (size_t)(rows - i < high ? rows - i : high);
            size_t w = (size_t)(columns - j < wide ? columns - j : wide);
            tmi_piece tile = tile_of(p, i, j, h, w);
            tmi_term_target target = target_at(to, i, j, width);
            const unsigned char *from = bytes_in_place(r, &tile, to, width);
            if (from) {
                transpose_lines(&target, from, (size_t)p->column.stride * width, w, h, width);
                continue;
            }
            tmi_piece lines = {tile.tensor, tile.at, tile.column, tile.row};
            tmi_term_target transposed = {to->as, target.flags, r->transposed, h * width};
            status = read_rows(r, &lines, &transposed, error);
            if (status == TENMAP_OK)
                transpose_lines(&target, r->transposed, h * width, w, h, width);
        }
    return status;
}

/* Reads one row of elements that lie apart. */
static tenmap_status read_apart(tmi_term_reader *r, const tmi_piece *p, const tmi_term_target *to,
                                tenmap_error *error) {
    size_t width = tmi_dtype_width(to->as);
    const unsigned char *from = bytes_in_place(r, p, to, width);
    uint64_t count = p->column.extent, stride = p->column.stride;
    if (from) {
        pick_apart(to->dst, width, from, (size_t)stride * width, (size_t)count, width);
        return TENMAP_OK;
    }
    bool near = stride <= PICKED_STRIDE;
    uint64_t most = near ? (TMI_TRANSPOSED_BYTES / width - 1) / (stride ? stride : 1) + 1 : 1;
    tenmap_status status = TENMAP_OK;
    for (uint64_t i = 0, n; status == TENMAP_OK && i < count; i += n) {
        n = count - i < most ? count - i : most;
        tmi_piece run = {p->tensor, p->at + i * stride, {1, 0}, {(n - 1) * stride + 1, 1}};
        tmi_term_target target = {to->as, to->flags, r->transposed, 0};
        target.flags = (to->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM;
        status = read_rows(r, &run, &target, error);
        if (status == TENMAP_OK)
            pick_apart(to->dst + i * width, width, r->transposed, (size_t)stride * width, (size_t)n,
                       width);
    }
    return status;
}

tenmap_status tmi_read_piece(tmi_term_reader *r, const tmi_piece *p, const tmi_term_target *to,
                             tenmap_error *error) {
    if (p->column.stride == 1 || p->column.extent == 1)
        return p->row.extent > 1 && p->row.stride == 1 && p->column.extent == 1
                   ? read_transposed(r, p, to, error)
                   : read_rows(r, p, to, error);
    if (p->row.stride == 1 && p->row.extent > 1)
        return read_transposed(r, p, to, error);
    size_t width = tmi_dtype_width(to->as);
    tenmap_status status = TENMAP_OK;
    for (uint64_t i = 0; status == TENMAP_OK && i < p->row.extent; i++) {
        tmi_piece row = tile_of(p, i, 0, 1, p->column.extent);
        tmi_term_target target = target_at(to, i, 0, width);
        status = read_apart(r, &row, &target, error);
    }
    return status;
}
