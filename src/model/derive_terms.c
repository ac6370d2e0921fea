/* Takes up the terms of a derived tensor: shape, block, transposition, factor. */
#include "derive.h"

#include <string.h>

/* What error messages about a term begin with. */
#define FAIL_TERM(d, k, status, format, ...)                                                       \
    TMI_FAIL_DERIVED(d, status, "term %u: " format, (unsigned)(k), __VA_ARGS__)

tenmap_status tmi_deriving_alloc(const tmi_deriving *d, uint64_t count, size_t size, void *out) {
    void *memory = tmi_derivation_alloc(d->model, count, size);
    memcpy(out, &memory, sizeof memory);
    return memory ? TENMAP_OK : tmi_fail_memory(d->error, count * size, "the derived tensors");
}

bool tmi_count_of(const uint64_t *extents, uint32_t rank, uint64_t *count) {
    bool fits = true;
    *count = 1;
    for (uint32_t i = 0; i < rank; i++)
        fits = tmi_multiply(*count, extents[i], count) && fits;
    for (uint32_t i = 0; i < rank; i++)
        if (extents[i] == 0) {
            *count = 0;
            fits = true;
        }
    return fits;
}

bool tmi_axes_contiguous(const tmi_axis *axes, uint32_t rank, uint64_t count) {
    uint64_t expected = 1;
    for (uint32_t i = rank; i-- > 0; expected *= axes[i].extent)
        if (axes[i].extent != 1 && axes[i].stride != expected)
            return count == 0;
    return true;
}

/* Whether a term has a factor, or must not have one. */
static bool has_factor(const tenmap_derived *given, uint32_t k) {
    return given->op == TENMAP_DERIVE_SUM ||
           (given->op == TENMAP_DERIVE_LOW_RANK && (k == 0 || k % 2 == 1));
}

static bool is_finite(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits); /* -ffast-math would fold isfinite away */
    return (bits >> 52 & 0x7ff) != 0x7ff;
}

static tenmap_status check_factor(const tmi_deriving *d, uint32_t k) {
    const tenmap_term *term = &d->given->terms[k];
    bool expected = has_factor(d->given, k);
    if (!is_finite(term->factor))
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT, "its factor, %f, is not finite", term->factor);
    if (expected && term->factor == 0 && term->tensor)
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT, "%s",
                         "its factor is 0; leave the term out instead");
    if (!expected && term->factor != 0)
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT,
                         "its factor is %g, but this term has none, so it must be 0", term->factor);
    return TENMAP_OK;
}

static tenmap_status check_fields(const tmi_deriving *d, uint32_t k) {
    const tenmap_term *term = &d->given->terms[k];
    bool zeros = !term->tensor;
    if (zeros && (d->given->op != TENMAP_DERIVE_LOW_RANK || k != 0))
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT, "%s",
                         "its tensor is NULL (was no tensor of that name found?)");
    if (term->flags & ~(uint32_t)TENMAP_TERM_TRANSPOSED)
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT, "unknown flags 0x%x", (unsigned)term->flags);
    if (term->reserved[0] || term->reserved[1])
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT, "%s", "its reserved fields must be 0");
    if (!term->begin != !term->end)
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT,
                         "%s is NULL; set both begin and end, or neither",
                         term->begin ? "end" : "begin");
    if (!term->shape && term->rank)
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT, "its shape is NULL, but its rank is %u",
                         (unsigned)term->rank);
    if (zeros && (term->shape || term->begin || term->flags))
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT, "%s",
                         "it has no tensor, so it has no shape, block or flags either");
    return check_factor(d, k);
}

/* Sets the axes of the whole tensor, in the shape that it is taken as. */
static tenmap_status take_term_shape(const tmi_deriving *d, uint32_t k, tmi_term_box *box) {
    const tenmap_term *term = &d->given->terms[k];
    const tenmap_tensor *t = term->tensor;
    const uint64_t *shape = term->shape ? term->shape : t->shape;
    uint64_t stride = 1;
    box->rank = term->shape ? term->rank : t->rank;
    if (!tmi_count_of(shape, box->rank, &box->count) || box->count != t->nelems)
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT,
                         "tensor %s has %llu elements, so it cannot be taken as a shape of %s",
                         tmi_quote(t->name, t->name_len).text, (ull)t->nelems,
                         tmi_count(box->count, "element").text);
    tenmap_status status = tmi_deriving_alloc(d, box->rank, sizeof *box->axes, &box->axes);
    for (uint32_t i = box->rank; status == TENMAP_OK && i-- > 0;) {
        box->axes[i] = (tmi_axis){shape[i], stride};
        stride *= shape[i];
    }
    return status;
}

static tenmap_status take_block(const tmi_deriving *d, uint32_t k, tmi_term_box *box) {
    const tenmap_term *term = &d->given->terms[k];
    const tenmap_tensor *t = term->tensor;
    if (!term->begin)
        return TENMAP_OK;
    box->count = 1;
    for (uint32_t i = 0; i < box->rank; i++) {
        uint64_t begin = term->begin[i], end = term->end[i];
        if (begin > end || end > box->axes[i].extent)
            return FAIL_TERM(d, k, TENMAP_ERR_RANGE,
                             "the block's [%llu, %llu) in dimension %u of tensor %s is not inside "
                             "[0, %llu)",
                             (ull)begin, (ull)end, (unsigned)i,
                             tmi_quote(t->name, t->name_len).text, (ull)box->axes[i].extent);
        box->at += begin * box->axes[i].stride;
        box->axes[i].extent = end - begin;
        box->count *= end - begin;
    }
    if (box->count == 0) /* it begins nowhere in particular, perhaps behind the last element */
        box->at = 0;
    return TENMAP_OK;
}

/* Moves the first axis behind the others. */
static tenmap_status transpose_axes(const tmi_deriving *d, uint32_t k, tmi_term_box *box) {
    if (!(d->given->terms[k].flags & TENMAP_TERM_TRANSPOSED))
        return TENMAP_OK;
    bool low_rank = d->given->op == TENMAP_DERIVE_LOW_RANK;
    if (box->rank != 2 && !(low_rank && box->rank > 2))
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT,
                         "it has %u axes, and only a matrix can be taken transposed",
                         (unsigned)box->rank);
    tmi_axis first = box->axes[0];
    for (uint32_t i = 0; i + 1 < box->rank; i++)
        box->axes[i] = box->axes[i + 1];
    box->axes[box->rank - 1] = first;
    return TENMAP_OK;
}

/* The first axis by all others; of a transposed term, the last one is that first axis. */
static tenmap_status take_matrix(const tmi_deriving *d, uint32_t k, tmi_term_box *box) {
    uint32_t only = d->given->terms[k].flags & TENMAP_TERM_TRANSPOSED ? box->rank - 1 : 0;
    uint64_t others = 1;
    if (d->given->op != TENMAP_DERIVE_LOW_RANK)
        return TENMAP_OK;
    if (box->rank < 2)
        return FAIL_TERM(d, k, TENMAP_ERR_ARGUMENT, "it has %u axes, so it is no matrix",
                         (unsigned)box->rank);
    for (uint32_t i = 0; i < box->rank; i++)
        if (i != only && !tmi_multiply(others, box->axes[i].extent, &others))
            return FAIL_TERM(d, k, TENMAP_ERR_LIMIT, "%s",
                             "its axes are more than 64 bits can count");
    box->rows = only ? others : box->axes[0].extent;
    box->columns = only ? box->axes[only].extent : others;
    return TENMAP_OK;
}

tenmap_status tmi_take_term(const tmi_deriving *d, uint32_t k, tmi_term_box *box) {
    const tenmap_term *term = &d->given->terms[k];
    *box = (tmi_term_box){.tensor = term->tensor, .factor = term->factor};
    tenmap_status status = check_fields(d, k);
    if (status != TENMAP_OK || !term->tensor)
        return status;
    status = take_term_shape(d, k, box);
    if (status == TENMAP_OK)
        status = take_block(d, k, box);
    if (status == TENMAP_OK)
        status = transpose_axes(d, k, box);
    return status == TENMAP_OK ? take_matrix(d, k, box) : status;
}
