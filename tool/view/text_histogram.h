/* Draws histograms with block characters. */
#ifndef TOOL_TEXT_HISTOGRAM_H
#define TOOL_TEXT_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct histogram {
    const uint64_t *counts;
    uint32_t bins;    /* one column each */
    double low, high; /* edges of the first and the last bin; NaN if there is nothing to show */
    bool log;         /* heights are logarithms */
} histogram;

/*
 * Draws rows of bars, the bins' edges below them if there is room, and a line with the remaining
 * facts.
 */
void histogram_draw(const histogram *h);

/* Prints one line per bin: its edges, its count, and a bar. */
void histogram_list(const histogram *h);

#endif
