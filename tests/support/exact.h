/*
 * A second, independent implementation of every rounding, written from the definitions: the values
 * of a format are listed as doubles, and a result is the listed value nearest to the source. A
 * double holds every value and every midpoint of every format of at most 16 bits.
 */
#ifndef TENMAP_TESTS_EXACT_H
#define TENMAP_TESTS_EXACT_H

#include "tenmap.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct exact_format {
    tenmap_dtype dtype;
    int exponent_bits, fraction_bits, bias;
    uint32_t finite;   /* codes 0 to finite-1 are the nonnegative values */
    int64_t too_large; /* the code for larger values; -1: they clamp */
    bool fnuz;         /* NaN is 0x80, zero has no sign */
} exact_format;

static const exact_format exact_formats[] = {
    {TENMAP_F4, 2, 1, 1, 0x8, -1, false},
    {TENMAP_F6_E2M3, 2, 3, 1, 0x20, -1, false},
    {TENMAP_F6_E3M2, 3, 2, 3, 0x20, -1, false},
    {TENMAP_F8_E5M2, 5, 2, 15, 0x7c, 0x7c, false},
    {TENMAP_F8_E4M3, 4, 3, 7, 0x7f, 0x7f, false},
    {TENMAP_F8_E4M3FNUZ, 4, 3, 8, 0x80, 0x80, true},
    {TENMAP_F8_E5M2FNUZ, 5, 2, 16, 0x80, 0x80, true},
    {TENMAP_F16, 5, 10, 15, 0x7c00, 0x7c00, false},
    {TENMAP_BF16, 8, 7, 127, 0x7f80, 0x7f80, false},
};
enum { EXACT_FORMAT_COUNT = sizeof exact_formats / sizeof exact_formats[0] };

static inline const exact_format *exact_find(tenmap_dtype dtype) {
    for (size_t i = 0; i < EXACT_FORMAT_COUNT; i++)
        if (exact_formats[i].dtype == dtype)
            return &exact_formats[i];
    return NULL;
}

/* The value of a code without a sign, as if the format's codes continued without end. */
static inline double exact_value(const exact_format *f, uint32_t code) {
    int field = (int)(code >> f->fraction_bits);
    double fraction = (double)(code & ((1u << f->fraction_bits) - 1));
    if (field == 0)
        return ldexp(fraction, 1 - f->bias - f->fraction_bits);
    return ldexp(fraction + ldexp(1, f->fraction_bits), field - f->bias - f->fraction_bits);
}

/* Whether the code is a NaN, and its value otherwise (infinity included). */
static inline bool exact_decode(const exact_format *f, uint32_t code, double *value) {
    uint32_t sign_bit = 1u << (f->exponent_bits + f->fraction_bits);
    uint32_t magnitude = code & (sign_bit - 1);
    bool negative = code & sign_bit;
    *value = 0;
    if (f->fnuz && code == sign_bit)
        return false;
    if (magnitude >= f->finite) {
        if (magnitude > f->finite || f->dtype == TENMAP_F8_E4M3)
            return false;
        *value = negative ? -INFINITY : INFINITY;
        return true;
    }
    *value = negative ? -exact_value(f, magnitude) : exact_value(f, magnitude);
    return true;
}

/* Values, and midpoints between neighbors: middle[i] lies between i and i+1. */
typedef struct exact_table {
    const exact_format *format;
    double *middle;
} exact_table;

static inline exact_table exact_make(tenmap_dtype dtype) {
    exact_table t = {exact_find(dtype), NULL};
    t.middle = malloc(t.format->finite * sizeof *t.middle);
    for (uint32_t i = 0; t.middle && i < t.format->finite; i++)
        t.middle[i] = exact_value(t.format, i) / 2 + exact_value(t.format, i + 1) / 2;
    return t;
}

/*
 * The code of the value nearest to a magnitude that is not NaN, ties to the even code; `finite` if
 * it is beyond the last. The search starts at *near and leaves the result there, so that a caller
 * with ascending sources pays nothing for it.
 */
static inline uint32_t exact_nearest(const exact_table *t, double magnitude, uint32_t *near) {
    uint32_t i = *near, last = t->format->finite;
    while (i < last && (magnitude > t->middle[i] || (magnitude == t->middle[i] && (i & 1))))
        i++;
    while (i > 0 && (magnitude < t->middle[i - 1] || (magnitude == t->middle[i - 1] && (i & 1))))
        i--;
    return *near = i;
}

/* The code that a conversion of a number that is not NaN must give. */
static inline uint32_t exact_narrow(const exact_table *t, double value, bool saturate,
                                    uint32_t *near) {
    const exact_format *f = t->format;
    uint32_t sign = signbit(value) ? 1u << (f->exponent_bits + f->fraction_bits) : 0;
    uint32_t code = exact_nearest(t, fabs(value), near);
    if (code == f->finite)
        code = saturate || f->too_large < 0 ? f->finite - 1 : (uint32_t)f->too_large;
    if (f->fnuz && (code == 0 || code == 0x80))
        return code;
    return sign | code;
}

/* Whether a result is one of the format's NaNs, or its substitute if the format has none. */
static inline bool exact_is_nan(const exact_format *f, uint32_t code) {
    double value;
    if (f->too_large < 0)
        return code == 1u << (f->exponent_bits + f->fraction_bits);
    return !exact_decode(f, code, &value);
}

#endif
