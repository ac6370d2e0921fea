/*
 * Quantizes blocks of F32 to GGUF's simple block dtypes, in plain C. The bytes are those that the
 * package gguf writes, which computes in F32 too: no step may be fused or taken in another order.
 */
#include "blocks.h"

#include <float.h>

TMI_UNFUSED_BEGIN

enum { HALVES = 32 }; /* elements of a block of Q4_0 to Q8_0 and MXFP4 */

/* The F16 nearest to a finite value whose F16 is finite too. Ties go to even. */
static uint16_t to_half(float value) {
    uint32_t bits, sign, rest;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits >= 0x38800000) { /* at least 2^-14: a normal F16 */
        rest = bits - (112u << 23);
        return (uint16_t)(sign | ((rest + 0xfff + (rest >> 13 & 1)) >> 13));
    }
    if (bits < 0x33000000) /* at most half of 2^-24 */
        return (uint16_t)sign;
    unsigned shift = 126 - (bits >> 23);
    uint32_t mantissa = (bits & 0x7fffff) | 0x800000, half = mantissa >> shift;
    uint32_t left = mantissa & ((1u << shift) - 1), tie = 1u << (shift - 1);
    half += left > tie || (left == tie && (half & 1));
    return (uint16_t)(sign | half);
}

static void put_half(unsigned char *dst, float value) {
    uint16_t half = to_half(value);
    dst[0] = (unsigned char)half;
    dst[1] = (unsigned char)(half >> 8);
}

/* 1 / scale; 0 for a scale of 0, and for one so small that its inverse is not finite. */
static float inverse_of(float scale) {
    float inverse = scale == 0 ? 0 : 1 / scale;
    return inverse > FLT_MAX || inverse < -FLT_MAX ? 0 : inverse;
}

static float absolute(float value) {
    return value < 0 ? -value : value;
}

/* The first of the values with the largest absolute. */
static float farthest(const float *values, size_t count) {
    float best = values[0];
    for (size_t i = 1; i < count; i++)
        if (absolute(values[i]) > absolute(best))
            best = values[i];
    return best;
}

/* Rounded to a whole number, halves away from 0. |value| is at most about 128. */
static int round_away(float value) {
    float size = absolute(value), whole = (float)(int)size;
    int rounded = (int)whole + (int)(2 * (size - whole));
    return value < 0 ? -rounded : rounded;
}

static unsigned clipped_code(float value, unsigned most) {
    unsigned code = (unsigned)value;
    return code < most ? code : most;
}

/* Codes of 4 bits: element i in the low half of byte i, element 16 + i in the high one. */
static void put_nibbles(unsigned char *dst, const unsigned *codes) {
    for (size_t i = 0; i < HALVES / 2; i++)
        dst[i] = (unsigned char)((codes[i] & 15u) | (codes[HALVES / 2 + i] & 15u) << 4);
}

/* The fifth bits of all codes. */
static void put_high_bits(unsigned char *dst, const unsigned *codes) {
    for (size_t i = 0; i < HALVES / 8; i++) {
        unsigned byte = 0;
        for (size_t bit = 0; bit < 8; bit++)
            byte |= (codes[8 * i + bit] >> 4 & 1u) << bit;
        dst[i] = (unsigned char)byte;
    }
}

/* Q4_0 and Q5_0: the farthest value gets the lowest code. */
static float symmetric_codes(unsigned codes[HALVES], const float *values, unsigned zero) {
    float scale = farthest(values, HALVES) / -(float)zero, inverse = inverse_of(scale);
    for (size_t i = 0; i < HALVES; i++)
        codes[i] = clipped_code(values[i] * inverse + ((float)zero + 0.5F), 2 * zero - 1);
    return scale;
}

static void quantize_q4_0(unsigned char *dst, const float *values) {
    unsigned codes[HALVES];
    put_half(dst, symmetric_codes(codes, values, 8));
    put_nibbles(dst + 2, codes);
}

static void quantize_q5_0(unsigned char *dst, const float *values) {
    unsigned codes[HALVES];
    put_half(dst, symmetric_codes(codes, values, 16));
    put_high_bits(dst + 2, codes);
    put_nibbles(dst + 6, codes);
}

/* Q4_1 and Q5_1: codes count steps from the minimum. */
static void range_codes(unsigned char *dst, unsigned codes[HALVES], const float *values,
                        unsigned most) {
    float least = values[0], largest = values[0];
    for (size_t i = 1; i < HALVES; i++) {
        least = values[i] < least ? values[i] : least;
        largest = values[i] > largest ? values[i] : largest;
    }
    float scale = (largest - least) / (float)most, inverse = inverse_of(scale);
    for (size_t i = 0; i < HALVES; i++)
        codes[i] = clipped_code((values[i] - least) * inverse + 0.5F, most);
    put_half(dst, scale);
    put_half(dst + 2, least);
}

static void quantize_q4_1(unsigned char *dst, const float *values) {
    unsigned codes[HALVES];
    range_codes(dst, codes, values, 15);
    put_nibbles(dst + 4, codes);
}

static void quantize_q5_1(unsigned char *dst, const float *values) {
    unsigned codes[HALVES];
    range_codes(dst, codes, values, 31);
    put_high_bits(dst + 4, codes);
    put_nibbles(dst + 8, codes);
}

static void quantize_q8_0(unsigned char *dst, const float *values) {
    float scale = absolute(farthest(values, HALVES)) / 127, inverse = inverse_of(scale);
    put_half(dst, scale);
    for (size_t i = 0; i < HALVES; i++)
        dst[2 + i] = (unsigned char)round_away(values[i] * inverse);
}

/* Codes 0 to 2 for -d, 0 and d. */
static float ternary_codes(unsigned *codes, const float *values, size_t count) {
    float scale = absolute(farthest(values, count)), inverse = inverse_of(scale);
    for (size_t i = 0; i < count; i++)
        codes[i] = (unsigned)(round_away(values[i] * inverse) + 1);
    return scale;
}

/* Five codes, or four, in a byte: base 3, scaled so that a byte is a fraction of 256. */
static void put_ternary(unsigned char *dst, const unsigned *codes, size_t width, size_t rows) {
    static const unsigned powers[] = {81, 27, 9, 3, 1};
    for (size_t i = 0; i < width; i++) {
        unsigned sum = 0;
        for (size_t row = 0; row < rows; row++)
            sum += codes[row * width + i] * powers[row];
        dst[i] = (unsigned char)((sum * 256 + 242) / 243);
    }
}

static void quantize_tq1_0(unsigned char *dst, const float *values) {
    unsigned codes[256];
    float scale = ternary_codes(codes, values, 256);
    put_ternary(dst, codes, 32, 5);
    put_ternary(dst + 32, codes + 160, 16, 5);
    put_ternary(dst + 48, codes + 240, 4, 4);
    put_half(dst + 52, scale);
}

static void quantize_tq2_0(unsigned char *dst, const float *values) {
    unsigned codes[256];
    float scale = ternary_codes(codes, values, 256);
    for (size_t i = 0; i < 64; i++) {
        const unsigned *at = codes + i / 32 * 128 + i % 32;
        dst[i] = (unsigned char)(at[0] | at[32] << 2 | at[64] << 4 | at[96] << 6);
    }
    put_half(dst + 64, scale);
}

/*
 * The floor of log2(value) for a positive value, as if the logarithm were rounded to F32 first, as
 * ggml and its package do: values a few steps below a power of two count as that power.
 */
static int floor_log2(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 23) - 127;
    if (exponent == -127) /* subnormal: far below the least scale */
        return exponent;
    uint32_t below = 0x800000 - (bits & 0x7fffff); /* steps of 2^-24 below the power, relatively */
    int next = exponent + 1, size = next < 0 ? -next : next, power = 0;
    while (size >> power > 1)
        power++;
    if (next == 0)
        return exponent;
    if (next > 0 && size == 1 << power) /* F32 are half as far apart below a power of two */
        power--;
    double half_step = 1; /* of F32 at the logarithm, in units of 2^-24 */
    for (int i = 0; i < power; i++)
        half_step *= 2;
    if (power < 0)
        half_step = 0.5;
    return (double)below * 1.4426950408889634 <= half_step ? next : exponent;
}

static void quantize_mxfp4(unsigned char *dst, const float *values) {
    static const float levels[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    float most = absolute(farthest(values, HALVES)), steps[16];
    int exponent = most > 0 ? floor_log2(most) - 2 + 127 : 0;
    unsigned codes[HALVES];
    exponent = exponent < 0 ? 0 : exponent;
    uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (uint32_t)(exponent - 1) << 23;
    for (size_t k = 0; k < 16; k++)
        steps[k] = tmi_float_of(bits) * levels[k];
    for (size_t i = 0; i < HALVES; i++) {
        codes[i] = 0;
        for (unsigned k = 1; k < 16; k++)
            if (absolute(steps[k] - values[i]) < absolute(steps[codes[i]] - values[i]))
                codes[i] = k;
    }
    dst[0] = (unsigned char)exponent;
    put_nibbles(dst + 1, codes);
}

TMI_UNFUSED_END

const tmi_quantizer *tmi_quantizer_of(tenmap_dtype dtype) {
    static const tmi_quantizer rows[] = {
        {TENMAP_Q4_0, quantize_q4_0, 8, false},   {TENMAP_Q4_1, quantize_q4_1, 15, true},
        {TENMAP_Q5_0, quantize_q5_0, 16, false},  {TENMAP_Q5_1, quantize_q5_1, 31, true},
        {TENMAP_Q8_0, quantize_q8_0, 127, false}, {TENMAP_TQ1_0, quantize_tq1_0, 1, false},
        {TENMAP_TQ2_0, quantize_tq2_0, 1, false}, {TENMAP_MXFP4, quantize_mxfp4, 0, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].dtype == dtype)
            return &rows[i];
    return NULL;
}
