/* Measures in plain C; this defines what the vector kernels must compute. */
#include "moments.h"

#ifndef TENMAP_NO_MEASURE

void tmi_lanes_begin(tmi_lanes *lanes, bool shifts) {
    *lanes = (tmi_lanes){.shifts = shifts, .least = INT64_MAX, .greatest = INT64_MIN};
}

/* The bits of positive numbers are in order; those of negative numbers are in reverse order. */
int64_t tmi_key_of_f32(uint32_t bits) {
    return bits >> 31 ? -(int64_t)(bits & 0x7fffffff) - 1 : (int64_t)bits;
}

static int64_t key_of_f64(uint64_t bits) {
    return bits >> 63 ? -(int64_t)(bits & INT64_MAX) - 1 : (int64_t)bits;
}

double tmi_key_f32(int64_t key) {
    return tmi_widen_f32(key < 0 ? (uint32_t)(-(key + 1)) | 0x80000000u : (uint32_t)key);
}

double tmi_key_f64(int64_t key) {
    uint64_t bits = key < 0 ? (uint64_t)(-(key + 1)) | (uint64_t)1 << 63 : (uint64_t)key;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void add_value(tmi_lanes *lanes, size_t lane, double x, int64_t key) {
    if (lanes->finite++ == 0 && lanes->shifts)
        lanes->shift = x;
    double distance = x - lanes->shift;
    TMI_ROUNDED(distance);
    double square = distance * distance;
    TMI_ROUNDED(square);
    double sum = lanes->sum[lane] + distance, squares = lanes->square[lane] + square;
    TMI_ROUNDED(sum);
    TMI_ROUNDED(squares);
    lanes->sum[lane] = sum;
    lanes->square[lane] = squares;
    lanes->least = key < lanes->least ? key : lanes->least;
    lanes->greatest = key > lanes->greatest ? key : lanes->greatest;
}

void tmi_lanes_f32(tmi_lanes *lanes, const void *src, size_t first, size_t count) {
    const unsigned char *at = src;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits, magnitude;
        memcpy(&bits, at + i * sizeof bits, sizeof bits);
        magnitude = bits & 0x7fffffff;
        lanes->zeros += magnitude == 0;
        lanes->subnormals += magnitude - 1 < 0x007fffff;
        lanes->nans += magnitude > 0x7f800000;
        lanes->infinities += magnitude == 0x7f800000;
        if (magnitude < 0x7f800000)
            add_value(lanes, (first + i) % TMI_LANES, tmi_widen_f32(bits), tmi_key_of_f32(bits));
    }
}

void tmi_lanes_f64(tmi_lanes *lanes, const void *src, size_t first, size_t count) {
    const uint64_t infinity = UINT64_C(0x7ff0000000000000);
    const unsigned char *at = src;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits, magnitude;
        double x;
        memcpy(&bits, at + i * sizeof bits, sizeof bits);
        magnitude = bits & INT64_MAX;
        lanes->zeros += magnitude == 0;
        lanes->subnormals += magnitude - 1 < UINT64_C(0x000fffffffffffff);
        lanes->nans += magnitude > infinity;
        lanes->infinities += magnitude == infinity;
        if (magnitude >= infinity)
            continue;
        memcpy(&x, &bits, sizeof x);
        add_value(lanes, (first + i) % TMI_LANES, x, key_of_f64(bits));
    }
}

#endif
