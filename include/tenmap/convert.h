/*
 * tenmap: how elements convert from one dtype to another, for all calls that convert, and the
 * conversion of the caller's own buffers. The opening comment of tenmap.h says what holds for all
 * calls.
 *
 * Every floating-point dtype converts to every other; integers and BOOL convert to every
 * floating-point dtype and to each other; any dtype copies to itself. Floating point is rounded
 * correctly, once, to nearest, ties to even, with the same bits on every CPU path, whatever the
 * caller set for denormals (the rounding mode is assumed to be nearest). An integer converted to an
 * integer keeps its value. If one does not fit, the result is TENMAP_ERR_RANGE, whose message names
 * the first such element and its value (of copies on several threads, the first one that was met);
 * with TENMAP_CONVERT_SATURATE it becomes the nearest value that fits. BOOL counts as 0 and 1.
 * Floating point to integer or BOOL, and C64 to any other dtype, are TENMAP_ERR_UNSUPPORTED.
 *
 * Block dtypes convert to every floating-point dtype: to F32 by the formula of their format, then
 * rounded once more for a narrower destination; a NaN is 0x7fc00000 before that. Only
 * tenmap_quantize converts into them. docs/format.md has the number rules in full.
 *
 * Elements of 4 and 6 bits are packed: `count` of them start at bit 0 and take ceil(count*bits/8)
 * bytes. Spare bits of a result are 0.
 */
#ifndef TENMAP_INCLUDE_CONVERT_H
#define TENMAP_INCLUDE_CONVERT_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of every call that converts: reads, requests, copies, tenmap_convert. */
enum {
    /*
     * Overflow and infinity become the largest finite value of a floating-point destination, and an
     * integer becomes the nearest value that an integer destination has; NaN stays NaN. Without
     * this flag, overflow and infinity become infinity, NaN where the dtype has no infinity, and
     * the largest value where it has neither (F4, F6). A copy to the same dtype changes nothing.
     */
    TENMAP_CONVERT_SATURATE = 1,
    /*
     * By default, results that are too large to stay in the cache are written with non-temporal
     * stores. STREAM always uses them, NO_STREAM never; both together are TENMAP_ERR_ARGUMENT.
     * These only affect speed: results are the same.
     */
    TENMAP_CONVERT_STREAM = 2,
    TENMAP_CONVERT_NO_STREAM = 4
};

/*
 * Converts `count` elements at src to dst, both in the host's byte order; no model is involved. Any
 * alignment; the buffers must not overlap; with count 0 they may be NULL. Blocks are as files have
 * them, on every host, and src begins with a whole one. A call that fails writes nothing. After
 * TENMAP_ERR_RANGE error.index is the number of the element.
 */
TENMAP_API tenmap_status tenmap_convert(tenmap_dtype to, void *dst, size_t dst_bytes,
                                        tenmap_dtype from, const void *src, uint64_t count,
                                        uint32_t flags, tenmap_error *error);

/*
 * What a conversion did to elements beyond rounding them. C64 counts its two parts separately. For
 * F8_E8M0, which has neither zero nor sign, zeros and negative numbers count as overflowed; nothing
 * is flushed there.
 */
typedef struct tenmap_losses {
    /*
     * Became infinity, NaN or the largest value though they were none of these: finite values
     * beyond the largest, decided after rounding, and infinities that did not stay infinite.
     */
    uint64_t overflowed;
    uint64_t flushed; /* became zero though they were not */
    uint64_t nans;    /* were NaN already */
    uint64_t reserved[5];
} tenmap_losses;

/*
 * tenmap_convert that also counts losses: *losses is set on success and unchanged on failure; NULL
 * counts nothing. The source is examined while it is in the cache.
 */
TENMAP_API tenmap_status tenmap_convert_counted(tenmap_dtype to, void *dst, size_t dst_bytes,
                                                tenmap_dtype from, const void *src, uint64_t count,
                                                uint32_t flags, tenmap_losses *losses,
                                                tenmap_error *error);

/*
 * Quantizes a matrix of F32 in the host's byte order to a block dtype, as files have it. Each row
 * of `columns` values is whole blocks; otherwise, and for block dtypes that nothing quantizes to
 * yet, TENMAP_ERR_UNSUPPORTED. There are Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0 and MXFP4,
 * with the bytes that the package gguf writes. dst takes tenmap_dtype_bytes(to, rows * columns)
 * bytes (TENMAP_ERR_BUFFER if dst_bytes is less), and must not overlap src. Both may have any
 * alignment, and may be NULL if there are no elements.
 *
 * `importance` is NULL, or says for each column how much an error there matters; these dtypes do
 * not use it. NaN, infinity, and a scale beyond F16 are TENMAP_ERR_RANGE; error.index is the number
 * of the element. With TENMAP_CONVERT_SATURATE in `flags`, infinities and scales are clamped; NaN
 * is not. A call that fails writes nothing. It runs on the caller's thread; rows may be quantized
 * on several threads at once.
 */
TENMAP_API tenmap_status tenmap_quantize(tenmap_dtype to, void *dst, size_t dst_bytes,
                                         const float *src, uint64_t rows, uint64_t columns,
                                         const float *importance, uint32_t flags,
                                         tenmap_error *error);

#ifdef __cplusplus
}
#endif

#endif
