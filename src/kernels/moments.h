/*
 * What measure.c and the kernels know of each other: sums over one block of at most
 * TMI_MEASURE_BLOCK elements. Element i goes to lane i modulo TMI_LANES, and each lane adds its
 * elements in order, in double, one rounding per operation: so every path gives the same bits.
 * merge_moments.c makes mean and deviation of them, and brings those of blocks together.
 */
#ifndef TENMAP_MOMENTS_H
#define TENMAP_MOMENTS_H

#include "kernels.h"

#ifndef TENMAP_NO_MEASURE

#include <string.h>

enum { TMI_LANES = 16, TMI_MEASURE_BLOCK = 4096 };

/*
 * The value as a double, rounded: no compiler may keep more digits (x87), fuse the operation with
 * the next (FMA) or move it. Vector units do the same one lane at a time.
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

/* The keys order F32 and F64 codes as the numbers that they stand for, -0 before 0. */
struct tmi_lanes {
    double sum[TMI_LANES], square[TMI_LANES]; /* of x - shift, over the finite values */
    double shift;
    bool shifts; /* the shift becomes the first finite value */
    uint64_t finite, zeros, subnormals, nans, infinities;
    int64_t least, greatest; /* keys of the least and the greatest finite value */
};

/* About the first finite value, or about 0. Another shift may be set before the first element. */
void tmi_lanes_begin(tmi_lanes *lanes, bool shifts);
/*
 * Plain C. `src` holds host-order elements of any alignment, which are elements [first, first +
 * count) of the block. These may follow a kernel's work on the elements before `first`.
 */
void tmi_lanes_f32(tmi_lanes *lanes, const void *src, size_t first, size_t count);
void tmi_lanes_f64(tmi_lanes *lanes, const void *src, size_t first, size_t count);

/* The key of an F32, and the numbers that keys stand for. */
int64_t tmi_key_of_f32(uint32_t bits);
double tmi_key_f32(int64_t key);
double tmi_key_f64(int64_t key);

/*
 * The finite values of a part, each times 2^-scale: how many, their mean, the sum of their squared
 * distances from it. A sum of two doubles has twice the digits, so that neither a mean that is large
 * beside the spread nor the number of parts costs any. The scale follows from the largest magnitude
 * and brings it near 1, so that no square overflows, and none underflows that could be seen in the
 * sum: numbers that differ do so in their 53rd digit at the latest.
 */
typedef struct tmi_mean_squares {
    uint64_t count;
    double mean, mean_rest;
    double squares, squares_rest;
    int scale;
} tmi_mean_squares;

/* For F64 from `min` to `max`. All narrower floats and the integers do with 0. */
int tmi_mean_squares_scale(double min, double max);
/* What values are multiplied by for a scale; a power of two. */
double tmi_mean_squares_factor(int scale);
/* Of values that all are the same. */
tmi_mean_squares tmi_mean_squares_same(double value, uint64_t count, int scale);
/*
 * Of a block, whose values were scaled before they were added. False if the shift is so far from the
 * mean, which is right, that the squares lost digits: the block is to be added about the mean.
 */
bool tmi_mean_squares_of_lanes(tmi_mean_squares *spread, const tmi_lanes *lanes, int scale);
/* Brings two parts together, `b` behind `a`. */
void tmi_mean_squares_merge(tmi_mean_squares *a, const tmi_mean_squares *b);
/* The results of at least one value, scaled back. */
void tmi_mean_squares_results(const tmi_mean_squares *spread, double *mean, double *std,
                              double *norm);

/*
 * A histogram's bins as F32 see them. Keys are those of tmi_key_of_f32: what is in which bin is a
 * matter of integers, so that neither roundings nor modes are, and NaN and infinities are outside.
 */
struct tmi_f32_bins {
    float scale, offset;  /* a value times scale, less offset, is its bin or little too low: */
    float near_next;      /* it may be the next, where the fraction of that is at least this */
    uint32_t bins;        /* and the place of what is outside */
    int32_t low, high;    /* the first key and the last that are inside */
    const int32_t *edges; /* the first key of each bin, then INT32_MAX */
};

/* Exact whatever the caller set for denormals: an F32 subnormal is an integer times 2^-149. */
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
