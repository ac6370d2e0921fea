/* The edges of a histogram's bins. */
#include "values.h"
#include "histogram.h"
#include "kernels/moments.h"

#ifndef TENMAP_NO_MEASURE

#include <string.h>

uint32_t tmi_search_bin(const tmi_bin_range *range, double x) {
    uint32_t first = 0, behind = range->low < range->high ? range->bins : 1;
    while (behind - first > 1) {
        uint32_t middle = first + (behind - first) / 2;
        if (range->edges[middle] <= x)
            first = middle;
        else
            behind = middle;
    }
    return first;
}

/*
 * low + b * ((high - low) / bins), each operation rounded: the edges of numpy.histogram. In halves
 * where the width overflows, and by another order of operations where a bin's width underflows.
 */
static void make_edges(tmi_bin_range *range, double *edges) {
    double width = range->high - range->low, low = range->low, high = range->high, unit = 1;
    uint64_t bits;
    TMI_ROUNDED(width);
    memcpy(&bits, &width, sizeof bits);
    if (bits >> 52 == 0x7ff) {
        unit = 2;
        low *= 0.5;
        high *= 0.5;
        TMI_ROUNDED(low); /* so that no compiler halves the difference instead */
        TMI_ROUNDED(high);
        width = high - low;
    }
    double count = range->bins, step = width / count;
    TMI_ROUNDED(step);
    for (uint32_t b = 0; b < range->bins; b++) {
        double at = step > 0 ? b * step : b / count;
        TMI_ROUNDED(at);
        at = step > 0 ? at : at * width;
        TMI_ROUNDED(at);
        at += low;
        TMI_ROUNDED(at);
        edges[b] = (at < high ? at : high) * unit;
    }
    range->edges = edges;
}

void tmi_make_range(tmi_bin_range *range, double *edges) {
    const uint64_t infinity = UINT64_C(0x7ff0000000000000);
    double width = range->high * 0.5 - range->low * 0.5; /* half of it */
    double most = -range->low > range->high ? -range->low : range->high;
    make_edges(range, edges);
    memcpy(&edges[range->bins], &infinity, sizeof infinity);
    range->search = !(width > 0x1p-900 && width < 0x1p900);
    if (range->search)
        return;
    /* Places and edges are a few roundings off, those of the ends among them: by less than slack. */
    double slack = range->bins * 0x1p-50 * (1 + most / width);
    range->scale = 0.5 * range->bins / width;
    range->offset = range->low * range->scale + slack;
    range->search = !(slack < 0.25);
}

#endif
