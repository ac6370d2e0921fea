/*
 * Transfers elements of a tensor: selects them, reads them from memory or through a window, and
 * converts them to a dtype.
 */
#include "../model/computed.h"
#include "values.h"
#include "conversion_route.h"
#include "cpu.h"

#include <string.h>

/* Shorter reads, in bytes, go through the window, which later reads may use too. */
enum { COPY_DIRECT_FROM = 8 << 10 };
/*
 * Shorter runs, in bytes, use normal stores: non-temporal stores pay off for whole cache lines
 * only.
 */
enum { STREAM_RUN_FROM = 4 << 10 };

/*
 * Runs that begin at most this many bytes apart are read together with the gaps: a read costs as
 * much as that.
 */
enum { MOST_GAP = 16 << 10 };

tmi_quoted tmi_stored_dtype(const tenmap_tensor *t) {
    tmi_quoted known = {""};
    const char *text = tenmap_dtype_text(t);
    if (t->dtype == TENMAP_OPAQUE)
        return tmi_quote(text, strlen(text));
    memcpy(known.text, text, strlen(text) + 1);
    return known;
}

/* Sets the dtype that the tensor's bytes are interpreted as, and how many elements that makes. */
static tenmap_status set_stored_dtype(tmi_transfer *x, tenmap_dtype stored_as,
                                      tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    uint32_t together, bytes;
    x->stored = stored_as == TENMAP_AS_STORED ? t->dtype : stored_as;
    if (x->stored == TENMAP_OPAQUE)
        return tmi_remedy(
            error, TENMAP_REMEDY_READ,
            TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                            "its dtype %s is unknown, so only its bytes can be read "
                            "(tenmap_read_bytes, or tenmap_read_as if you know what they are)",
                            tmi_stored_dtype(t).text));
    if (!tenmap_dtype_block(x->stored, &together, &bytes))
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, t,
                               "its bytes cannot be read as dtype %u, which is not a known dtype",
                               (unsigned)stored_as);
    x->elements = t->nelems;
    if (x->stored == t->dtype)
        return TENMAP_OK;
    if (t->nbytes > UINT64_MAX / 8 || t->nbytes % bytes != 0)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                               "its %llu bytes of %s are not a whole number of %s", (ull)t->nbytes,
                               tmi_stored_dtype(t).text, tenmap_dtype_name(x->stored));
    x->elements = t->nbytes / bytes * together;
    return TENMAP_OK;
}

/* A tensor that is not plain has no bytes of its own to interpret as another dtype. */
static tenmap_status set_computed_dtype(tmi_transfer *x, tenmap_dtype stored_as,
                                        tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    if (stored_as != TENMAP_AS_STORED && stored_as != t->dtype)
        return tmi_remedy(
            error, TENMAP_REMEDY_PARTS,
            TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                            "%s (%s), so it has no bytes of its own (tenmap_part_at gives them)",
                            tmi_why_computed(x->computed), x->computed->scheme.name));
    x->stored = t->dtype;
    x->elements = t->nelems;
    return TENMAP_OK;
}

tenmap_status tmi_transfer_begin(tmi_transfer *x, const tenmap_tensor *t, tenmap_dtype stored_as,
                                 tenmap_dtype as, uint32_t flags, tenmap_error *error) {
    if (!t)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "the tensor is NULL (was no tensor of that name found?)");
    x->tensor = t;
    x->start = x->count = 0;
    x->computed = tmi_computed_of(t);
    x->normal = NULL;
    tenmap_status status = x->computed ? set_computed_dtype(x, stored_as, error)
                                       : set_stored_dtype(x, stored_as, error);
    if (status != TENMAP_OK)
        return status;
    if (as == TENMAP_AS_STORED)
        as = x->stored;
    tenmap_error why;
    status = tmi_convert_check(as, x->computed ? x->computed->gives : x->stored, flags, &why);
    if (status != TENMAP_OK)
        return TMI_FAIL_TENSOR(error, status, t, "%s", why.message);
    x->as = as;
    x->flags = flags;
    x->row_stride = 0;
    x->walked = 0;
    return TENMAP_OK;
}

tenmap_status tmi_transfer_range(tmi_transfer *x, uint64_t first, uint64_t count,
                                 tenmap_error *error) {
    if (first > x->elements || count > x->elements - first)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_RANGE, x->tensor,
                               "it has %llu elements; %llu elements from %llu on are out of range",
                               (ull)x->elements, (ull)count, (ull)first);
    x->start = first;
    x->row = x->run = x->count = count;
    return TENMAP_OK;
}

/*
 * The last dimension, in elements of the dtype that the bytes are interpreted as; a scalar counts
 * as one row. Rows must hold a whole number of them, since otherwise no block has a meaningful
 * shape.
 */
static tenmap_status scale_last_extent(const tmi_transfer *x, uint64_t *last, tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    uint64_t rows = 1, bytes;
    uint32_t together, size;
    for (uint32_t d = 0; d + 1 < t->rank; d++)
        rows *= t->shape[d];
    *last = t->rank ? t->shape[t->rank - 1] : 1;
    if (x->stored == t->dtype)
        return TENMAP_OK;
    if (rows == 0) { /* it has no elements, but a block of it still has a shape */
        (void)tenmap_dtype_block(x->stored, &together, &size);
        if (t->dtype != TENMAP_OPAQUE && tmi_dtype_bytes(t->dtype, *last, &bytes))
            *last = bytes / size * together;
        return TENMAP_OK;
    }
    if (x->elements % rows != 0)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                               "its last dimension, %llu of %s, is not a whole number of %s",
                               (ull)*last, tmi_stored_dtype(t).text, tenmap_dtype_name(x->stored));
    *last = x->elements / rows;
    return TENMAP_OK;
}

tenmap_status tmi_transfer_whole(tmi_transfer *x, bool rows, tenmap_error *error) {
    tenmap_status status = tmi_transfer_range(x, 0, x->elements, error);
    return status == TENMAP_OK && rows ? scale_last_extent(x, &x->row, error) : status;
}

/* The tensor's extent in dimension d; `last` is that of the last dimension. */
static uint64_t extent_at(const tenmap_tensor *t, uint32_t d, uint64_t last) {
    return d + 1 == t->rank ? last : t->shape[d];
}

static tenmap_status check_block(tmi_transfer *x, const uint64_t *begin, const uint64_t *end,
                                 uint64_t last, tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    x->row = x->count = t->rank ? 1 : last;
    if (t->rank > 0 && (!begin || !end))
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, t, "%s",
                               "begin or end of the block is NULL");
    for (uint32_t d = 0; d < t->rank; d++) {
        if (begin[d] > end[d] || end[d] > extent_at(t, d, last))
            return TMI_FAIL_TENSOR(
                error, TENMAP_ERR_RANGE, t,
                "the block's [%llu, %llu) in dimension %u is not inside [0, %llu)", (ull)begin[d],
                (ull)end[d], (unsigned)d, (ull)extent_at(t, d, last));
        x->row = end[d] - begin[d];
        x->count *= x->row;
    }
    return TENMAP_OK;
}

tenmap_status tmi_transfer_block(tmi_transfer *x, const uint64_t *begin, const uint64_t *end,
                                 tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    uint64_t last;
    tenmap_status status = scale_last_extent(x, &last, error);
    if (status == TENMAP_OK)
        status = check_block(x, begin, end, last, error);
    if (status != TENMAP_OK || x->count == 0)
        return status;
    uint64_t stride = 1;
    bool contiguous = true; /* all dimensions after this one are taken whole */
    x->start = 0;
    x->run = t->rank ? 1 : last;
    for (uint32_t d = t->rank; d-- > 0;) {
        uint64_t extent = end[d] - begin[d];
        x->start += begin[d] * stride;
        if (contiguous) {
            x->run *= extent;
            contiguous = extent == extent_at(t, d, last);
        } else if (extent > 1) {
            x->walk[x->walked++] = (tmi_walk){extent, stride};
        }
        stride *= extent_at(t, d, last);
    }
    return TENMAP_OK;
}

/* Checks rows that lie apart: each has whole bytes, and none reaches into the next. */
static tenmap_status check_rows(const tmi_transfer *x, uint64_t stride, uint64_t *need,
                                tenmap_error *error) {
    uint64_t row = tmi_bytes_of(x->as, x->row), rows = x->count / x->row;
    unsigned within;
    (void)tmi_byte_of(x->as, x->row, &within);
    if (within != 0)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, x->tensor,
                               "a row of %llu elements of %s ends inside a byte, so rows cannot "
                               "lie %llu bytes apart",
                               (ull)x->row, tenmap_dtype_name(x->as), (ull)stride);
    if (stride < row)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, x->tensor,
                               "a row of %llu elements of %s takes %llu bytes; rows %llu bytes "
                               "apart would overlap",
                               (ull)x->row, tenmap_dtype_name(x->as), (ull)row, (ull)stride);
    if (!tmi_multiply(rows - 1, stride, need) || *need > UINT64_MAX - row)
        *need = UINT64_MAX;
    else
        *need += row;
    return TENMAP_OK;
}

/* Blocks are copied whole: a part of one means nothing by itself. */
static tenmap_status check_whole_blocks(const tmi_transfer *x, tenmap_error *error) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(x->as);
    if (!blocks || x->count == 0 ||
        (x->start % blocks->elements == 0 && x->run % blocks->elements == 0 &&
         x->count % blocks->elements == 0))
        return TENMAP_OK;
    return TMI_FAIL_TENSOR(error, TENMAP_ERR_RANGE, x->tensor,
                           "%s read as stored must be whole blocks of %u elements (read as a "
                           "float, it may begin and end anywhere)",
                           blocks->name, (unsigned)blocks->elements);
}

tenmap_status tmi_transfer_target(tmi_transfer *x, void *dst, size_t dst_bytes, uint64_t dst_stride,
                                  tenmap_error *error) {
    uint64_t packed, need;
    tenmap_status status = check_whole_blocks(x, error);
    if (status != TENMAP_OK)
        return status;
    bool fits = tmi_dtype_bytes(x->as, x->count, &packed);
    need = packed;
    if (fits && dst_stride && x->count) {
        status = check_rows(x, dst_stride, &need, error);
        if (status != TENMAP_OK)
            return status;
    }
    if (need > dst_bytes || !fits)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_BUFFER, x->tensor,
                               "%llu elements of %s%s take %llu bytes; the destination has %llu",
                               (ull)x->count, tenmap_dtype_name(x->as),
                               need != packed ? " in rows that lie apart" : "", (ull)need,
                               (ull)dst_bytes);
    if (!dst && x->count > 0)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, x->tensor, "%s",
                               "the destination is NULL");
    x->dst = dst;
    x->row_stride = need != packed ? dst_stride : 0;
    tmi_transfer_stream(x, packed);
    return TENMAP_OK;
}

void tmi_transfer_stream(tmi_transfer *x, uint64_t bytes) {
    if (x->count == 0 || x->flags & (TENMAP_CONVERT_STREAM | TENMAP_CONVERT_NO_STREAM))
        return;
    uint64_t run = x->row_stride && x->row < x->run ? x->row : x->run;
    if (tmi_bytes_of(x->as, run) >= STREAM_RUN_FROM && tmi_cpu_streams(bytes))
        x->flags |= TENMAP_CONVERT_STREAM;
}

uint64_t tmi_transfer_position(const tmi_transfer *x, uint64_t i) {
    uint64_t at = x->start + i % x->run, rest = i / x->run;
    for (unsigned d = 0; d < x->walked; d++) {
        at += rest % x->walk[d].extent * x->walk[d].stride;
        rest /= x->walk[d].extent;
    }
    return at;
}

void tmi_transfer_extent(const tmi_transfer *x, uint64_t first, uint64_t count, uint64_t *begin,
                         uint64_t *end) {
    tmi_stored_extent(x->tensor, x->stored, tmi_transfer_position(x, first),
                      tmi_transfer_position(x, first + count - 1), begin, end);
}

bool tmi_transfer_is_dense(const tmi_transfer *x) {
    if (x->walked == 0)
        return true;
    uint64_t stride = x->walk[0].stride;
    return tmi_stored_distance(x->tensor, x->stored, stride) <= MOST_GAP || x->run >= stride / 2;
}

/* Whether elements go from the file into dst as they are, byte for byte. */
static bool is_plain_copy(const tmi_transfer *x) {
    unsigned bits = tenmap_dtype_bits(x->stored); /* 0: a block dtype, the same on every host */
    return x->as == x->stored && (bits == 0 || bits >= 8) && (!TMI_BIG_ENDIAN || bits <= 8);
}

unsigned char *tmi_transfer_place(const tmi_transfer *x, uint64_t to, uint64_t *count,
                                  unsigned *bit) {
    unsigned char *row = x->dst;
    if (x->row_stride && row) {
        row += to / x->row * x->row_stride;
        to %= x->row;
        if (*count > x->row - to)
            *count = x->row - to;
    }
    uint64_t at = tmi_byte_of(x->as, to, bit);
    return row ? row + at : NULL;
}

tenmap_status tmi_transfer_misfit(const tmi_transfer *x, const void *at, uint64_t number,
                                  uint64_t offset, tenmap_error *error) {
    tenmap_error why;
    tmi_fail_misfit(&why, x->as, x->stored, at, number);
    TMI_FAIL_TENSOR(error, TENMAP_ERR_RANGE, x->tensor, "%s", why.message);
    if (error) {
        error->index = number;
        error->offset = offset;
    }
    return TENMAP_ERR_RANGE;
}

/* Copies bytes [at, at+size) of the tensor as they are, without an intermediate buffer. */
static tenmap_status copy_direct(tmi_window *w, const tenmap_tensor *t, uint64_t at,
                                 unsigned char *dst, size_t size, tenmap_error *error) {
    at += t->file_offset;
    if (w->direct_fd >= 0)
        return tmi_window_copy(w, at, dst, size, t, error);
    size_t held = tmi_window_copy_held(w, at, dst, size);
    if (held == size)
        return TENMAP_OK;
    return tmi_bytes_read(w->bytes, at + held, dst + held, size - held, (tmi_wanted){NULL, t},
                          error);
}

/*
 * Transfers elements [first, first+count) of the tensor, which are contiguous there, to dst from
 * element `to` on.
 */
static tenmap_status run_contiguous(const tmi_transfer *x, tmi_window *w, uint64_t first,
                                    uint64_t count, uint64_t to, tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    while (count > 0) {
        /* No product overflows: all ranges were checked against sizes in bits. */
        unsigned bit, within;
        uint64_t part = count, at = tmi_byte_of(x->stored, first, &within);
        unsigned char *dst = tmi_transfer_place(x, to, &part, &bit);
        const unsigned char *bytes = NULL;
        if (w->buffer) {
            uint64_t length = tmi_bytes_of(x->stored, part), fit = tmi_window_fit(w, x->stored);
            bool direct =
                is_plain_copy(x) && length >= COPY_DIRECT_FROM &&
                (w->direct_fd < 0 || tmi_window_can_read_direct(w, t->file_offset + at, dst));
            if (!direct && part > fit)
                part = fit;
            uint64_t end = tmi_bytes_of(x->stored, first + part);
            tenmap_status status = direct ? copy_direct(w, t, at, dst, (size_t)length, error)
                                          : tmi_window_bytes(w, t->file_offset + at,
                                                             (size_t)(end - at), t, &bytes, error);
            if (status != TENMAP_OK)
                return status;
        } else {
            bytes = (const unsigned char *)t->data + at;
        }
        uint64_t fit = part;
        if (bytes)
            fit = tmi_convert_file((tmi_packed){x->as, bit}, dst, (tmi_packed){x->stored, within},
                                   bytes, part, x->flags);
        if (fit < part)
            return tmi_transfer_misfit(x, bytes + tmi_bytes_of(x->stored, fit), first + fit,
                                       t->file_offset + tmi_bytes_of(x->stored, first + fit),
                                       error);
        first += part;
        to += part;
        count -= part;
    }
    return TENMAP_OK;
}

tenmap_status tmi_transfer_run(const tmi_transfer *x, tmi_window *w, uint64_t first, uint64_t count,
                               tenmap_error *error) {
    uint64_t index[TMI_MOST_WALKED];
    uint64_t at = x->start, inside = first % x->run, rest = first / x->run;
    for (unsigned d = 0; d < x->walked; d++) {
        index[d] = rest % x->walk[d].extent;
        rest /= x->walk[d].extent;
        at += index[d] * x->walk[d].stride;
    }
    for (;;) {
        uint64_t part = count < x->run - inside ? count : x->run - inside;
        tenmap_status status = run_contiguous(x, w, at + inside, part, first, error);
        first += part;
        count -= part;
        inside = 0;
        if (status != TENMAP_OK || count == 0)
            return status;
        unsigned d = 0;
        while (d < x->walked && ++index[d] == x->walk[d].extent) {
            at -= (x->walk[d].extent - 1) * x->walk[d].stride;
            index[d++] = 0;
        }
        at += x->walk[d].stride;
    }
}
