/* Checks tensors that a container declares as seeing a storage with strides. */
#include "format.h"

/*
 * Repeated axes make a tensor of any size from a file of any size, and tensors that see the same
 * storage make a model of any size.
 */
enum { MOST_REPEATED = 1 << 30, MOST_TOGETHER = 16 /* times that, or times the file */ };

#define FAIL_STRIDED(status, format, ...)                                                          \
    tmi_fail_at(error, status, place->shard, place->offset + storage->at,                          \
                "%s: tensor %s: " format, tmi_quote_path(place->path).text,                        \
                tmi_quote(t->name, t->name_len).text, __VA_ARGS__)

/* Counts the elements, and sets *last to how many elements after the first the last one lies. */
static tenmap_status measure_strides(const tmi_place *place, tenmap_tensor *t,
                                     const tmi_storage *storage, uint64_t *last,
                                     tenmap_error *error) {
    bool fits = true, too_far = false;
    *last = 0;
    t->nelems = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        uint64_t reach = 0;
        fits = fits && tmi_multiply(t->nelems, t->shape[d], &t->nelems);
        too_far =
            too_far ||
            (t->shape[d] > 1 && !tmi_multiply(t->shape[d] - 1, storage->strides[d], &reach)) ||
            reach > UINT64_MAX - 1 - *last;
        *last += too_far ? 0 : reach;
    }
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->shape[d] == 0) { /* it has no elements, whatever the others say */
            t->nelems = *last = 0;
            fits = true;
            too_far = false;
        }
    if (!fits || !tmi_dtype_bytes(t->dtype, t->nelems, &t->nbytes) || t->nbytes > INT64_MAX)
        return FAIL_STRIDED(TENMAP_ERR_FORMAT,
                            "the product of its %u dimensions is more than 64 bits can count",
                            (unsigned)t->rank);
    if (too_far)
        return FAIL_STRIDED(TENMAP_ERR_FORMAT, "%s",
                            "its strides reach farther than 64 bits can count");
    return TENMAP_OK;
}

/* Whether the elements lie one after the other. */
static bool is_contiguous(const tenmap_tensor *t, const uint64_t *strides) {
    uint64_t expected = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        if (t->shape[d] != 1 && strides[d] != expected)
            return t->nelems == 0;
        expected *= t->shape[d];
    }
    return true;
}

static tenmap_status check_storage(const tmi_place *place, const tenmap_tensor *t,
                                   const tmi_storage *storage, uint64_t last, tenmap_error *error) {
    uint64_t elements = storage->bytes / tmi_dtype_width(t->dtype);
    if (storage->at > place->size || storage->bytes > place->size - storage->at)
        return FAIL_STRIDED(TENMAP_ERR_FORMAT,
                            "its storage, %llu bytes from byte %llu on, is not inside the file, "
                            "which has %llu",
                            (ull)storage->bytes, (ull)(place->offset + storage->at),
                            (ull)place->size);
    if (storage->offset > elements ||
        (t->nelems && (storage->offset == elements || last >= elements - storage->offset)))
        return FAIL_STRIDED(
            TENMAP_ERR_FORMAT, "its last element is number %llu of a storage that has %llu",
            (ull)(last > UINT64_MAX - storage->offset ? UINT64_MAX : storage->offset + last),
            (ull)elements);
    if (t->nbytes > MOST_REPEATED && t->nbytes > place->size)
        return FAIL_STRIDED(TENMAP_ERR_LIMIT,
                            "it repeats elements up to %llu bytes; the limit is 1 GiB, or the size "
                            "of the file, %llu",
                            (ull)t->nbytes, (ull)place->size);
    return TENMAP_OK;
}

/*
 * Counts what all tensors of the header take together. The sum fits, since the limits of one tensor
 * and of those before it are far below 2^63.
 */
static tenmap_status count_together(tmi_header *header, const tmi_place *place,
                                    const tenmap_tensor *t, const tmi_storage *storage,
                                    tenmap_error *error) {
    header->declared_bytes += t->nbytes;
    uint64_t least = header->declared_bytes / MOST_TOGETHER;
    if (least <= MOST_REPEATED || least <= place->size)
        return TENMAP_OK;
    return FAIL_STRIDED(TENMAP_ERR_LIMIT,
                        "the tensors up to this one repeat elements up to %llu bytes together; the "
                        "limit is 16 GiB, or 16 times the size of the file, %llu",
                        (ull)header->declared_bytes, (ull)place->size);
}

tenmap_status tmi_declare_strided(tmi_header *header, const tmi_place *place, tenmap_tensor *t,
                                  const tmi_storage *storage, tenmap_error *error) {
    size_t width = tmi_dtype_width(t->dtype);
    uint64_t last;
    if (width == 0)
        return FAIL_STRIDED(TENMAP_ERR_FORMAT,
                            "%s has no strides: its elements are not whole bytes",
                            tenmap_dtype_name(t->dtype));
    tenmap_status status = measure_strides(place, t, storage, &last, error);
    if (status == TENMAP_OK)
        status = check_storage(place, t, storage, last, error);
    if (status == TENMAP_OK)
        status = count_together(header, place, t, storage, error);
    if (status != TENMAP_OK)
        return status;
    uint64_t within = storage->at + storage->offset * width;
    bool plain = is_contiguous(t, storage->strides);
    tmi_tensor_set_location(t, place, within, plain, tmi_dtype_align(t->dtype) - 1u);
    if (plain)
        return TENMAP_OK;
    t->flags = TENMAP_TENSOR_COMPUTED;
    tmi_strided *strided = tmi_grow(header->strided, header->strided_count,
                                    &header->strided_capacity, sizeof *strided);
    if (!strided)
        return tmi_fail_memory(error, header->strided_capacity * 2 * sizeof *strided,
                               "the strided tensors");
    header->strided = strided;
    strided[header->strided_count++] =
        (tmi_strided){t->header_position, storage->strides, last + 1};
    return TENMAP_OK;
}
