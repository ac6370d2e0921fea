/* tenmap_quantize: checks the values, then quantizes them block by block. */
#include "../kernels/blocks.h"
#include "values.h"

#include <float.h>
#include <string.h>

enum { MOST_ELEMENTS = 256 }; /* of a block */
/* From here on, a value rounds to an infinite F16. */
static const float beyond_half = 65520.0F, largest_half = 65504.0F;

/* What is quantized, and by which rules. */
typedef struct quantizing {
    const tmi_quantizer *by;
    const tmi_block_dtype *blocks;
    const unsigned char *src; /* of any alignment */
    uint64_t count;           /* of blocks */
    bool saturate;
} quantizing;

static float magnitude_of(float value) {
    return value < 0 ? -value : value;
}

static void load_values_of_block(const quantizing *q, uint64_t block, float *values) {
    size_t bytes = q->blocks->elements * sizeof *values;
    if (q->src) /* there is no block without a source */
        memcpy(values, q->src + block * bytes, bytes);
}

/* The first element that no block dtype can hold; TMI_NONE if there is none. */
static size_t find_nonfinite(const quantizing *q, const float *values) {
    for (size_t i = 0; i < q->blocks->elements; i++) {
        float size = magnitude_of(values[i]);
        if (!(size <= FLT_MAX) && !(q->saturate && size > FLT_MAX))
            return i;
    }
    return TMI_NONE;
}

/* Whether the scales of these finite values are finite as F16; *widest is the farthest element. */
static bool scales_fit(const quantizing *q, const float *values, size_t *widest) {
    float least = values[0], largest = values[0];
    *widest = 0;
    if (q->by->divisor == 0)
        return true;
    for (size_t i = 1; i < q->blocks->elements; i++) {
        least = values[i] < least ? values[i] : least;
        largest = values[i] > largest ? values[i] : largest;
        if (magnitude_of(values[i]) > magnitude_of(values[*widest]))
            *widest = i;
    }
    float divisor = (float)q->by->divisor;
    if (q->by->range)
        return magnitude_of(least) < beyond_half && (largest - least) / divisor < beyond_half;
    return magnitude_of(values[*widest]) / divisor < beyond_half;
}

static void clamp_values(float *values, size_t count, float bound) {
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] > bound ? bound : values[i];
        values[i] = values[i] < -bound ? -bound : values[i];
    }
}

/* Checks every block before the first byte is written. */
static tenmap_status check_values(const quantizing *q, tenmap_error *error) {
    float values[MOST_ELEMENTS];
    for (uint64_t block = 0; block < q->count; block++) {
        load_values_of_block(q, block, values);
        size_t at = find_nonfinite(q, values), widest;
        bool finite = at == TMI_NONE;
        if (finite && (q->saturate || scales_fit(q, values, &widest)))
            continue;
        at = finite ? widest : at;
        uint64_t number = block * q->blocks->elements + at;
        tmi_fail(error, TENMAP_ERR_RANGE,
                 finite ? "element %llu is %g, whose scale in %s is beyond F16%s"
                        : "element %llu is %g, which %s cannot hold%s",
                 (ull)number, (double)values[at], q->blocks->name,
                 values[at] == values[at] ? " (saturating clamps it)" : "");
        if (error)
            error->index = number;
        return TENMAP_ERR_RANGE;
    }
    return TENMAP_OK;
}

static void quantize_blocks(const quantizing *q, unsigned char *dst) {
    float values[MOST_ELEMENTS];
    size_t widest;
    for (uint64_t block = 0; block < q->count; block++) {
        load_values_of_block(q, block, values);
        if (q->saturate) {
            clamp_values(values, q->blocks->elements, FLT_MAX);
            if (!scales_fit(q, values, &widest))
                clamp_values(values, q->blocks->elements,
                             q->by->range ? largest_half : largest_half * (float)q->by->divisor);
        }
        q->by->block(dst + block * q->blocks->bytes, values);
    }
}

/* Checks everything except the values. *count is the number of blocks. */
static tenmap_status check_quantize(tenmap_dtype to, size_t dst_bytes, uint64_t rows,
                                    uint64_t columns, uint64_t *count, tenmap_error *error) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(to);
    uint64_t elements, bytes;
    if (!blocks || !tmi_quantizer_of(to))
        return tmi_fail(error, TENMAP_ERR_UNSUPPORTED,
                        "nothing quantizes to %s: there are Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, "
                        "TQ2_0 and MXFP4",
                        tenmap_dtype_name(to));
    if (columns % blocks->elements)
        return tmi_fail(error, TENMAP_ERR_UNSUPPORTED,
                        "rows of %llu elements are not whole blocks: a block of %s has %u",
                        (ull)columns, blocks->name, (unsigned)blocks->elements);
    if (!tmi_multiply(rows, columns, &elements) || elements > SIZE_MAX / sizeof(float))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%llu rows of %llu elements are more than an address space can hold",
                        (ull)rows, (ull)columns);
    *count = elements / blocks->elements;
    bytes = *count * blocks->bytes;
    if (dst_bytes < bytes)
        return tmi_fail(error, TENMAP_ERR_BUFFER,
                        "the destination has %llu bytes, but %llu elements of %s take %llu",
                        (ull)dst_bytes, (ull)elements, blocks->name, (ull)bytes);
    return TENMAP_OK;
}

tenmap_status tenmap_quantize(tenmap_dtype to, void *dst, size_t dst_bytes, const float *src,
                              uint64_t rows, uint64_t columns, const float *importance,
                              uint32_t flags, tenmap_error *error) {
    const uint32_t known =
        TENMAP_CONVERT_SATURATE | TENMAP_CONVERT_STREAM | TENMAP_CONVERT_NO_STREAM;
    quantizing q = {.by = tmi_quantizer_of(to),
                    .blocks = tmi_dtype_blocks(to),
                    .src = (const unsigned char *)src,
                    .saturate = flags & TENMAP_CONVERT_SATURATE};
    (void)importance;
    if (flags & ~known)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "unknown flags 0x%x",
                        (unsigned)(flags & ~known));
    tenmap_status status = check_quantize(to, dst_bytes, rows, columns, &q.count, error);
    if (status == TENMAP_OK && q.count && (!dst || !src))
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s is NULL, but there are %llu elements",
                          dst ? "src" : "dst", (ull)q.count * q.blocks->elements);
    if (status == TENMAP_OK)
        status = check_values(&q, error);
    if (status == TENMAP_OK)
        quantize_blocks(&q, dst);
    return status;
}
