/* Elements of a tensor on their way: which ones, through which window, into which dtype. */
#include "values.h"
#include "kernels/kernels.h"

#include <string.h>

/* Reads shorter than this go through the window, which the next ones may use too. */
enum { COPY_STRAIGHT_FROM = 8 << 10 };
/* Runs of fewer bytes stay in the cache: stores around it pay for whole lines only. */
enum { STREAM_RUN_FROM = 4 << 10 };

/* Runs so many bytes apart are had with one read through the gaps: a read costs as much as that. */
enum { READ_THROUGH = 16 << 10 };

tmi_quoted tmi_stored_dtype(const tenmap_tensor *t) {
    tmi_quoted known = {""};
    const char *text = tenmap_dtype_text(t);
    if (t->dtype == TENMAP_OPAQUE)
        return tmi_quote(text, strlen(text));
    memcpy(known.text, text, strlen(text) + 1);
    return known;
}

tenmap_status tmi_transfer_begin(tmi_transfer *x, const tenmap_tensor *t, tenmap_dtype as,
                                 uint32_t flags, tenmap_error *error) {
    if (!t)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "the tensor is NULL: no tensor of that name was found?");
    if (t->dtype == TENMAP_OPAQUE)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                               "its dtype %s is unknown here, so only its bytes can be read "
                               "(tenmap_read_bytes)",
                               tmi_stored_dtype(t).text);
    if (as == TENMAP_AS_STORED)
        as = t->dtype;
    tenmap_error why;
    tenmap_status status = tmi_convert_check(as, t->dtype, flags, &why);
    if (status != TENMAP_OK)
        return TMI_FAIL_TENSOR(error, status, t, "%s", why.message);
    x->tensor = t;
    x->as = as;
    x->flags = flags;
    x->from_bits = tmi_dtypes[t->dtype].bits;
    x->to_bits = tmi_dtypes[as].bits;
    x->walked = 0;
    return TENMAP_OK;
}

tenmap_status tmi_transfer_range(tmi_transfer *x, uint64_t first, uint64_t count,
                                 tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    if (first > t->nelems || count > t->nelems - first)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_RANGE, t,
                               "it has %llu elements; %llu elements from %llu on are not inside",
                               (ull)t->nelems, (ull)count, (ull)first);
    x->start = first;
    x->run = x->count = count;
    return TENMAP_OK;
}

static tenmap_status check_block(const tmi_transfer *x, const uint64_t *begin, const uint64_t *end,
                                 uint64_t *count, tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    *count = 1;
    if (t->rank > 0 && (!begin || !end))
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, t, "%s",
                               "begin or end of the block is NULL");
    for (uint32_t d = 0; d < t->rank; d++) {
        if (begin[d] > end[d] || end[d] > t->shape[d])
            return TMI_FAIL_TENSOR(
                error, TENMAP_ERR_RANGE, t,
                "the block's [%llu, %llu) in dimension %u is not inside [0, %llu)", (ull)begin[d],
                (ull)end[d], (unsigned)d, (ull)t->shape[d]);
        *count *= end[d] - begin[d];
    }
    return TENMAP_OK;
}

tenmap_status tmi_transfer_block(tmi_transfer *x, const uint64_t *begin, const uint64_t *end,
                                 tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    tenmap_status status = check_block(x, begin, end, &x->count, error);
    if (status != TENMAP_OK || x->count == 0)
        return status;
    uint64_t stride = 1;
    bool contiguous = true; /* all dimensions behind this one are taken whole */
    x->start = 0;
    x->run = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        uint64_t extent = end[d] - begin[d];
        x->start += begin[d] * stride;
        if (contiguous) {
            x->run *= extent;
            contiguous = extent == t->shape[d];
        } else if (extent > 1) {
            x->walk[x->walked++] = (tmi_walk){extent, stride};
        }
        stride *= t->shape[d];
    }
    return TENMAP_OK;
}

tenmap_status tmi_transfer_target(tmi_transfer *x, void *dst, size_t dst_bytes,
                                  tenmap_error *error) {
    uint64_t need;
    if (!tmi_dtype_bytes(x->as, x->count, &need) || need > dst_bytes)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_BUFFER, x->tensor,
                               "%llu elements of %s take %llu bytes; the destination has %llu",
                               (ull)x->count, tenmap_dtype_name(x->as), (ull)need, (ull)dst_bytes);
    if (!dst && x->count > 0)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, x->tensor, "%s",
                               "the destination is NULL");
    x->dst = dst;
    tmi_transfer_stream(x, need);
    return TENMAP_OK;
}

void tmi_transfer_stream(tmi_transfer *x, uint64_t bytes) {
    if (x->count == 0 || x->flags & (TENMAP_CONVERT_STREAM | TENMAP_CONVERT_NO_STREAM))
        return;
    if (x->run * x->to_bits / 8 >= STREAM_RUN_FROM && tmi_cpu_streams(bytes))
        x->flags |= TENMAP_CONVERT_STREAM;
}

/* Where element number `i` of the transfer is in the tensor. */
static uint64_t transfer_position(const tmi_transfer *x, uint64_t i) {
    uint64_t at = x->start + i % x->run, rest = i / x->run;
    for (unsigned d = 0; d < x->walked; d++) {
        at += rest % x->walk[d].extent * x->walk[d].stride;
        rest /= x->walk[d].extent;
    }
    return at;
}

void tmi_transfer_extent(const tmi_transfer *x, uint64_t first, uint64_t count, uint64_t *begin,
                         uint64_t *end) {
    uint64_t last = transfer_position(x, first + count - 1);
    *begin = x->tensor->file_offset + transfer_position(x, first) * x->from_bits / 8;
    *end = x->tensor->file_offset + ((last + 1) * x->from_bits + 7) / 8;
}

bool tmi_transfer_is_dense(const tmi_transfer *x) {
    return x->walked == 0 || x->walk[0].stride * x->from_bits / 8 <= READ_THROUGH ||
           x->run >= x->walk[0].stride / 2;
}

/* Whether elements go from the file into dst as they are, byte for byte. */
static bool is_plain_copy(const tmi_transfer *x) {
    return x->as == x->tensor->dtype && x->from_bits % 8 == 0 &&
           (!TMI_BIG_ENDIAN || x->from_bits == 8);
}

/* Elements [first, first+count) of the tensor, contiguous there, to elements from `to` on in dst.
 */
static tenmap_status run_contiguous(const tmi_transfer *x, tmi_window *w, uint64_t first,
                                    uint64_t count, uint64_t to, tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    while (count > 0) {
        /* Neither product overflows: both ranges were checked against sizes in bits. */
        uint64_t from_bit = first * x->from_bits, to_bit = to * x->to_bits;
        uint64_t part = count;
        if (w->room) {
            uint64_t bytes = count * x->from_bits / 8, fit = tmi_window_fit(w, x->from_bits);
            if (w->direct_fd < 0 && is_plain_copy(x) && bytes >= COPY_STRAIGHT_FROM)
                return tmi_bytes_read(w->bytes, t->file_offset + from_bit / 8, x->dst + to_bit / 8,
                                      (size_t)bytes, (tmi_wanted){NULL, t}, error);
            part = count < fit ? count : fit;
        }
        uint64_t end_bit = from_bit + part * x->from_bits;
        uint64_t at = from_bit / 8;
        const unsigned char *bytes;
        if (w->room) {
            tenmap_status status = tmi_window_bytes(
                w, t->file_offset + at, (size_t)((end_bit + 7) / 8 - at), t, &bytes, error);
            if (status != TENMAP_OK)
                return status;
        } else {
            bytes = (const unsigned char *)t->data + at;
        }
        tmi_convert_file(x->as, x->dst + to_bit / 8, (unsigned)(to_bit % 8), t->dtype, bytes,
                         (unsigned)(from_bit % 8), part, x->flags);
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
