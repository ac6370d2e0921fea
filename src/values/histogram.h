/*
 * A part of values.h: finds the bin of a histogram that a value is in, exactly as numpy.histogram
 * does, and counts how often codes occur.
 */
#ifndef TENMAP_HISTOGRAM_H
#define TENMAP_HISTOGRAM_H

#include "values.h"
#include "../kernels/moments.h"

#ifndef TENMAP_NO_MEASURE

/*
 * Copies the caller's options for a measurement, and checks the bins and the range of the
 * histogram.
 */
tenmap_status tmi_init_stats_options(const tenmap_stats_options *given, tenmap_stats_options *out,
                                     tenmap_error *error);

/* A histogram's range, and what is needed to find the bin of a value. */
typedef struct tmi_bin_range {
    double low, high;
    double scale, offset; /* x * scale - offset is the position of x in bins, or slightly less */
    bool search;          /* that is not precise enough for this range: search the edges */
    uint32_t bins;
    const double *edges; /* the lower edge of each bin, then infinity */
    bool has_f32;        /* F32 is precise enough to find the bins: f32 is set */
    tmi_f32_bins f32;
} tmi_bin_range;

/*
 * Sets up the fields that follow from low, high and bins. `edges` and `keys` have room for bins + 1
 * elements, and must live as long as the range.
 */
void tmi_make_range(tmi_bin_range *range, double *edges, int32_t *keys);
/* The last bin whose lower edge is not above x; bin 0 if the range is a single value. */
uint32_t tmi_search_bin(const tmi_bin_range *range, double x);

/* The bin of a value in [low, high]: the estimate, or the next bin if x has reached its edge. */
static inline uint32_t tmi_bin_of(const tmi_bin_range *range, double x) {
    if (TMI_UNLIKELY(range->search))
        return tmi_search_bin(range, x);
    uint32_t bin = (uint32_t)(x * range->scale - range->offset);
    return bin + (x >= range->edges[bin + 1]);
}

/*
 * Values outside the range, NaN included, go to the extra bin number `bins`. The caller passes
 * `finite`, since a compiler may be told to assume that there is no NaN.
 */
static inline uint32_t tmi_bin_or_outside(const tmi_bin_range *range, double x, bool finite) {
    bool inside = finite & (x >= range->low) & (x <= range->high);
    return inside ? tmi_bin_of(range, x) : range->bins;
}

/* The same for `count` F32 or F64 in host order, at any alignment. */
void tmi_find_bins(const tmi_bin_range *range, uint32_t *places, const unsigned char *values,
                   size_t count, bool is_f64);

/* code_histogram.c counts elements by their codes in file order, fewer than 2^32 at a time. */

enum { TMI_WORD_CODES = 65536 };

/* Adds to `counts` how often each 16-bit code occurs. */
void tmi_count_words(uint32_t *counts, const unsigned char *src, size_t count);
/* Moves 256 counts to `out` and leaves zeros. If all are zero, returns false and writes nothing. */
bool tmi_move_counts(uint32_t *counts, uint32_t out[256]);
/*
 * Counts elements of at most 8 bits. Until tmi_end_codes is called, `codes` counts bytes, even if a
 * byte holds two elements. `pairs` has TMI_WORD_CODES counts, or is NULL; it must be NULL for 6-bit
 * elements. If it is not NULL, it holds most of the counts until tmi_end_codes, which leaves zeros
 * in it.
 */
void tmi_count_codes(tenmap_dtype dtype, uint64_t codes[256], uint32_t *pairs,
                     const unsigned char *src, size_t count);
void tmi_end_codes(tenmap_dtype dtype, uint64_t codes[256], uint32_t *pairs);

#endif
#endif
