/*
 * A part of values.h: in which bin of a histogram a value is, exactly as numpy.histogram has it, and
 * how often codes occur.
 */
#ifndef TENMAP_HISTOGRAM_H
#define TENMAP_HISTOGRAM_H

#include "values.h"
#include "../kernels/moments.h"

#ifndef TENMAP_NO_MEASURE

/* What the caller wants of a measurement, its histogram's bins and range checked. */
tenmap_status tmi_take_stats_options(const tenmap_stats_options *given, tenmap_stats_options *out,
                                     tenmap_error *error);

/* A histogram's range, and what brings its values to their bins. */
typedef struct tmi_bin_range {
    double low, high;
    double scale, offset; /* a value times scale, less offset, is its bin or little too low */
    bool search;          /* but not if too little or too much is between low and high */
    uint32_t bins;
    const double *edges; /* where each bin begins, and infinity */
    bool has_f32;        /* the same for F32 alone, where its digits are enough */
    tmi_f32_bins f32;
} tmi_bin_range;

/* Sets up what lies between low and high; `edges` and `keys` have room for one more than there are
 * bins. */
void tmi_make_range(tmi_bin_range *range, double *edges, int32_t *keys);
/* The last bin that does not begin behind a value; the first of a range that is one value. */
uint32_t tmi_search_bin(const tmi_bin_range *range, double x);

/* The bin of a value between low and high: its place, or the one behind, as the edge between says. */
static inline uint32_t tmi_bin_of(const tmi_bin_range *range, double x) {
    if (TMI_UNLIKELY(range->search))
        return tmi_search_bin(range, x);
    uint32_t bin = (uint32_t)(x * range->scale - range->offset);
    return bin + (x >= range->edges[bin + 1]);
}

/* What is outside has a bin of its own. NaN too: but a compiler may be told that there is none. */
static inline uint32_t tmi_bin_or_outside(const tmi_bin_range *range, double x, bool finite) {
    bool inside = finite & (x >= range->low) & (x <= range->high);
    return inside ? tmi_bin_of(range, x) : range->bins;
}

/* The same for `count` F32 or F64 in the host's order, of any alignment. */
void tmi_bin_places(const tmi_bin_range *range, uint32_t *places, const unsigned char *values,
                    size_t count, bool is_f64);

/* code_histogram.c. Less than 2^32 elements are counted at a time, by codes in the order of files. */

enum { TMI_WORD_CODES = 65536 };

/* How often each code of 16 bits occurs, added to `counts`. */
void tmi_count_words(uint32_t *counts, const unsigned char *src, size_t count);
/* Moves 256 counts to `out` and leaves zeros; false, and nothing is written, if all are zero. */
bool tmi_take_counts(uint32_t *counts, uint32_t out[256]);
/*
 * Elements of at most 8 bits. Until tmi_end_codes, `codes` has counts of bytes, where a byte is two
 * elements. Unless `pairs`, of TMI_WORD_CODES, is NULL it has most of the counts until then, and zeros
 * from then on; it must be NULL for elements of 6 bits.
 */
void tmi_count_codes(tenmap_dtype dtype, uint64_t codes[256], uint32_t *pairs,
                     const unsigned char *src, size_t count);
void tmi_end_codes(tenmap_dtype dtype, uint64_t codes[256], uint32_t *pairs);

#endif
#endif
