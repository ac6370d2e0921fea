/*
 * Gives the elements of a storage that a tensor sees with strides. Elements that lie together go
 * straight to the conversion; others are gathered into a buffer first. A tensor whose rows are
 * columns of the storage is gathered in tiles, so that each page of the storage is visited once for
 * many rows.
 */
#include "value_source.h"
#include "part_reader.h"
#include "conversion_route.h"
#include "../kernels/kernels.h"

#include <string.h>

/* The window on a storage that is not in memory, and the bytes of it that are asked for at once. */
enum { STORAGE_WINDOW = 256 << 10, LEAST_WINDOW = 64 << 10, FETCH_BYTES = 16 << 10 };
/* The buffer for elements that do not lie together. */
enum { GATHERED_BYTES = 64 << 10 };
/* Shorter runs, in bytes, are gathered before they are converted. */
enum { LEAST_RUN_BYTES = 512 };
/* Longer reads, in bytes, of elements that are not converted go straight to the destination. */
enum { READ_DIRECT_FROM = 8 << 10 };
/* Bytes to skip in the file that cost as much as a second read. */
enum { STRIDED_GAP = 16 << 10 };
/* Elements of a row of a tile, if the storage is in memory. */
enum { TILE_WIDE = 128 };

/*
 * The state of the maker. The axes are those of what the transfer asks for, innermost first, with
 * strides in elements of the storage. Axes of extent 1 are left out, and axes that continue one
 * another are one; at least one is left, since a single element lies together.
 */
typedef struct strided_source {
    tmi_part_reader storage;
    bool reading;
    size_t width;  /* bytes of an element */
    uint64_t at;   /* the storage's element that is element 0 of the axes */
    uint64_t skip; /* the element of the axes that is element 0 of the transfer */
    unsigned axes;
    tmi_walk axis[TMI_MOST_WALKED];
    unsigned char gathered[GATHERED_BYTES];
} strided_source;

/* An element of the axes, and where it lies in the storage. */
typedef struct strided_cursor {
    uint64_t at;
    uint64_t index[TMI_MOST_WALKED];
} strided_cursor;

static void add_axis(strided_source *s, uint64_t extent, uint64_t stride) {
    tmi_walk *last = s->axes ? &s->axis[s->axes - 1] : NULL;
    if (extent == 1)
        return;
    if (last && stride == last->extent * last->stride)
        last->extent *= extent;
    else
        s->axis[s->axes++] = (tmi_walk){extent, stride};
}

/*
 * Sets the axes of the transfer. A block has the tensor's axes with smaller extents; any other
 * range has those of the whole tensor, and begins with one of its elements.
 */
static void set_axes(strided_source *s, const tmi_transfer *x) {
    const tenmap_tensor *t = x->tensor;
    const uint64_t *strides = tmi_strided_of(x->computed)->strides;
    uint64_t inside = 1; /* elements of the tensor from one index of this axis to the next */
    unsigned walked = 0;
    s->axes = 0;
    s->at = 0;
    s->skip = x->walked ? 0 : x->start;
    for (uint32_t d = t->rank; d-- > 0; inside *= t->shape[d]) {
        uint64_t extent = t->shape[d];
        if (x->walked) {
            s->at += x->start / inside % t->shape[d] * strides[d];
            if (inside >= x->run) /* an axis that is walked, or of which one index is taken */
                extent = walked < x->walked && x->walk[walked].stride == inside && extent > 1
                             ? x->walk[walked++].extent
                             : 1;
            else if (x->run / inside < extent)
                extent = x->run / inside;
        }
        add_axis(s, extent, strides[d]);
    }
}

static void seek(const strided_source *s, uint64_t number, strided_cursor *c) {
    c->at = s->at;
    c->index[0] = 0;
    for (unsigned d = 0; d < s->axes; d++) {
        c->index[d] = number % s->axis[d].extent;
        number /= s->axis[d].extent;
        c->at += c->index[d] * s->axis[d].stride;
    }
}

/* Steps `count` elements along the innermost axis, to its end at most. */
static void advance(const strided_source *s, strided_cursor *c, uint64_t count) {
    c->at += count * s->axis[0].stride;
    c->index[0] += count;
    for (unsigned d = 0; d < s->axes && c->index[d] == s->axis[d].extent; d++) {
        c->at -= s->axis[d].extent * s->axis[d].stride;
        c->index[d] = 0;
        if (d + 1 < s->axes) {
            c->at += s->axis[d + 1].stride;
            c->index[d + 1]++;
        }
    }
}

/* Sets *bytes to `count` elements of the storage, which fit into the window if there is one. */
static tenmap_status fetch_elements(strided_source *s, uint64_t at, uint64_t count,
                                    const unsigned char **bytes, tenmap_error *error) {
    const tenmap_tensor *t = s->storage.tensor;
    if (s->storage.base) {
        *bytes = s->storage.base + at * s->width;
        return TENMAP_OK;
    }
    return tmi_window_bytes(&s->storage.window, t->file_offset + at * s->width,
                            (size_t)count * s->width, t, bytes, error);
}

/* The widths of elements that pick_elements knows. */
#define HAS_KNOWN_WIDTH(name, bits, ...)                                                           \
    _Static_assert(bits < 8 || bits == 8 || bits == 16 || bits == 32 || bits == 64,                \
                   "pick_elements must know the width of " #name);
TMI_DTYPES(HAS_KNOWN_WIDTH)
#undef HAS_KNOWN_WIDTH

/* Copies `count` elements that lie `step` bytes apart to places that lie `to_step` bytes apart. */
static void pick_elements(unsigned char *to, size_t to_step, const unsigned char *from, size_t step,
                          size_t count, size_t width) {
#define PICK(size)                                                                                 \
    for (size_t i = 0; i < count; i++)                                                             \
    memcpy(to + i * to_step, from + i * step, size)
    if (width == 1)
        PICK(1);
    else if (width == 2)
        PICK(2);
    else if (width == 4)
        PICK(4);
    else
        PICK(8);
#undef PICK
}

/* `count` elements of the storage, `stride` elements apart. */
typedef struct strided_run {
    uint64_t at, stride, count;
} strided_run;

/* Copies a run to places `to_step` bytes apart. */
static tenmap_status copy_elements(strided_source *s, strided_run run, unsigned char *to,
                                   size_t to_step, tenmap_error *error) {
    uint64_t at = run.at, stride = run.stride, count = run.count;
    uint64_t most = FETCH_BYTES / s->width;
    uint64_t together = s->storage.base || stride == 0 ? count : (most - 1) / stride + 1;
    if (stride * s->width > STRIDED_GAP && !s->storage.base)
        together = 1;
    for (uint64_t n; count > 0; count -= n) {
        const unsigned char *bytes;
        n = count < together ? count : together;
        tenmap_status status = fetch_elements(s, at, (n - 1) * stride + 1, &bytes, error);
        if (status != TENMAP_OK)
            return status;
        if (stride == 1 && to_step == s->width)
            memcpy(to, bytes, (size_t)n * s->width);
        else
            pick_elements(to, to_step, bytes, (size_t)stride * s->width, (size_t)n, s->width);
        at += n * stride;
        to += n * to_step;
    }
    return TENMAP_OK;
}

/* Gathers the next `count` elements. */
static tenmap_status gather(strided_source *s, strided_cursor *c, uint64_t count, unsigned char *to,
                            tenmap_error *error) {
    while (count > 0) {
        uint64_t left = s->axis[0].extent - c->index[0], n = count < left ? count : left;
        tenmap_status status =
            copy_elements(s, (strided_run){c->at, s->axis[0].stride, n}, to, s->width, error);
        if (status != TENMAP_OK)
            return status;
        advance(s, c, n);
        to += n * s->width;
        count -= n;
    }
    return TENMAP_OK;
}

/* Whether elements go to the destination as they are, byte for byte. */
static bool copies_elements(const strided_source *s, const tmi_transfer *x) {
    return x->as == x->stored && (!TMI_BIG_ENDIAN || s->width == 1);
}

/* Fails: element `number` of the transfer, whose bytes are at *at, does not fit. */
static tenmap_status fail_element(const strided_source *s, const tmi_transfer *x, const void *at,
                                  uint64_t number, tenmap_error *error) {
    strided_cursor c;
    seek(s, s->skip + number, &c);
    return tmi_transfer_misfit(x, at, tmi_transfer_position(x, number),
                               s->storage.tensor->file_offset + c.at * s->width, error);
}

/* Elements of the transfer, from number `to` on. */
typedef struct element_range {
    uint64_t to, count;
} element_range;

/* Converts elements in file order and stores them. */
static tenmap_status store_elements(const strided_source *s, const tmi_transfer *x,
                                    element_range range, const unsigned char *bytes, uint32_t flags,
                                    tenmap_error *error) {
    uint64_t to = range.to, count = range.count;
    while (count > 0) {
        unsigned bit;
        uint64_t part = count;
        unsigned char *dst = tmi_transfer_place(x, to, &part, &bit);
        uint64_t fit = tmi_convert_file((tmi_packed){x->as, bit}, dst, (tmi_packed){x->stored, 0},
                                        bytes, part, flags);
        if (fit < part)
            return fail_element(s, x, bytes + fit * s->width, to + fit, error);
        bytes += part * s->width;
        to += part;
        count -= part;
    }
    return TENMAP_OK;
}

/* Stores `count` elements that lie together in the storage. */
static tenmap_status run_together(strided_source *s, const tmi_transfer *x, uint64_t at,
                                  uint64_t count, uint64_t to, tenmap_error *error) {
    const tenmap_tensor *t = s->storage.tensor;
    tenmap_status status = TENMAP_OK;
    for (uint64_t n; status == TENMAP_OK && count > 0; at += n, to += n, count -= n) {
        const unsigned char *bytes;
        unsigned bit;
        uint64_t offset = t->file_offset + at * s->width;
        n = count;
        unsigned char *dst = tmi_transfer_place(x, to, &n, &bit);
        if (!s->storage.base && copies_elements(s, x) && n * s->width >= READ_DIRECT_FROM) {
            size_t size = (size_t)n * s->width;
            size_t held = tmi_window_copy_held(&s->storage.window, offset, dst, size);
            if (held < size)
                status = tmi_bytes_read(s->storage.window.bytes, offset + held, dst + held,
                                        size - held, (tmi_wanted){NULL, t}, error);
            continue;
        }
        if (!s->storage.base && n > FETCH_BYTES / s->width)
            n = FETCH_BYTES / s->width;
        status = fetch_elements(s, at, n, &bytes, error);
        if (status == TENMAP_OK)
            status = store_elements(s, x, (element_range){to, n}, bytes, x->flags, error);
    }
    return status;
}

/*
 * Makes the window hold `count` elements from `at` on, if it has room for them, so that going over
 * them again and again reads them once.
 */
static tenmap_status hold_elements(strided_source *s, uint64_t at, uint64_t count,
                                   tenmap_error *error) {
    const tmi_window *w = &s->storage.window;
    const unsigned char *bytes;
    if (s->storage.base || !w->ahead || count > tmi_window_fit(w, s->storage.tensor->dtype))
        return TENMAP_OK;
    return fetch_elements(s, at, count, &bytes, error);
}

/*
 * Stores `rows` whole rows of the innermost axis, from element `to` of the transfer on. Rows lie
 * closer to each other in the storage than the elements of a row.
 */
static tenmap_status run_tiles(strided_source *s, const tmi_transfer *x, uint64_t at, uint64_t rows,
                               uint64_t to, tenmap_error *error) {
    uint64_t columns = s->axis[0].extent, step = s->axis[0].stride, apart = s->axis[1].stride;
    uint64_t room = GATHERED_BYTES / s->width, wide = TILE_WIDE;
    uint32_t flags = (x->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM;
    if (!s->storage.base) { /* as many as the window can hold */
        wide = s->storage.window.size / 2 / s->width / step;
        wide = wide > TILE_WIDE ? TILE_WIDE : wide ? wide : 1;
        s->storage.window.ahead = step * s->width <= STRIDED_GAP || rows * apart >= step / 2;
    }
    wide = wide < columns ? wide : columns;
    uint64_t high = room / wide < rows ? room / wide : rows;
    tenmap_status status = TENMAP_OK;
    for (uint64_t i = 0; status == TENMAP_OK && i < columns; i += wide) {
        uint64_t w = columns - i < wide ? columns - i : wide;
        status = hold_elements(s, at + i * step, (w - 1) * step + (rows - 1) * apart + 1, error);
        for (uint64_t k = 0; status == TENMAP_OK && k < rows; k += high) {
            uint64_t h = rows - k < high ? rows - k : high;
            for (uint64_t n = 0; status == TENMAP_OK && n < w; n++)
                status = copy_elements(s, (strided_run){at + k * apart + (i + n) * step, apart, h},
                                       s->gathered + n * s->width, (size_t)w * s->width, error);
            for (uint64_t n = 0; status == TENMAP_OK && n < h; n++)
                status = store_elements(s, x, (element_range){to + (k + n) * columns + i, w},
                                        s->gathered + n * w * s->width, flags, error);
        }
    }
    return status;
}

/* Whether run_tiles is for such axes. Elements of less than a byte are stored in order. */
static bool has_tiles(const strided_source *s, const tmi_transfer *x) {
    return s->axes > 1 && s->axis[1].stride > 0 && s->axis[1].stride < s->axis[0].stride &&
           tenmap_dtype_bits(x->as) >= 8;
}

/* How many whole rows, from the cursor on, run_tiles should take; 0: it should not. */
static uint64_t rows_for_tiles(const strided_source *s, const strided_cursor *c, uint64_t count) {
    if (c->index[0] != 0)
        return 0;
    uint64_t rows = count / s->axis[0].extent, left = s->axis[1].extent - c->index[1];
    rows = rows < left ? rows : left;
    return rows > 1 ? rows : 0;
}

/* Whether bytes after those that are asked for are worth reading too. */
static bool reads_ahead(const strided_source *s) {
    const tmi_walk *closest = NULL, *next = NULL; /* the axes of the smallest strides */
    for (unsigned d = 0; d < s->axes; d++) {
        const tmi_walk *axis = &s->axis[d];
        if (axis->stride && (!closest || axis->stride < closest->stride)) {
            next = closest;
            closest = axis;
        } else if (axis->stride && (!next || axis->stride < next->stride)) {
            next = axis;
        }
    }
    if (!closest || closest->stride * s->width > STRIDED_GAP)
        return false;
    return !next || next->stride * s->width <= STRIDED_GAP ||
           closest->extent * closest->stride >= next->stride / 2;
}

/* Switches a thread's state to the transfer. */
static tenmap_status switch_storage(strided_source *s, const tmi_transfer *x, const tmi_window *w,
                                    tenmap_error *error) {
    const tenmap_tensor *storage = &tmi_strided_of(x->computed)->storage;
    bool reading = w && w->buffer;
    s->width = tmi_dtype_width(x->stored);
    set_axes(s, x);
    if (s->storage.tensor != storage || s->reading != reading) {
        tmi_part_switch(&s->storage, storage, reading);
        s->reading = reading;
    }
    if (s->storage.base)
        return TENMAP_OK;
    s->storage.window.direct_fd = reading ? w->direct_fd : -1;
    s->storage.window.ahead = reads_ahead(s);
    size_t size = tmi_bytes_window_size(&tmi_shard_of(storage)->bytes, STORAGE_WINDOW);
    return tmi_part_open(&s->storage, size < LEAST_WINDOW ? LEAST_WINDOW : size, false, error);
}

static tenmap_status run_strided(void *state, const tmi_transfer *x, const tmi_window *w,
                                 uint64_t first, uint64_t count, tenmap_error *error) {
    strided_source *s = state;
    tenmap_status status = switch_storage(s, x, w, error);
    uint64_t room = GATHERED_BYTES / s->width / 8 * 8;
    bool tiles = status == TENMAP_OK && has_tiles(s, x);
    strided_cursor c = {.at = 0};
    for (uint64_t n; status == TENMAP_OK && count > 0; first += n, count -= n) {
        seek(s, s->skip + first, &c);
        uint64_t rows = tiles ? rows_for_tiles(s, &c, count) : 0;
        uint64_t left = s->axis[0].extent - c.index[0];
        if (rows) {
            n = rows * s->axis[0].extent;
            status = run_tiles(s, x, c.at, rows, first, error);
            if (status == TENMAP_ERR_RANGE) { /* once more, to find the first that does not fit */
                tiles = false;
                status = TENMAP_OK;
                n = 0;
            }
            continue;
        }
        n = count < left ? count : left;
        if (s->axis[0].stride == 1 && n * s->width >= LEAST_RUN_BYTES) {
            status = run_together(s, x, c.at, n, first, error);
            continue;
        }
        n = tiles ? n : count; /* whole rows are left to tiles */
        n = n < room ? n : room;
        status = gather(s, &c, n, s->gathered, error);
        if (status == TENMAP_OK)
            status = store_elements(s, x, (element_range){first, n}, s->gathered, x->flags, error);
    }
    return status;
}

static void begin_strided(void *state, const tmi_nested_calls *nested) {
    (void)nested;
    strided_source *s = state;
    s->reading = false;
    tmi_part_begin(&s->storage);
}

static void end_strided(void *state) {
    strided_source *s = state;
    tmi_part_close(&s->storage);
}

static bool strided_in_rows(const tmi_computed *computed, const tmi_nested_calls *nested) {
    (void)computed, (void)nested;
    return true;
}

const tmi_maker tmi_strided_maker = {
    sizeof(strided_source), begin_strided, end_strided, run_strided, strided_in_rows, NULL};
