/*
 * tenmap: statistics and histograms of tensors. The opening comment of tenmap.h says what holds for
 * all calls.
 */
#ifndef TENMAP_INCLUDE_MEASURE_H
#define TENMAP_INCLUDE_MEASURE_H

#include "read.h"

#ifndef TENMAP_NO_MEASURE

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Statistics of one tensor, owned by the caller. BOOL counts as 0 and 1, C64 as twice as many F32,
 * block dtypes as F32; U64 and I64 beyond 2^53 are rounded to F64 first. NaN and infinities are
 * counted and otherwise ignored.
 */
typedef struct tenmap_stats {
    uint64_t count;      /* elements (C64: parts) */
    uint64_t zeros;      /* of either sign */
    uint64_t subnormals; /* as the dtype has them: not zero, and below its least normal number */
    uint64_t nans, infinities;
    double min, max; /* of the finite values; NaN if there are none */
    double mean;     /* likewise */
    double std;      /* likewise: of the population, sqrt(sum((x - mean)^2) / n) */
    double norm;     /* sqrt(sum(x^2)) of the finite values; 0 if there are none */
    uint64_t reserved[4];
} tenmap_stats;

/* Start from TENMAP_STATS_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_stats_options {
    size_t struct_size; /* sizeof(tenmap_stats_options): lets the struct grow */
    uint32_t threads;   /* 0: the library decides; at most 64, the caller's included */
    uint32_t flags;     /* 0 */
    uint32_t bins;      /* of the histogram; 0 without one */
    uint32_t reserved;  /* 0 */
    /*
     * The range of every histogram; low == high: each tensor's own, from its min to its max, which
     * takes a second pass. Bin b counts edge(b) <= x < edge(b + 1), the last one also x == high,
     * and edge(b) is low + b * ((high - low) / bins), each operation rounded to F64: exactly what
     * numpy.histogram(x, numpy.linspace(low, high, bins + 1)) counts for x as float64. Values
     * outside the range, NaN and infinities are in no bin. A tensor of equal values has all of them
     * in bin 0 of its own range. Where there are more bins than numbers between low and high,
     * several bins begin at the same number: the last of them gets it.
     */
    double low, high;
    uint64_t *histogram; /* n * bins counts, tensor after tensor; NULL: none */
    /* As in tenmap_load_options: on the caller's thread; a nonzero return cancels. */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
} tenmap_stats_options;

#define TENMAP_STATS_OPTIONS_INIT                                                                  \
    { sizeof(tenmap_stats_options), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL }

/*
 * Measures n tensors, of one model or of several, on any backend, into out[0..n), in one pass at
 * close to the speed of memory. No tensor is ever in memory as a whole. Counts, min and max are
 * exact. std and norm are right to 1e-12 of themselves, mean to 1e-12 of the larger of itself and
 * std, for every dtype, whatever the values: also where std is tiny beside the mean, where squares
 * would overflow or underflow, and where there are outliers. The exceptions are
 * - results below the least normal F64, 2.2e-308: they are right to 4.9e-324;
 * - a norm beyond the largest F64, which is infinite (mean and std cannot be beyond it);
 * - U64 and I64 beyond 2^53, see above: the rounded values are measured.
 *
 * The numbers do not depend on the number of threads, and the paths for different CPUs give the
 * same bits. Nor do they depend on what the caller set for denormals, except for mean, std and norm
 * of F64 subnormals.
 *
 * TENMAP_OPAQUE is TENMAP_ERR_UNSUPPORTED, before anything is read. error.index is the tensor's
 * number. After an error or a cancel (TENMAP_ERR_CANCELLED) the contents of out and of the
 * histogram are undefined. Pages of a mapped tensor that are not in the page cache are brought in
 * as with TENMAP_ADVISE_POPULATE, a few MiB at a time.
 */
TENMAP_API tenmap_status tenmap_measure(const tenmap_tensor *const *tensors, size_t n,
                                        const tenmap_stats_options *options, tenmap_stats *out,
                                        tenmap_error *error);

#ifdef __cplusplus
}
#endif

#endif

#endif
