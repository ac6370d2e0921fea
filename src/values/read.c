/* Reads one tensor: checked views, converted ranges and blocks, raw bytes. */
#include "../model/computed.h"
#include "values.h"

#include <stdlib.h>
#include <string.h>

/*
 * What a caller who asked for a view as another dtype can do instead. Integers of at most 16 bits
 * that are asked for as floats no wider than themselves are taken to hold the bits of those floats,
 * as U8 does for packed F4: nobody means the numbers 0 to 255 rounded to F4.
 */
static const char *suggest_function(const tenmap_tensor *t, tenmap_dtype dtype) {
    if (t->dtype == TENMAP_OPAQUE)
        return " (tenmap_read_bytes copies its bytes)";
    if (tenmap_dtype_bits(dtype) == 0)
        return "";
    unsigned kind = tenmap_dtype_kind(t->dtype), bits = tenmap_dtype_bits(t->dtype);
    bool integer = kind == TENMAP_KIND_UINT || kind == TENMAP_KIND_INT;
    bool holds = integer && bits <= 16 && tmi_dtypes[dtype].kind == TENMAP_KIND_FLOAT &&
                 tmi_dtypes[dtype].bits <= bits;
    return !holds && tmi_convert_check(dtype, t->dtype, 0, NULL) == TENMAP_OK
               ? " (tenmap_read converts into a buffer)"
               : " (tenmap_read_as takes its bytes for another dtype)";
}

const void *tenmap_view(const tenmap_tensor *t, tenmap_dtype dtype, tenmap_error *error) {
    if (!t) {
        tmi_fail(error, TENMAP_ERR_ARGUMENT,
                 "the tensor is NULL (was no tensor of that name found?)");
        return NULL;
    }
    uint32_t remedy = TENMAP_REMEDY_READ;
    unsigned align = tmi_dtype_align(t->dtype);
    const tmi_computed *computed = tmi_computed_of(t);
    if (dtype != TENMAP_AS_STORED && dtype != t->dtype) {
        const char *suggestion = suggest_function(t, dtype);
        TMI_FAIL_TENSOR(error, TENMAP_ERR_DTYPE, t, "it holds %s, not %s%s",
                        tmi_stored_dtype(t).text, tenmap_dtype_name(dtype), suggestion);
        remedy = *suggestion ? TENMAP_REMEDY_READ : TENMAP_REMEDY_NONE;
    } else if (computed)
        TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                        "%s (%s), so there is nothing to view (tenmap_read works)",
                        tmi_why_computed(computed), computed->scheme.name);
    else if (!t->data)
        TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t, "%s",
                        "the model was opened to be read, not mapped, so there is nothing to view "
                        "(tenmap_read works)");
    else if (TMI_BIG_ENDIAN && align > 1)
        TMI_FAIL_TENSOR(
            error, TENMAP_ERR_UNSUPPORTED, t,
            "its %s are little-endian in the file and this host is big-endian (tenmap_read "
            "swaps them)",
            tenmap_dtype_name(t->dtype));
    else if (!(t->flags & TENMAP_TENSOR_ALIGNED))
        TMI_FAIL_TENSOR(error, TENMAP_ERR_ALIGNMENT, t,
                        "its data, at byte %llu of the file, has an address that is not a multiple "
                        "of %u, as %s requires (tenmap_read copies it)",
                        (ull)t->file_offset, align, tenmap_dtype_name(t->dtype));
    else
        return t->data;
    if (error)
        error->remedy = remedy;
    return NULL;
}

tenmap_status tenmap_read_bytes(const tenmap_tensor *t, uint64_t offset, size_t bytes, void *dst,
                                tenmap_error *error) {
    if (!t)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "the tensor is NULL (was no tensor of that name found?)");
    const tmi_computed *computed = tmi_computed_of(t);
    if (computed)
        return tmi_remedy(
            error, TENMAP_REMEDY_READ,
            TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                            "%s (%s), and has no bytes of its own (tenmap_part_at gives the "
                            "parts, tenmap_read the values)",
                            tmi_why_computed(computed), computed->scheme.name));
    if (offset > t->nbytes || bytes > t->nbytes - offset)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_RANGE, t,
                               "it has %llu bytes; %llu bytes from %llu on are out of range",
                               (ull)t->nbytes, (ull)bytes, (ull)offset);
    if (bytes == 0)
        return TENMAP_OK;
    if (!dst)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, t, "%s", "the destination is NULL");
    if (!t->data)
        return tmi_bytes_read(&tmi_shard_of(t)->bytes, t->file_offset + offset, dst, bytes,
                              (tmi_wanted){NULL, t}, error);
    memcpy(dst, (const unsigned char *)t->data + offset, bytes);
    return TENMAP_OK;
}

/*
 * The window on the stack is enough for most small vectors of a layer, and no burden on a thread's
 * stack.
 */
enum { STACK_WINDOW = 8 << 10, HEAP_WINDOW = 256 << 10 };

/* Computed values have windows of their own. */
static tenmap_status run_computed(const tmi_transfer *x, tenmap_error *error) {
    tmi_source *source = NULL;
    tenmap_status status = tmi_values_run(x, NULL, &source, 0, x->count, error);
    tmi_source_free(source);
    return status;
}

/* Runs the whole transfer, with a window on the file if the tensor is not in memory. */
static tenmap_status run_one_transfer(const tmi_transfer *x, tenmap_error *error) {
    unsigned char small[STACK_WINDOW];
    if (x->computed)
        return run_computed(x, error);
    tmi_window window = {.bytes = &tmi_shard_of(x->tensor)->bytes, .direct_fd = -1};
    uint64_t first;
    tmi_transfer_extent(x, 0, x->count, &first, &window.last);
    if (x->tensor->data)
        return tmi_transfer_run(x, &window, 0, x->count, error);
    window.buffer = small;
    window.size = sizeof small;
    if (window.last - first > sizeof small) {
        window.size = tmi_bytes_window_size(window.bytes, HEAP_WINDOW);
        window.buffer = malloc(window.size);
        if (!window.buffer)
            return tmi_fail_memory(error, window.size, "reading");
    }
    window.ahead = tmi_transfer_is_dense(x);
    tenmap_status status = tmi_transfer_run(x, &window, 0, x->count, error);
    if (window.buffer != small)
        free(window.buffer);
    return status;
}

tenmap_status tenmap_read_as(const tenmap_tensor *t, tenmap_dtype stored_as, uint64_t first,
                             uint64_t count, tenmap_dtype as, void *dst, size_t dst_bytes,
                             uint32_t flags, tenmap_error *error) {
    tmi_transfer x;
    tenmap_status status = tmi_transfer_begin(&x, t, stored_as, as, flags, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_range(&x, first, count, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_target(&x, dst, dst_bytes, 0, error);
    return status != TENMAP_OK || x.count == 0 ? status : run_one_transfer(&x, error);
}

tenmap_status tenmap_read(const tenmap_tensor *t, uint64_t first, uint64_t count, tenmap_dtype as,
                          void *dst, size_t dst_bytes, uint32_t flags, tenmap_error *error) {
    return tenmap_read_as(t, TENMAP_AS_STORED, first, count, as, dst, dst_bytes, flags, error);
}

tenmap_status tenmap_read_slice(const tenmap_tensor *t, const uint64_t *begin, const uint64_t *end,
                                tenmap_dtype as, void *dst, size_t dst_bytes, uint32_t flags,
                                tenmap_error *error) {
    tmi_walk walk[TMI_MOST_WALKED];
    tmi_transfer x;
    x.walk = walk;
    tenmap_status status = tmi_transfer_begin(&x, t, TENMAP_AS_STORED, as, flags, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_block(&x, begin, end, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_target(&x, dst, dst_bytes, 0, error);
    return status != TENMAP_OK || x.count == 0 ? status : run_one_transfer(&x, error);
}
