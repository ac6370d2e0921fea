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

/* Some rows of bars, and a line with the range below them. */
void histogram_draw(const histogram *h);

#endif
