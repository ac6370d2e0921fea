/*
 * The interface between measure.c and the kernels: sums over one block of at most TMI_MEASURE_BLOCK
 * elements. Element i goes to lane i modulo TMI_LANES, and each lane adds its elements in order, in
 * double, with one rounding per operation, so every code path gives the same bits. merge_moments.c
 * computes mean and deviation from the lanes and merges those of several blocks.
 */
#ifndef TENMAP_MOMENTS_H
#define TENMAP_MOMENTS_H

#include "kernels.h"

#ifndef TENMAP_NO_MEASURE

#include <string.h>

enum { TMI_LANES = 16, TMI_MEASURE_BLOCK = 4096 };

/*
 * Forces the value to be rounded to double here: no compiler may keep more digits (x87), fuse the
 * operation with the next (FMA) or move it. Vector units do the same, one lane at a time.
 */
#if defined(__GNUC__) && defined(__x86_64__)
#define TMI_ROUNDED(x) __asm__("" : "+x"(x))
#elif defined(__GNUC__) && defined(__aarch64__)
#define TMI_ROUNDED(x) __asm__("" : "+w"(x))
#elif defined(__GNUC__)
#define TMI_ROUNDED(x) __asm__("" : "+m"(x))
#else
#define TMI_ROUNDED(x) ((void)0)
#endif

/* Keys order F32 and F64 codes like the numbers that they stand for, with -0 before 0. */
struct tmi_lanes {
    double sum[TMI_LANES], square[TMI_LANES]; /* of x - shift, over the finite values */
    double shift;
    bool shifts; /* the shift is set to the first finite value */
    uint64_t finite, zeros, subnormals, nans, infinities;
    int64_t least, greatest; /* keys of the least and the greatest finite value */
};

/*
 * Starts sums of differences from the first finite value, or from 0 if `shifts` is false. A caller
 * may set another shift before the first element.
 */
void tmi_lanes_begin(tmi_lanes *lanes, bool shifts);
/*
 * Plain C. `src` holds host-order elements of any alignment: elements [first, first + count) of the
 * block. A kernel may have processed the elements before `first`.
 */
void tmi_lanes_f32(tmi_lanes *lanes, const void *src, size_t first, size_t count);
void tmi_lanes_f64(tmi_lanes *lanes, const void *src, size_t first, size_t count);

/* The key of an F32, and the numbers that keys stand for. */
int64_t tmi_key_of_f32(uint32_t bits);
double tmi_key_f32(int64_t key);
double tmi_key_f64(int64_t key);

/*
 * The finite values of a part, each times 2^-scale: their count, their mean and the sum of their
 * squared distances from it. Sums of two doubles have twice the digits, so neither a mean that is
 * large compared with the spread nor the number of parts costs precision. The scale is chosen by
 * the largest magnitude and brings it near 1, so that no square overflows and none that would
 * affect the sum underflows: numbers that differ do so in their 53rd digit at the latest.
 */
typedef struct tmi_mean_squares {
    uint64_t count;
    double mean, mean_rest;
    double squares, squares_rest;
    int scale;
} tmi_mean_squares;

/* The scale for F64 from `min` to `max`. All narrower floats and the integers use 0. */
int tmi_mean_squares_scale(double min, double max);
/* The factor that values are multiplied by for a scale; a power of two. */
double tmi_mean_squares_factor(int scale);
/* For `count` equal values. */
tmi_mean_squares tmi_mean_squares_same(double value, uint64_t count, int scale);
/*
 * For a block whose values were scaled before they were added. Returns false if the shift is so far
 * from the mean that the squares lost digits; the mean is correct even then. The block must then be
 * added again, with the mean as its shift.
 */
bool tmi_mean_squares_of_lanes(tmi_mean_squares *spread, const tmi_lanes *lanes, int scale);
/* Merges part `b`, which follows `a`, into `a`. */
void tmi_mean_squares_merge(tmi_mean_squares *a, const tmi_mean_squares *b);
/* The results, scaled back; at least one value is required. */
void tmi_mean_squares_results(const tmi_mean_squares *spread, double *mean, double *std,
                              double *norm);

/*
 * A histogram's bins for F32. Keys are those of tmi_key_of_f32. Integer comparisons decide which
 * bin a value is in, so rounding and floating-point modes have no influence. NaN and infinities are
 * outside.
 */
struct tmi_f32_bins {
    /*
     * value * scale - offset, truncated, is the bin or the one before it. It can be the one before
     * only if the fraction is at least near_next.
     */
    float scale, offset;
    float near_next;
    uint32_t bins;        /* their number, which is also the place of values outside */
    int32_t low, high;    /* the first and the last key inside */
    const int32_t *edges; /* the first key of each bin, then INT32_MAX */
};

/* Exact under any denormal mode of the caller: an F32 subnormal is an integer times 2^-149. */
static inline double tmi_widen_f32(uint32_t bits) {
    uint32_t magnitude = bits & 0x7fffffff;
    float value;
    if (TMI_UNLIKELY(magnitude - 1 < 0x007fffff)) {
        double exact = (double)magnitude * 0x1p-149;
        return bits >> 31 ? -exact : exact;
    }
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

#endif
#endif
