/*
 * Moves elements of tensors: renamed, cut, joined, stacked, with their axes in another order. What
 * a transfer asks for becomes boxes, each box becomes one for each term, and each of these becomes
 * pieces of two axes, which term_reader.c reads straight into the destination.
 */
#include "../model/derived.h"
#include "conversion_route.h"
#include "term_reader.h"
#include "value_source.h"

#include <string.h>

/* Elements that have to be converted in order are gathered first. */
enum { ORDERED_BYTES = 64 << 10 };
/* Axes of extent 1 were left out, except for the joined one. */
enum { MOST_MOVED_AXES = TMI_MOST_WALKED + 1 };

typedef struct move_source {
    tmi_term_reader reader; /* comes first */
    unsigned char ordered[ORDERED_BYTES];
} move_source;

/* Where elements go: to their places in a transfer, or one after the other into a buffer. */
typedef struct move_target {
    const tmi_transfer *x;
    unsigned char *buffer; /* NULL: to the transfer */
    uint64_t first;        /* the element of the transfer that goes to the buffer's begin */
    tenmap_dtype as;
    uint32_t flags;
} move_target;

/* An axis of a box: its extent, and how far apart elements are in the tensor and in the result. */
typedef struct move_axis {
    uint64_t extent, stride, step;
} move_axis;

/* A box of the result: the first index and the extent in each axis. */
typedef struct move_box {
    uint64_t begin[MOST_MOVED_AXES], extent[MOST_MOVED_AXES], step[MOST_MOVED_AXES];
    uint64_t count;
} move_box;

/* The largest box of at most `count` elements that begins with element `first` of the transfer. */
static void next_box_of(const tmi_derived_tensor *d, const tmi_transfer *x, uint64_t first,
                        uint64_t count, move_box *box) {
    uint64_t at = tmi_transfer_position(x, first), inside = first % x->run, inner = 1;
    uint64_t together = count < x->run - inside ? count : x->run - inside;
    bool whole = true; /* all axes behind this one are taken whole */
    box->count = 1;
    for (uint32_t i = d->rank; i-- > 0; inner *= d->extents[i]) {
        uint64_t extent = d->extents[i], left;
        box->begin[i] = at / inner % extent;
        box->extent[i] = 1;
        box->step[i] = inner;
        if (!whole)
            continue;
        left = extent - box->begin[i];
        box->extent[i] = together / inner < left ? together / inner : left;
        box->count *= box->extent[i];
        whole = box->extent[i] == extent;
    }
    if (inside != 0 || box->count != x->run || !x->walked)
        return;
    uint64_t runs = count / x->run, left = x->walk[0].extent - first / x->run % x->walk[0].extent;
    inner = 1;
    for (uint32_t i = d->rank; i-- > 0; inner *= d->extents[i])
        if (inner == x->walk[0].stride && d->extents[i] > 1 && box->extent[i] == 1) {
            uint64_t most = d->extents[i] - box->begin[i];
            most = most < left ? most : left;
            box->extent[i] = runs < most ? runs : most;
            box->step[i] = x->run;
            box->count *= box->extent[i];
        }
}

/* Reads rows into a transfer whose own rows lie apart, part by part. */
static tenmap_status read_in_parts(move_source *s, const tmi_piece *p, const move_target *to,
                                   uint64_t number, uint64_t row_step, tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    for (uint64_t i = 0; i < p->row.extent; i++)
        for (uint64_t j = 0, n; status == TENMAP_OK && j < p->column.extent; j += n) {
            unsigned bit;
            n = p->column.extent - j;
            tmi_term_target target = {to->as, to->flags, NULL, 0};
            target.dst = tmi_transfer_place(to->x, number + i * row_step + j, &n, &bit);
            tmi_piece part = {p->tensor,
                              p->at + i * p->row.stride + j * p->column.stride,
                              {1, 0},
                              {n, p->column.stride}};
            status = tmi_read_piece(&s->reader, &part, &target, error);
        }
    return status;
}

/* Reads a piece that goes to element `number` of the transfer; its rows are `row_step` apart. */
static tenmap_status read_moved(move_source *s, const tmi_piece *p, const move_target *to,
                                uint64_t number, uint64_t row_step, tenmap_error *error) {
    tmi_term_target target = {to->as, to->flags, NULL, 0};
    uint64_t row = to->x->row, stride = to->x->row_stride;
    unsigned bit;
    target.line = (size_t)tmi_bytes_of(to->as, row_step);
    if (to->buffer) {
        target.dst = to->buffer + tmi_bytes_of(to->as, number - to->first);
    } else if (!stride) {
        target.dst = to->x->dst + tmi_byte_of(to->as, number, &bit);
    } else {
        uint64_t part = p->column.extent;
        target.dst = tmi_transfer_place(to->x, number, &part, &bit);
        target.line = (size_t)(row_step / row * stride);
        if (part < p->column.extent || (p->row.extent > 1 && row_step % row != 0))
            return read_in_parts(s, p, to, number, row_step, error);
    }
    return tmi_read_piece(&s->reader, p, &target, error);
}

/* A box of one term: where it begins in the tensor and in the transfer, and its axes. */
typedef struct term_box {
    tmi_piece piece;
    uint64_t number;
    move_axis axes[MOST_MOVED_AXES]; /* innermost first; those of extent 1 are left out */
    unsigned count;
} term_box;

/* Adds an axis; one that continues the last one becomes one with it. */
static void add_move_axis(term_box *box, move_axis axis) {
    move_axis *last = box->count ? &box->axes[box->count - 1] : NULL;
    if (axis.extent == 1)
        return;
    if (last && axis.stride == last->stride * last->extent &&
        axis.step == last->step * last->extent)
        last->extent *= axis.extent;
    else
        box->axes[box->count++] = axis;
}

static move_axis take_axis(term_box *box, unsigned i) {
    move_axis taken = box->axes[i];
    box->count--;
    for (; i < box->count; i++)
        box->axes[i] = box->axes[i + 1];
    return taken;
}

/*
 * Makes the piece two of the axes: its columns lie together in the result and its rows in the
 * tensor, or both the columns. Returns how far apart its rows are in the result.
 */
static uint64_t choose_piece(term_box *box) {
    move_axis column = {1, 1, 1}, row = {1, 0, 0};
    unsigned closest = 0;
    if (box->count && box->axes[0].step == 1)
        column = take_axis(box, 0);
    while (closest < box->count && box->axes[closest].stride != 1)
        closest++;
    if (box->count)
        row = take_axis(box, column.stride != 1 && closest < box->count ? closest : 0);
    box->piece.row = (tmi_walk){row.extent, row.stride};
    box->piece.column = (tmi_walk){column.extent, column.stride};
    return row.step;
}

/* Reads a box of one term: pieces of two axes, for all indexes of the others. */
static tenmap_status read_term_box(move_source *s, term_box *box, const move_target *to,
                                   tenmap_error *error) {
    uint64_t index[MOST_MOVED_AXES] = {0};
    uint64_t row_step = choose_piece(box);
    for (;;) {
        tenmap_status status = read_moved(s, &box->piece, to, box->number, row_step, error);
        unsigned i = 0;
        for (; status == TENMAP_OK && i < box->count; i++) {
            const move_axis *axis = &box->axes[i];
            box->piece.at += axis->stride;
            box->number += axis->step;
            if (++index[i] < axis->extent)
                break;
            box->piece.at -= axis->stride * axis->extent;
            box->number -= axis->step * axis->extent;
            index[i] = 0;
        }
        if (status != TENMAP_OK || i == box->count)
            return status;
    }
}

/* The term that has this index of the joined axis. */
static uint32_t term_at(const tmi_derived_tensor *d, uint64_t index) {
    uint32_t low = 0, behind = d->n;
    while (behind - low > 1) {
        uint32_t middle = low + (behind - low) / 2;
        if (d->starts[middle] <= index)
            low = middle;
        else
            behind = middle;
    }
    return low;
}

/* What indexes [from, behind) of the joined axis of a box are of term `k`, which has them all. */
static void find_term_box(const tmi_derived_tensor *d, uint32_t k, const move_box *box,
                          uint64_t from, uint64_t behind, term_box *out) {
    const tmi_derived_term *term = &d->terms[k];
    out->piece.tensor = term->tensor;
    out->piece.at = term->at;
    out->count = 0;
    for (uint32_t i = d->rank; i-- > 0;) {
        bool joined = i == d->joined;
        uint64_t begin = joined ? from - d->starts[k] : box->begin[i];
        uint64_t extent = joined ? behind - from : box->extent[i];
        out->piece.at += begin * term->axes[i].stride;
        out->number += joined ? (from - box->begin[i]) * box->step[i] : 0;
        add_move_axis(out, (move_axis){extent, term->axes[i].stride, box->step[i]});
    }
}

/* Reads elements [first, first+count) of the transfer. */
static tenmap_status read_boxes(move_source *s, const tmi_transfer *x, const move_target *to,
                                uint64_t first, uint64_t count, tenmap_error *error) {
    const tmi_derived_tensor *d = tmi_derived_of(x->computed);
    tenmap_status status = TENMAP_OK;
    move_box box;
    term_box part;
    for (; status == TENMAP_OK && count > 0; first += box.count, count -= box.count) {
        next_box_of(d, x, first, count, &box);
        if (d->joined == d->rank) {
            part.number = first;
            find_term_box(d, 0, &box, 0, 1, &part);
            status = read_term_box(s, &part, to, error);
            continue;
        }
        uint64_t at = box.begin[d->joined], end = at + box.extent[d->joined];
        for (uint32_t k = term_at(d, at); status == TENMAP_OK && at < end; k++) {
            uint64_t behind = d->starts[k + 1] < end ? d->starts[k + 1] : end;
            if (behind > at) {
                part.number = first;
                find_term_box(d, k, &box, at, behind, &part);
                status = read_term_box(s, &part, to, error);
            }
            at = behind;
        }
    }
    return status;
}

/* Whether elements have to be converted one after the other. */
static bool needs_order(const tmi_transfer *x) {
    uint32_t bits = tenmap_dtype_bits(x->as);
    return !x->dst || (bits > 0 && bits < 8) || tmi_route_is_integer(x->as, x->stored);
}

/* The dtype in which such elements are gathered. */
static tenmap_dtype gathered_dtype(const tmi_transfer *x) {
    if (x->computed->values)
        return x->computed->gives;
    return tmi_dtype_width(x->stored) ? x->stored : TENMAP_F32; /* block dtypes are floats */
}

/* Gathers elements in the order of the transfer, then converts them. */
static tenmap_status run_ordered(move_source *s, const tmi_transfer *x, uint64_t first,
                                 uint64_t count, tenmap_error *error) {
    tenmap_dtype from = gathered_dtype(x);
    size_t width = tmi_dtype_width(from);
    uint64_t room = ORDERED_BYTES / width / 8 * 8;
    for (uint64_t n; count > 0; first += n, count -= n) {
        n = count < room ? count : room;
        move_target to = {x, s->ordered, first, from, TENMAP_CONVERT_NO_STREAM};
        tenmap_status status = read_boxes(s, x, &to, first, n, error);
        if (status != TENMAP_OK)
            return status;
        tmi_to_file_order(s->ordered, width, (size_t)n);
        for (uint64_t i = 0, part; i < n; i += part) {
            unsigned bit;
            part = n - i;
            unsigned char *dst = tmi_transfer_place(x, first + i, &part, &bit);
            const unsigned char *at = s->ordered + i * width;
            uint64_t fit = tmi_convert_file((tmi_packed){x->as, bit}, dst, (tmi_packed){from, 0},
                                            at, part, x->flags);
            if (fit < part)
                return tmi_transfer_misfit(x, at + fit * width,
                                           tmi_transfer_position(x, first + i + fit),
                                           x->tensor->file_offset, error);
        }
    }
    return TENMAP_OK;
}

static tenmap_status run_moves(void *state, const tmi_transfer *x, const tmi_window *w,
                               uint64_t first, uint64_t count, tenmap_error *error) {
    move_source *s = state;
    move_target to = {x, NULL, 0, x->as, x->flags};
    tmi_term_reader_switch(&s->reader, w);
    if (x->normal)
        *x->normal = false;
    return needs_order(x) ? run_ordered(s, x, first, count, error)
                          : read_boxes(s, x, &to, first, count, error);
}

static void begin_moves(void *state, const tmi_nested_calls *nested) {
    tmi_term_reader_begin(&((move_source *)state)->reader, nested);
}

static void end_moves(void *state) {
    tmi_term_reader_end(&((move_source *)state)->reader);
}

/* Rows are moved whole, from terms that are stored in rows. */
static bool moves_in_rows(const tmi_computed *computed, const tmi_nested_calls *nested) {
    const tmi_derived_tensor *d = tmi_derived_of(computed);
    bool rows = true;
    for (uint32_t k = 0; rows && k < d->n; k++)
        rows = nested->in_rows(d->terms[k].tensor) &&
               (d->rank == 0 || d->terms[k].axes[d->rank - 1].stride <= 1);
    return rows;
}

const tmi_maker tmi_move_maker = {sizeof(move_source), begin_moves,   end_moves,
                                  run_moves,           moves_in_rows, NULL};
