/* A part of values.h: in which bin of a histogram a value is, exactly as numpy.histogram has it. */
#ifndef TENMAP_HISTOGRAM_H
#define TENMAP_HISTOGRAM_H

#include "values.h"

#ifndef TENMAP_NO_MEASURE

/* A histogram's range, and what brings its values to their bins. */
typedef struct tmi_bin_range {
    double low, high;
    double scale, offset; /* a value times scale, less offset, is its bin or little too low */
    bool search;          /* but not if too little or too much is between low and high */
    uint32_t bins;
    const double *edges; /* where each bin begins, and infinity */
} tmi_bin_range;

/* Sets up what lies between low and high; `edges` has room for one more than there are bins. */
void tmi_make_range(tmi_bin_range *range, double *edges);
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

#endif
#endif
