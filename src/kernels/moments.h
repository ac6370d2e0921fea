/*
 * What measure.c and the kernels know of each other: sums over one block of at most
 * TMI_MEASURE_BLOCK elements. Element i goes to lane i modulo TMI_LANES, and each lane adds its
 * elements in order, in double, one rounding per operation: so every path gives the same bits.
 */
#ifndef TENMAP_MOMENTS_H
#define TENMAP_MOMENTS_H

#include "kernels.h"

#include <string.h>

enum { TMI_LANES = 16, TMI_MEASURE_BLOCK = 4096 };

/* The keys order F32 and F64 codes as the numbers that they stand for, -0 before 0. */
struct tmi_lanes {
    double sum[TMI_LANES], square[TMI_LANES]; /* of x - shift, over the finite values */
    double shift; /* the first finite value; 0 for elements of 16 bits, whose sums are exact */
    bool shifts;
    uint64_t finite, zeros, subnormals, nans, infinities;
    int64_t least, greatest; /* keys of the least and the greatest finite value */
};

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
