/* Computes the edges of a histogram's bins, and finds the bins of values. */
#include "values.h"
#include "cpu.h"
#include "histogram.h"

#ifndef TENMAP_NO_MEASURE

#include <string.h>

tenmap_status tmi_init_stats_options(const tenmap_stats_options *given, tenmap_stats_options *out,
                                     tenmap_error *error) {
    static const tmi_options_kind kind = {"tenmap_stats_options",
                                          "TENMAP_STATS_OPTIONS_INIT",
                                          sizeof(tenmap_stats_options),
                                          offsetof(tenmap_stats_options, ctx) + sizeof(void *),
                                          offsetof(tenmap_stats_options, flags),
                                          0,
                                          offsetof(tenmap_stats_options, reserved)};
    tenmap_status status = tmi_options_copy(&kind, given, out, error);
    if (status != TENMAP_OK)
        return status;
    if (out->histogram && out->bins == 0)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "a histogram is requested, but bins is 0");
    if (!out->histogram)
        out->bins = 0;
    double width = out->high * 0.5 - out->low * 0.5;
    uint64_t bits;
    memcpy(&bits, &width, sizeof bits);
    bool is_number = (bits & INT64_MAX) < UINT64_C(0x7ff0000000000000);
    if (!is_number || out->low > out->high)
        return tmi_fail(
            error, TENMAP_ERR_ARGUMENT,
            "the histogram's low and high must be finite, and low must not be above high");
    return TENMAP_OK;
}

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
 * The edges of numpy.histogram: low + b * ((high - low) / bins), each operation rounded. If the
 * width overflows, everything is computed in halves. If a bin's width underflows, the order of the
 * operations differs.
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

/*
 * The key of the first F32 that is not less than the edge: where the F32 of a bin begin. The edge
 * is within the range of F32.
 */
static int32_t key_from(double edge) {
    double magnitude = edge < 0 ? -edge : edge;
    if (magnitude < 0x1p-126) { /* exact in every mode for denormals */
        double units = edge * 0x1p149;
        int32_t whole = (int32_t)units;
        whole += (double)whole < units;
        return whole > 0 ? whole : whole - 1; /* 0 becomes -0: no edge separates them */
    }
    float narrow = (float)edge;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    int64_t key = tmi_key_of_f32(bits);
    return (int32_t)(key + (tmi_key_f32(key) < edge));
}

/* The key of the last F32 that is not greater than the edge. */
static int32_t key_up_to(double edge) {
    int32_t key = key_from(edge);
    if (edge == 0)
        return 0;
    return tmi_key_f32(key) > edge ? key - 1 : key;
}

/*
 * Sets up range->f32 if the bins are few and wide enough for F32 to find the bin of a value, or the
 * one before it.
 */
static void make_f32_bins(tmi_bin_range *range, double half, double most, int32_t *keys) {
    double slack = range->bins * 0x1p-20 * (1 + most / half);
    range->has_f32 = slack < 0.125 && half > 0x1p-100 && most < 0x1p100;
    if (!range->has_f32)
        return;
    for (uint32_t b = 0; b < range->bins; b++)
        keys[b] = key_from(range->edges[b]);
    keys[range->bins] = INT32_MAX;
    double scale = 0.5 * range->bins / half;
    range->f32 = (tmi_f32_bins){.scale = (float)scale,
                                .offset = (float)(range->low * scale + slack),
                                .near_next = (float)(1 - 2 * slack),
                                .bins = range->bins,
                                .low = key_from(range->low),
                                .high = key_up_to(range->high),
                                .edges = keys};
}

void tmi_make_range(tmi_bin_range *range, double *edges, int32_t *keys) {
    const uint64_t infinity = UINT64_C(0x7ff0000000000000);
    double width = range->high * 0.5 - range->low * 0.5; /* half of the width */
    double most = -range->low > range->high ? -range->low : range->high;
    make_edges(range, edges);
    memcpy(&edges[range->bins], &infinity, sizeof infinity);
    range->has_f32 = false;
    range->search = !(width > 0x1p-900 && width < 0x1p900);
    if (range->search)
        return;
    make_f32_bins(range, width, most, keys);
    /*
     * Positions and edges, those of low and high included, are off by a few roundings: by less than
     * slack.
     */
    double slack = range->bins * 0x1p-50 * (1 + most / width);
    range->scale = 0.5 * range->bins / width;
    range->offset = range->low * range->scale + slack;
    range->search = !(slack < 0.25);
}

static void find_f64_bins(const tmi_bin_range *range, uint32_t *places, const unsigned char *values,
                          size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        double x;
        memcpy(&bits, values + i * sizeof bits, sizeof bits);
        bool finite = (bits & INT64_MAX) < UINT64_C(0x7ff0000000000000);
        bits = finite ? bits : 0;
        memcpy(&x, &bits, sizeof x);
        places[i] = tmi_bin_or_outside(range, x, finite);
    }
}

void tmi_find_bins(const tmi_bin_range *wanted, uint32_t *places, const unsigned char *values,
                   size_t count, bool is_f64) {
    const tmi_bin_range held = *wanted, *range = &held; /* a copy that no store below can change */
    tmi_f32_find_bins *kernel = range->has_f32 ? tmi_cpu_kernels()->places : NULL;
    size_t i = 0;
    if (is_f64) {
        find_f64_bins(range, places, values, count);
        return;
    }
    if (kernel) {
        i = count - count % 8;
        kernel(places, values, i, &range->f32);
    }
    for (; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i * sizeof bits, sizeof bits);
        bool finite = (bits & 0x7fffffff) < 0x7f800000;
        double x = tmi_widen_f32(finite ? bits : 0);
        places[i] = tmi_bin_or_outside(range, x, finite);
    }
}

#endif
