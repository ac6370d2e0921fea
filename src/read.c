/* Getting at elements: checked views, converted ranges and blocks, raw bytes. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static const tmi_shard *shard_of(const tenmap_tensor *t) {
    return &t->model->shards[t->shard];
}

/* "path": tensor "name", as every error here begins. */
#define FAIL_READ(error, status, t, format, ...)                                                   \
    tmi_fail_at(error, status, (t)->shard, (t)->file_offset, "%s: tensor %s: " format,             \
                tmi_quote_path(shard_of(t)->shown).text, tmi_quote((t)->name, (t)->name_len).text, \
                __VA_ARGS__)

static const char *shown_dtype(tenmap_dtype dtype) {
    return tenmap_dtype_name(dtype);
}

/* The dtype as the file has it, which may be any text at all. */
static tmi_quoted stored_dtype(const tenmap_tensor *t) {
    tmi_quoted known = {""};
    const char *text = tenmap_dtype_text(t);
    if (t->dtype == TENMAP_OPAQUE)
        return tmi_quote(text, strlen(text));
    memcpy(known.text, text, strlen(text) + 1);
    return known;
}

const void *tenmap_view(const tenmap_tensor *t, tenmap_dtype dtype, tenmap_error *error) {
    if (!t) {
        tmi_fail(error, TENMAP_ERR_ARGUMENT,
                 "the tensor is NULL: no tensor of that name was found?");
        return NULL;
    }
    unsigned align = t->dtype == TENMAP_OPAQUE ? 1 : tmi_dtypes[t->dtype].align;
    if (dtype != TENMAP_AS_STORED && dtype != t->dtype)
        FAIL_READ(error, TENMAP_ERR_DTYPE, t,
                  "it holds %s, not %s (tenmap_read converts into a buffer)", stored_dtype(t).text,
                  shown_dtype(dtype));
    else if (!t->data)
        FAIL_READ(error, TENMAP_ERR_UNSUPPORTED, t,
                  "the model was opened with %s, which maps nothing to view (tenmap_read works)",
                  "TENMAP_BACKEND_READ");
    else if (TMI_BIG_ENDIAN && align > 1)
        FAIL_READ(error, TENMAP_ERR_UNSUPPORTED, t,
                  "its %s are little-endian in the file and this host is big-endian (tenmap_read "
                  "swaps them)",
                  shown_dtype(t->dtype));
    else if (!(t->flags & TENMAP_TENSOR_ALIGNED))
        FAIL_READ(error, TENMAP_ERR_ALIGNMENT, t,
                  "its data at byte %llu is not aligned for %s, which wants a multiple of %u "
                  "(tenmap_read copies it)",
                  (ull)t->file_offset, shown_dtype(t->dtype), align);
    else
        return t->data;
    return NULL;
}

tenmap_status tenmap_read_bytes(const tenmap_tensor *t, uint64_t offset, size_t bytes, void *dst,
                                tenmap_error *error) {
    if (!t)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "the tensor is NULL: no tensor of that name was found?");
    if (offset > t->nbytes || bytes > t->nbytes - offset)
        return FAIL_READ(error, TENMAP_ERR_RANGE, t,
                         "it has %llu bytes; %llu bytes from %llu on are not inside",
                         (ull)t->nbytes, (ull)bytes, (ull)offset);
    if (bytes == 0)
        return TENMAP_OK;
    if (!dst)
        return FAIL_READ(error, TENMAP_ERR_ARGUMENT, t, "%s", "the destination is NULL");
    if (!t->data)
        return tmi_shard_read(shard_of(t), t->file_offset + offset, dst, bytes, t, error);
    memcpy(dst, (const unsigned char *)t->data + offset, bytes);
    return TENMAP_OK;
}

/*
 * A source of elements. Mapped tensors are read where they lie; otherwise bytes come through a
 * window of the file that is moved forward as the read goes on.
 */
enum { WINDOW = 256 << 10, SMALL_WINDOW = 8 << 10 };

typedef struct source {
    const tenmap_tensor *tensor;
    tenmap_dtype as;
    uint32_t flags;
    unsigned from_bits, to_bits;
    unsigned char *dst;
    uint64_t done;         /* elements written */
    uint64_t last;         /* no byte of the tensor at or behind this one will be wanted */
    unsigned char *window; /* NULL when mapped */
    size_t window_size;
    bool ahead; /* what lies behind the bytes that are wanted is worth reading with them */
    uint64_t window_at, window_end; /* which bytes of the tensor it holds */
    tenmap_error *error;
} source;

/* Bytes [at, at+size) of the tensor, size at most the window's; NULL on failure. */
static const unsigned char *source_bytes(source *s, uint64_t at, size_t size,
                                         tenmap_status *status) {
    if (s->tensor->data)
        return (const unsigned char *)s->tensor->data + at;
    if (at < s->window_at || at + size > s->window_end) {
        uint64_t left = s->last - at;
        size_t most = s->ahead ? s->window_size : size;
        size_t want = left < most ? (size_t)left : most;
        s->window_at = s->window_end = at;
        *status = tmi_shard_read(shard_of(s->tensor), s->tensor->file_offset + at, s->window, want,
                                 s->tensor, s->error);
        if (*status != TENMAP_OK)
            return NULL;
        s->window_end = at + want;
    }
    return s->window + (at - s->window_at);
}

/* Whether elements go from the file into dst as they are, byte for byte. */
static bool is_plain_copy(const source *s) {
    return s->as == s->tensor->dtype && s->from_bits % 8 == 0 &&
           (!TMI_BIG_ENDIAN || s->from_bits == 8);
}

/* Converts the run of `count` elements from `first` on, behind what dst has already. */
static tenmap_status source_run(source *s, uint64_t first, uint64_t count) {
    tenmap_status status = TENMAP_OK;
    const tenmap_tensor *t = s->tensor;
    while (count > 0) {
        /* Neither product overflows: both ranges were checked against sizes in bits. */
        uint64_t from_bit = first * s->from_bits, to_bit = s->done * s->to_bits;
        uint64_t part = count;
        if (!t->data && is_plain_copy(s) && count * s->from_bits / 8 >= SMALL_WINDOW) {
            size_t size = (size_t)(count * s->from_bits / 8);
            s->done += count;
            return tmi_shard_read(shard_of(t), t->file_offset + from_bit / 8, s->dst + to_bit / 8,
                                  size, t, s->error);
        }
        if (!t->data) {
            uint64_t fit = (s->window_size * 8 - 8) / s->from_bits / 8 * 8;
            part = count < fit ? count : fit;
        }
        uint64_t end_bit = from_bit + part * s->from_bits;
        size_t size = t->data ? 0 : (size_t)((end_bit + 7) / 8 - from_bit / 8);
        const unsigned char *bytes = source_bytes(s, from_bit / 8, size, &status);
        if (!bytes)
            return status;
        tmi_convert_file(s->as, s->dst + to_bit / 8, (unsigned)(to_bit % 8), t->dtype, bytes,
                         (unsigned)(from_bit % 8), part, s->flags);
        first += part;
        count -= part;
        s->done += part;
    }
    return TENMAP_OK;
}

/* What both reads check first: the pair of dtypes, and which it is. */
static tenmap_status source_begin(source *s, const tenmap_tensor *t, tenmap_dtype as,
                                  uint32_t flags, tenmap_error *error) {
    if (!t)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "the tensor is NULL: no tensor of that name was found?");
    if (t->dtype == TENMAP_OPAQUE)
        return FAIL_READ(error, TENMAP_ERR_UNSUPPORTED, t,
                         "its dtype %s is unknown here, so only its bytes can be read "
                         "(tenmap_read_bytes)",
                         stored_dtype(t).text);
    if (as == TENMAP_AS_STORED)
        as = t->dtype;
    tenmap_status status = tmi_convert_check(as, t->dtype, flags, error);
    if (status != TENMAP_OK)
        return status;
    *s = (source){.tensor = t,
                  .as = as,
                  .flags = flags,
                  .from_bits = tmi_dtypes[t->dtype].bits,
                  .to_bits = tmi_dtypes[as].bits,
                  .last = t->nbytes,
                  .ahead = true,
                  .error = error};
    return TENMAP_OK;
}

/* The destination: large enough for `count` elements, and there if any are wanted. */
static tenmap_status source_target(source *s, uint64_t count, void *dst, size_t dst_bytes) {
    const tenmap_tensor *t = s->tensor;
    uint64_t whole = count / 8 * s->to_bits, rest = count % 8 * s->to_bits;
    if (count / 8 > (UINT64_MAX - 64) / s->to_bits || whole + (rest + 7) / 8 > dst_bytes)
        return FAIL_READ(s->error, TENMAP_ERR_BUFFER, t,
                         "%llu elements of %s take %llu bytes; the destination has %llu",
                         (ull)count, shown_dtype(s->as), (ull)(whole + (rest + 7) / 8),
                         (ull)dst_bytes);
    if (!dst && count > 0)
        return FAIL_READ(s->error, TENMAP_ERR_ARGUMENT, t, "%s", "the destination is NULL");
    s->dst = dst;
    return TENMAP_OK;
}

/* Runs `go` with a window where one is needed: on the stack for small reads. */
static tenmap_status with_window(source *s, uint64_t bytes, tenmap_status (*go)(source *, void *),
                                 void *ctx) {
    unsigned char small[SMALL_WINDOW];
    if (s->tensor->data || bytes <= SMALL_WINDOW) {
        s->window = s->tensor->data ? NULL : small;
        s->window_size = SMALL_WINDOW;
        return go(s, ctx);
    }
    s->window = malloc(WINDOW);
    s->window_size = WINDOW;
    if (!s->window)
        return tmi_fail_memory(s->error, WINDOW, "reading");
    tenmap_status status = go(s, ctx);
    free(s->window);
    return status;
}

typedef struct element_range {
    uint64_t first, count;
} element_range;

static tenmap_status run_range(source *s, void *ctx) {
    const element_range *r = ctx;
    return source_run(s, r->first, r->count);
}

tenmap_status tenmap_read(const tenmap_tensor *t, uint64_t first, uint64_t count, tenmap_dtype as,
                          void *dst, size_t dst_bytes, uint32_t flags, tenmap_error *error) {
    source s;
    tenmap_status status = source_begin(&s, t, as, flags, error);
    if (status != TENMAP_OK)
        return status;
    if (first > t->nelems || count > t->nelems - first)
        return FAIL_READ(error, TENMAP_ERR_RANGE, t,
                         "it has %llu elements; %llu elements from %llu on are not inside",
                         (ull)t->nelems, (ull)count, (ull)first);
    status = source_target(&s, count, dst, dst_bytes);
    if (status != TENMAP_OK || count == 0)
        return status;
    element_range range = {first, count};
    s.last = ((first + count) * s.from_bits + 7) / 8;
    return with_window(&s, s.last - first * s.from_bits / 8, run_range, &range);
}

/*
 * Blocks. The trailing dimensions that are taken whole make one contiguous run with the first that
 * is not; what is left are the dimensions to walk. Those of one index only add to the start, and
 * there are at most 63 others, since each at least doubles a count that fits in 64 bits.
 */
enum { MOST_WALKED = 64 };

typedef struct block {
    uint64_t start; /* of the first run, in elements */
    uint64_t run;   /* elements per run */
    uint64_t count; /* elements in all */
    unsigned walked;
    uint64_t extent[MOST_WALKED], stride[MOST_WALKED]; /* innermost first */
} block;

static tenmap_status take_block(source *s, const uint64_t *begin, const uint64_t *end, block *b) {
    const tenmap_tensor *t = s->tensor;
    *b = (block){.start = 0, .run = 1, .count = 1};
    if (t->rank > 0 && (!begin || !end))
        return FAIL_READ(s->error, TENMAP_ERR_ARGUMENT, t, "%s",
                         "begin or end of the block is NULL");
    for (uint32_t d = 0; d < t->rank; d++) {
        if (begin[d] > end[d] || end[d] > t->shape[d])
            return FAIL_READ(s->error, TENMAP_ERR_RANGE, t,
                             "the block's [%llu, %llu) in dimension %u is not inside [0, %llu)",
                             (ull)begin[d], (ull)end[d], (unsigned)d, (ull)t->shape[d]);
        b->count *= end[d] - begin[d];
    }
    if (b->count == 0)
        return TENMAP_OK;
    uint64_t stride = 1;
    bool contiguous = true; /* all dimensions behind this one are taken whole */
    for (uint32_t d = t->rank; d-- > 0;) {
        uint64_t extent = end[d] - begin[d];
        b->start += begin[d] * stride;
        if (contiguous) {
            b->run *= extent;
            contiguous = extent == t->shape[d];
        } else if (extent > 1) {
            b->extent[b->walked] = extent;
            b->stride[b->walked++] = stride;
        }
        stride *= t->shape[d];
    }
    return TENMAP_OK;
}

static tenmap_status run_block(source *s, void *ctx) {
    const block *b = ctx;
    uint64_t index[MOST_WALKED] = {0}, at = b->start;
    for (;;) {
        tenmap_status status = source_run(s, at, b->run);
        if (status != TENMAP_OK)
            return status;
        unsigned d = 0;
        while (d < b->walked && ++index[d] == b->extent[d]) {
            at -= (b->extent[d] - 1) * b->stride[d];
            index[d++] = 0;
        }
        if (d == b->walked)
            return TENMAP_OK;
        at += b->stride[d];
    }
}

tenmap_status tenmap_read_slice(const tenmap_tensor *t, const uint64_t *begin, const uint64_t *end,
                                tenmap_dtype as, void *dst, size_t dst_bytes, uint32_t flags,
                                tenmap_error *error) {
    source s;
    block b;
    tenmap_status status = source_begin(&s, t, as, flags, error);
    if (status == TENMAP_OK)
        status = take_block(&s, begin, end, &b);
    if (status == TENMAP_OK)
        status = source_target(&s, b.count, dst, dst_bytes);
    if (status != TENMAP_OK || b.count == 0)
        return status;
    uint64_t final = b.start + b.run;
    for (unsigned d = 0; d < b.walked; d++)
        final += (b.extent[d] - 1) * b.stride[d];
    s.last = (final * s.from_bits + 7) / 8;
    s.ahead = b.walked == 0 || b.stride[0] * s.from_bits / 8 <= WINDOW / 4;
    return with_window(&s, s.last - b.start * s.from_bits / 8, run_block, &b);
}
