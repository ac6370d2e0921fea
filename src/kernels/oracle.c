/*
 * The oracle. It splits every element into sign, exponent and significand and assembles them again
 * in the destination's format, with one rounding, in integer arithmetic only: nothing here depends
 * on the floating-point unit, its modes or the compiler's floating-point flags. All other kernels
 * are tested against this file, bit for bit.
 */
#include "kernels.h"

#include <string.h>

/* How a format encodes infinity and NaN. */
enum {
    SPECIALS_IEEE,  /* all-ones exponent: infinity, and NaN with a non-zero fraction */
    SPECIALS_ONE,   /* no infinity; NaN is the all-ones code of either sign (E4M3) */
    SPECIALS_FNUZ,  /* no infinity, no -0; NaN is the sign bit alone */
    SPECIALS_NONE,  /* neither: everything clamps (F4, F6) */
    SPECIALS_POWER, /* E8M0: no sign, no fraction, no zero; NaN is 0xFF */
};

typedef struct float_format {
    uint8_t exponent_bits, fraction_bits, specials;
    int16_t bias;
    uint64_t largest;  /* the code of the largest finite value */
    uint64_t overflow; /* the code for larger values, without SATURATE */
    uint64_t nan;      /* the code of NaN if it has no payload; else 0 */
} float_format;

static const float_format float_formats[TMI_DTYPE_COUNT] = {
    [TENMAP_F4] = {2, 1, SPECIALS_NONE, 1, 0x7, 0x7, 0x8},
    [TENMAP_F6_E2M3] = {2, 3, SPECIALS_NONE, 1, 0x1f, 0x1f, 0x20},
    [TENMAP_F6_E3M2] = {3, 2, SPECIALS_NONE, 3, 0x1f, 0x1f, 0x20},
    [TENMAP_F8_E5M2] = {5, 2, SPECIALS_IEEE, 15, 0x7b, 0x7c, 0x7e},
    [TENMAP_F8_E4M3] = {4, 3, SPECIALS_ONE, 7, 0x7e, 0x7f, 0x7f},
    [TENMAP_F8_E8M0] = {8, 0, SPECIALS_POWER, 127, 0xfe, 0xff, 0xff},
    [TENMAP_F8_E4M3FNUZ] = {4, 3, SPECIALS_FNUZ, 8, 0x7f, 0x80, 0x80},
    [TENMAP_F8_E5M2FNUZ] = {5, 2, SPECIALS_FNUZ, 16, 0x7f, 0x80, 0x80},
    [TENMAP_F16] = {5, 10, SPECIALS_IEEE, 15, 0x7bff, 0x7c00, 0},
    [TENMAP_BF16] = {8, 7, SPECIALS_IEEE, 127, 0x7f7f, 0x7f80, 0},
    [TENMAP_F32] = {8, 23, SPECIALS_IEEE, 127, 0x7f7fffff, 0x7f800000, 0},
    [TENMAP_F64] = {11, 52, SPECIALS_IEEE, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0},
};

/*
 * A number between two formats. A finite one is significand * 2^(exponent - 63), with the top bit
 * of the significand set; a NaN's fraction is left-aligned in the significand.
 */
typedef struct real {
    enum { REAL_ZERO, REAL_FINITE, REAL_INFINITE, REAL_NAN } kind;
    bool negative;
    int exponent;
    uint64_t significand;
} real;

static real real_from_magnitude(uint64_t magnitude, int exponent, bool negative) {
    real r = {REAL_ZERO, negative, exponent, magnitude};
    if (magnitude == 0)
        return r;
    r.kind = REAL_FINITE;
    for (int step = 32; step; step /= 2)
        if (!(r.significand >> (64 - step))) {
            r.significand <<= step;
            r.exponent -= step;
        }
    return r;
}

static real unpack_integer(tenmap_dtype dtype, uint64_t bits) {
    unsigned width = tmi_dtypes[dtype].bits;
    if (tmi_dtypes[dtype].kind == TENMAP_KIND_BOOL)
        return real_from_magnitude(bits != 0, 63, false);
    bool negative = tmi_dtypes[dtype].kind == TENMAP_KIND_INT && bits >> (width - 1);
    if (!negative)
        return real_from_magnitude(bits, 63, false);
    uint64_t ones = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
    return real_from_magnitude((~bits & ones) + 1, 63, true);
}

static bool is_nan_code(const float_format *f, uint64_t magnitude, bool negative) {
    switch (f->specials) {
    case SPECIALS_IEEE:
        return magnitude > f->largest + 1;
    case SPECIALS_ONE:
        return magnitude == f->nan;
    case SPECIALS_FNUZ:
        return negative && magnitude == 0;
    default:
        return false;
    }
}

static real unpack_float(tenmap_dtype dtype, uint64_t bits) {
    const float_format *f = &float_formats[dtype];
    unsigned sign_at = f->exponent_bits + f->fraction_bits;
    if (f->specials == SPECIALS_POWER) {
        real power = {bits == f->nan ? REAL_NAN : REAL_FINITE, false, (int)bits - f->bias,
                      bits == f->nan ? 0 : (uint64_t)1 << 63};
        return power;
    }
    bool negative = bits >> sign_at;
    uint64_t magnitude = bits & (((uint64_t)1 << sign_at) - 1);
    uint64_t fraction = magnitude & (((uint64_t)1 << f->fraction_bits) - 1);
    int field = (int)(magnitude >> f->fraction_bits);
    if (is_nan_code(f, magnitude, negative)) {
        bool has_payload = f->specials == SPECIALS_IEEE;
        real nan = {REAL_NAN, negative && f->specials != SPECIALS_FNUZ, 0,
                    has_payload ? fraction << (64 - f->fraction_bits) : 0};
        return nan;
    }
    if (f->specials == SPECIALS_IEEE && magnitude > f->largest) {
        real infinite = {REAL_INFINITE, negative, 0, 0};
        return infinite;
    }
    uint64_t hidden = field ? (uint64_t)1 << f->fraction_bits : 0;
    int exponent = (field ? field : 1) - f->bias - f->fraction_bits + 63;
    return real_from_magnitude(hidden | fraction, exponent, negative);
}

/* value / 2^shift to the nearest integer, ties to even. */
static uint64_t shift_right_nearest(uint64_t value, unsigned shift) {
    if (shift > 64)
        return 0;
    if (shift == 64)
        return value > (uint64_t)1 << 63;
    uint64_t quotient = value >> shift;
    uint64_t rest = value & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
    return quotient + (rest > half || (rest == half && (quotient & 1)));
}

/* The code of a finite magnitude as if the exponent field had no upper limit. */
static uint64_t round_finite(const float_format *f, const real *r) {
    int field = r->exponent + f->bias;
    unsigned shift = 63u - f->fraction_bits;
    if (field < 1)
        return shift_right_nearest(r->significand, shift + (unsigned)(1 - field));
    /* The quotient includes its hidden bit, which adds one to the exponent field. */
    return ((uint64_t)(field - 1) << f->fraction_bits) + shift_right_nearest(r->significand, shift);
}

static uint64_t pack_power(const float_format *f, const real *r, bool saturate) {
    if (r->kind == REAL_NAN)
        return f->nan;
    if (r->kind == REAL_ZERO || r->negative)
        return saturate ? 0 : f->nan;
    if (r->kind == REAL_INFINITE)
        return saturate ? f->largest : f->overflow;
    int code = r->exponent + f->bias + (int)(r->significand >> 62 & 1);
    if (code < 0)
        return 0;
    if ((uint64_t)code > f->largest)
        return saturate ? f->largest : f->overflow;
    return (uint64_t)code;
}

static uint64_t pack_float(tenmap_dtype dtype, const real *r, bool saturate) {
    const float_format *f = &float_formats[dtype];
    if (f->specials == SPECIALS_POWER)
        return pack_power(f, r, saturate);
    uint64_t sign = (uint64_t)r->negative << (f->exponent_bits + f->fraction_bits);
    if (r->kind == REAL_NAN) {
        if (f->specials == SPECIALS_FNUZ || f->specials == SPECIALS_NONE)
            return f->nan;
        if (f->nan)
            return sign | f->nan;
        uint64_t quiet = (uint64_t)1 << (f->fraction_bits - 1);
        return sign | f->overflow | quiet | r->significand >> (64 - f->fraction_bits);
    }
    uint64_t magnitude = 0;
    if (r->kind == REAL_FINITE)
        magnitude = round_finite(f, r);
    if (r->kind == REAL_INFINITE || magnitude > f->largest) {
        if (f->specials == SPECIALS_FNUZ && !saturate)
            return f->nan;
        return sign | (saturate ? f->largest : f->overflow);
    }
    if (f->specials == SPECIALS_FNUZ && magnitude == 0)
        return 0;
    return sign | magnitude;
}

/* Integers come only from integers; values that do not fit become the nearest that does. */
static uint64_t pack_integer(tenmap_dtype dtype, const real *r) {
    unsigned kind = tmi_dtypes[dtype].kind, bits = tmi_dtypes[dtype].bits;
    uint64_t ones = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    uint64_t magnitude = r->kind == REAL_ZERO ? 0 : r->significand >> (63 - r->exponent);
    uint64_t most = kind == TENMAP_KIND_BOOL ? 1 : kind == TENMAP_KIND_INT ? ones >> 1 : ones;
    if (r->negative)
        most = kind == TENMAP_KIND_INT ? most + 1 : 0;
    if (magnitude > most)
        magnitude = most;
    return (r->negative ? 0 - magnitude : magnitude) & ones;
}

uint64_t tmi_scalar_one(tenmap_dtype to, tenmap_dtype from, uint64_t bits, uint32_t flags) {
    if (to == from)
        return bits;
    real r = tmi_dtypes[from].kind == TENMAP_KIND_FLOAT ? unpack_float(from, bits)
                                                        : unpack_integer(from, bits);
    if (tmi_dtypes[to].kind != TENMAP_KIND_FLOAT)
        return pack_integer(to, &r);
    bool pure_shift =
        (from == TENMAP_BF16 && to == TENMAP_F32) || (from == TENMAP_F8_E5M2 && to == TENMAP_F16);
    if (pure_shift && r.kind == REAL_NAN)
        return bits << (tmi_dtypes[to].bits - tmi_dtypes[from].bits);
    return pack_float(to, &r, flags & TENMAP_CONVERT_SATURATE);
}

bool tmi_scalar_is_subnormal(tenmap_dtype dtype, uint64_t bits) {
    const float_format *f = &float_formats[dtype];
    if (tmi_dtypes[dtype].kind != TENMAP_KIND_FLOAT || f->specials == SPECIALS_POWER)
        return false;
    uint64_t magnitude = bits & (((uint64_t)1 << (f->exponent_bits + f->fraction_bits)) - 1);
    return magnitude != 0 && magnitude >> f->fraction_bits == 0;
}

void tmi_scalar_limits(tenmap_dtype to, tenmap_dtype middle, uint64_t *over, uint64_t *under) {
    const float_format *f = &float_formats[to];
    *over = float_formats[middle].overflow;
    *under = 0;
    if (tmi_dtypes[to].bits >= tmi_dtypes[middle].bits)
        return;
    /* Half a step above the largest, whose last bit decides where a tie goes; E8M0's goes up. */
    uint64_t half_step = (uint64_t)1
                         << (float_formats[middle].fraction_bits - f->fraction_bits - 1);
    *over = tmi_scalar_one(middle, to, f->largest, 0) + half_step;
    if (f->specials == SPECIALS_POWER)
        return;
    *over += !(f->largest & 1);
    /* Half of the smallest number; a tie goes to zero, which is even. */
    uint64_t exponent = (uint64_t)(1023 - f->bias - f->fraction_bits);
    *under = tmi_scalar_one(middle, TENMAP_F64, exponent << 52, 0);
}

/* Element i of a stream whose first element starts at bit e->bit of *base. */
uint64_t tmi_scalar_load(const tmi_elements *e, const void *start, size_t i) {
    const unsigned char *base = start;
    unsigned width = tmi_dtypes[e->dtype].bits;
    if (width < 8) {
        uint64_t at = (uint64_t)i * width + e->bit;
        unsigned low = base[at / 8], shift = (unsigned)(at % 8);
        unsigned high = shift + width > 8 ? base[at / 8 + 1] : 0u;
        return ((low | high << 8) >> shift) & ((1u << width) - 1);
    }
    size_t bytes = width / 8;
    const unsigned char *p = base + i * bytes;
    uint64_t value = 0;
    for (size_t k = 0; k < bytes; k++)
        value |= (uint64_t)p[e->little_endian ? k : bytes - 1 - k] << (8 * k);
    return value;
}

/* Elements are stored in order: each one clears the bits above it in its last byte. */
static void store_element(const tmi_elements *e, unsigned char *base, size_t i, uint64_t value) {
    unsigned width = tmi_dtypes[e->dtype].bits;
    if (width < 8) {
        uint64_t at = (uint64_t)i * width + e->bit;
        unsigned shift = (unsigned)(at % 8), kept = base[at / 8] & ((1u << shift) - 1);
        unsigned both = kept | (unsigned)value << shift;
        base[at / 8] = (unsigned char)both;
        if (shift + width > 8)
            base[at / 8 + 1] = (unsigned char)(both >> 8);
        return;
    }
    size_t bytes = width / 8;
    unsigned char *p = base + i * bytes;
    for (size_t k = 0; k < bytes; k++)
        p[e->little_endian ? k : bytes - 1 - k] = (unsigned char)(value >> (8 * k));
}

void tmi_scalar_convert(tmi_elements to, void *dst, tmi_elements from, const void *src,
                        size_t count, uint32_t flags) {
    if (to.dtype == TENMAP_C64) { /* two F32 each */
        to.dtype = from.dtype = TENMAP_F32;
        count *= 2;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = tmi_scalar_load(&from, src, i);
        store_element(&to, dst, i, tmi_scalar_one(to.dtype, from.dtype, bits, flags));
    }
}
