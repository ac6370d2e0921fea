/* A histogram drawn with block characters. */
#ifndef TOOL_HISTOGRAM_H
#define TOOL_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct histogram {
    const uint64_t *counts;
    uint32_t bins;    /* one column each */
    double low, high; /* of the first and the last bin; NaN where there is nothing to show */
    bool log;         /* heights are logarithms */
} histogram;

/* Some rows of bars, the bins' edges below them where there is room, and a line that says the rest. */
void histogram_draw(const histogram *h);

/* A line for each bin: its edges, its count, and a bar. */
void histogram_list(const histogram *h);

#endif
