/*
 * Computes mean and deviation of parts and merges parts. Every operation is rounded on its own, so
 * all hosts and builds compute the same bits.
 */
#include "moments.h"

#ifndef TENMAP_NO_MEASURE

/* Scales other than 0 are for values above 2^SCALE_FROM or below 2^-SCALE_FROM. */
enum { SCALE_FROM = 350, SCALE_STEP = 700 };
/* Limit on (squares about the shift) / (squares about the mean): a higher ratio loses digits. */
enum { MOST_LOSS = 17 };

static double sum_of(double a, double b) {
    double sum = a + b;
    TMI_ROUNDED(sum);
    return sum;
}

static double product_of(double a, double b) {
    double product = a * b;
    TMI_ROUNDED(product);
    return product;
}

static double quotient_of(double a, double b) {
    double quotient;
    TMI_ROUNDED(b); /* keeps compilers from sharing one reciprocal among several divisions */
    quotient = a / b;
    TMI_ROUNDED(quotient);
    return quotient;
}

/* a + b, and in *rest exactly what rounding removed from it (Knuth). */
static double sum_and_rest(double a, double b, double *rest) {
    double sum = sum_of(a, b), b_part = sum_of(sum, -a), a_part = sum_of(sum, -b_part);
    *rest = sum_of(sum_of(a, -a_part), sum_of(b, -b_part));
    return sum;
}

/* Adds x to a sum of two doubles. */
static void add_to_sum(double *sum, double *rest, double x) {
    double lost;
    *sum = sum_and_rest(*sum, x, &lost);
    *rest = sum_of(*rest, lost);
}

/*
 * The correctly rounded square root, computed digit by digit with integer arithmetic: the C
 * library's is in a separate library (libm), and all hosts must give the same result.
 */
static double square_root(double x) {
    uint64_t bits, root = 0, rest = 0;
    memcpy(&bits, &x, sizeof bits);
    if (bits >> 52 == 0 || bits >> 52 >= 0x7ff) /* zero, subnormal, negative, infinite, NaN */
        return bits >> 63 || bits >> 52 == 0 ? 0 : x;
    int exponent = (int)(bits >> 52) - 1023;
    uint64_t significand = (bits & UINT64_C(0xfffffffffffff)) | (uint64_t)1 << 52;
    if (exponent & 1) {
        significand <<= 1;
        exponent--;
    }
    /* 54 digits of the root of significand * 2^54, of at most 108 digits; the last one rounds. */
    for (int i = 0; i < 54; i++) {
        unsigned shift = 106 - 2 * (unsigned)i;
        uint64_t pair = shift >= 54 ? significand >> (shift - 54) & 3 : 0;
        rest = rest << 2 | pair;
        root <<= 1;
        if (rest >= (root << 1 | 1)) {
            rest -= root << 1 | 1;
            root |= 1;
        }
    }
    root = (root >> 1) + (root & 1 && (rest || root & 2));
    /* A carry out of the fraction increments the exponent, as it should. */
    bits = ((uint64_t)(exponent / 2 + 1022) << 52) + root;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Zero has the smallest scale, since it says nothing about the scale of the others. */
int tmi_mean_squares_scale(double min, double max) {
    uint64_t bits[2];
    memcpy(&bits[0], &min, sizeof min);
    memcpy(&bits[1], &max, sizeof max);
    int of_min = (int)(bits[0] >> 52 & 0x7ff) - 1023, of_max = (int)(bits[1] >> 52 & 0x7ff) - 1023;
    int exponent = of_min > of_max ? of_min : of_max;
    return exponent > SCALE_FROM ? SCALE_STEP : exponent < -SCALE_FROM ? -SCALE_STEP : 0;
}

double tmi_mean_squares_factor(int scale) {
    return scale > 0 ? 0x1p-700 : scale < 0 ? 0x1p700 : 1;
}

tmi_mean_squares tmi_mean_squares_same(double value, uint64_t count, int scale) {
    return (tmi_mean_squares){
        .count = count,
        .mean = value == 0 ? 0 : product_of(value, tmi_mean_squares_factor(scale)),
        .scale = scale};
}

bool tmi_mean_squares_of_lanes(tmi_mean_squares *spread, const tmi_lanes *lanes, int scale) {
    double sum = 0, square = 0;
    *spread = (tmi_mean_squares){.count = lanes->finite, .scale = scale};
    for (size_t i = 0; i < TMI_LANES; i++) {
        sum = sum_of(sum, lanes->sum[i]);
        square = sum_of(square, lanes->square[i]);
    }
    double off = quotient_of(sum, (double)lanes->finite);
    spread->mean = sum_and_rest(lanes->shift, off, &spread->mean_rest);
    spread->squares = sum_of(square, -product_of(sum, off));
    if (spread->squares < 0)
        spread->squares = 0;
    return square <= (double)MOST_LOSS * spread->squares;
}

/* Raises the scale to match a part with larger values, beside which anything lost is invisible. */
static void raise_scale(tmi_mean_squares *spread, int scale) {
    for (; spread->scale < scale; spread->scale += SCALE_STEP) {
        spread->mean = product_of(spread->mean, 0x1p-700);
        spread->mean_rest = product_of(spread->mean_rest, 0x1p-700);
        spread->squares = product_of(product_of(spread->squares, 0x1p-700), 0x1p-700);
        spread->squares_rest = product_of(product_of(spread->squares_rest, 0x1p-700), 0x1p-700);
    }
}

void tmi_mean_squares_merge(tmi_mean_squares *a, const tmi_mean_squares *b) {
    tmi_mean_squares other = *b;
    if (a->count == 0 || other.count == 0) {
        *a = a->count ? *a : other;
        return;
    }
    raise_scale(a, other.scale);
    raise_scale(&other, a->scale);
    double ours = (double)a->count, theirs = (double)other.count;
    double share = quotient_of(theirs, sum_of(ours, theirs)), rest;
    double apart = sum_and_rest(other.mean, -a->mean, &rest);
    apart = sum_of(apart, sum_of(rest, sum_of(other.mean_rest, -a->mean_rest)));
    a->count += other.count;
    add_to_sum(&a->mean, &a->mean_rest, product_of(apart, share));
    add_to_sum(&a->squares, &a->squares_rest, other.squares);
    add_to_sum(&a->squares, &a->squares_rest,
               product_of(product_of(apart, apart), product_of(ours, share)));
    a->squares_rest = sum_of(a->squares_rest, other.squares_rest);
}

/* Mean and deviation cannot exceed the largest F64, but rounding could take them there. */
static double within_f64(double x, int scale) {
    const double most = 0x1.fffffffffffffp323; /* the largest F64 at the largest scale, 2^700 */
    if (scale <= 0)
        return x;
    return x > most ? most : x < -most ? -most : x;
}

void tmi_mean_squares_results(const tmi_mean_squares *spread, double *mean, double *std,
                              double *norm) {
    double back = spread->scale > 0 ? 0x1p700 : spread->scale < 0 ? 0x1p-700 : 1;
    double count = (double)spread->count, middle = sum_of(spread->mean, spread->mean_rest);
    double squares = sum_of(spread->squares, spread->squares_rest);
    double all = sum_of(squares, product_of(product_of(middle, middle), count));
    double deviation = square_root(quotient_of(squares, count));
    *mean = product_of(within_f64(middle, spread->scale), back);
    *std = product_of(within_f64(deviation, spread->scale), back);
    *norm = product_of(square_root(all), back);
}

#endif
