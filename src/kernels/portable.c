/*
 * Kernels in plain C, for CPUs without vector kernels and for the pairs that vector kernels leave
 * out. Each is a loop over one inline function. They use integer arithmetic. Where they convert an
 * integer to floating point or multiply, the operands and the result are normal numbers, so that
 * flush-to-zero modes and -ffast-math cannot change the result.
 */
#include "blocks.h"
#include "kernels.h"
#include "xxh3_blocks.h"

#include <string.h>

/* Loads and stores of any alignment; compilers turn them into single instructions. */
#define PLAIN_GET(name)                                                                            \
    static inline name##_t get_##name(const void *src, size_t i) {                                 \
        name##_t value;                                                                            \
        memcpy(&value, (const char *)src + i * sizeof value, sizeof value);                        \
        return value;                                                                              \
    }
#define PLAIN_SET(name)                                                                            \
    static inline void set_##name(void *dst, size_t i, name##_t value) {                           \
        memcpy((char *)dst + i * sizeof value, &value, sizeof value);                              \
    }
PLAIN_GET(uint8)
PLAIN_GET(uint16)
PLAIN_GET(uint32)
PLAIN_GET(uint64)
PLAIN_SET(uint8)
PLAIN_SET(uint16)
PLAIN_SET(uint32)
PLAIN_SET(uint64)

static inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* magnitude * 2^-shift to the nearest, ties to even; shift is 1 to 31. */
static inline uint32_t nearest_u32(uint32_t magnitude, unsigned shift) {
    uint32_t odd = magnitude >> shift & 1;
    return (magnitude + ((1u << (shift - 1)) - 1) + odd) >> shift;
}

static inline unsigned leading_zeros(uint64_t value) {
#if defined(__GNUC__)
    return (unsigned)__builtin_clzll(value);
#else
    unsigned n = 0;
    for (; !(value >> 63); value <<= 1)
        n++;
    return n;
#endif
}

/* Widening to F32. */

static inline uint32_t f32_from_bf16(uint16_t h) {
    return (uint32_t)h << 16;
}

static inline uint32_t f32_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00)
        return sign | (magnitude == 0x7c00 ? 0x7f800000 : 0x7fc00000 | magnitude << 13);
    if (magnitude >= 0x0400)
        return sign | ((magnitude << 13) + (112u << 23));
    return sign | bits_of_float((float)(int32_t)magnitude * 0x1p-24f);
}

static inline uint32_t f32_from_i16(uint16_t v) {
    return bits_of_float((float)(int16_t)v);
}
static inline uint32_t f32_from_u16(uint16_t v) {
    return bits_of_float((float)v);
}

/*
 * An integer to F32: the top 24 bits of the magnitude, rounded to nearest or, if `odd`, with the
 * last bit set if any bit was lost.
 */
static inline uint32_t f32_from_magnitude(uint64_t magnitude, uint32_t sign, bool odd) {
    if (magnitude == 0)
        return 0;
    unsigned zeros = leading_zeros(magnitude);
    uint64_t left = magnitude << zeros;
    uint64_t kept = left >> 40, rest = left & (((uint64_t)1 << 40) - 1);
    uint64_t half = (uint64_t)1 << 39;
    /*
     * No branches: the low bits of weights are random, so branches on them would be mispredicted.
     */
    if (odd)
        kept |= rest != 0;
    else
        kept += (rest | (kept & 1)) > half;
    /* The hidden bit adds one to the exponent field. */
    return sign | (((uint32_t)(126 + 63 - zeros) << 23) + (uint32_t)kept);
}

static inline uint32_t f32_from_signed(int64_t v, bool odd) {
    uint64_t negative = (uint64_t)v >> 63;
    uint64_t magnitude = ((uint64_t)v ^ -negative) + negative;
    return f32_from_magnitude(magnitude, (uint32_t)negative << 31, odd);
}

static inline uint32_t f32_from_i32(uint32_t v) {
    return f32_from_signed((int32_t)v, false);
}
static inline uint32_t f32_from_u32(uint32_t v) {
    return f32_from_magnitude(v, 0, false);
}
static inline uint32_t f32_from_i64(uint64_t v) {
    return f32_from_signed((int64_t)v, false);
}
static inline uint32_t f32_from_u64(uint64_t v) {
    return f32_from_magnitude(v, 0, false);
}
static inline uint32_t f32_odd_from_i32(uint32_t v) {
    return f32_from_signed((int32_t)v, true);
}
static inline uint32_t f32_odd_from_u32(uint32_t v) {
    return f32_from_magnitude(v, 0, true);
}
static inline uint32_t f32_odd_from_i64(uint64_t v) {
    return f32_from_signed((int64_t)v, true);
}
static inline uint32_t f32_odd_from_u64(uint64_t v) {
    return f32_from_magnitude(v, 0, true);
}

/* The magnitude of an F64 as F32 bits, truncated; *rest is what was cut off, from bit 63 down. */
static inline uint32_t f32_cut_from_f64(uint64_t magnitude, uint64_t *rest) {
    unsigned field = (unsigned)(magnitude >> 52);
    if (field > 896) {
        *rest = magnitude << 35;
        return (uint32_t)((magnitude >> 29) - ((uint64_t)896 << 23));
    }
    uint64_t significand = (magnitude & 0x000fffffffffffff) | 0x0010000000000000;
    unsigned shift = 29 + 897 - field;
    if (shift > 63) { /* far below half of the smallest subnormal; only zero loses nothing */
        *rest = magnitude != 0;
        return 0;
    }
    *rest = significand << (64 - shift);
    return (uint32_t)(significand >> shift);
}

static inline uint32_t f32_from_f64_with(uint64_t bits, bool odd) {
    uint32_t sign = (uint32_t)(bits >> 32) & 0x80000000;
    uint64_t magnitude = bits & 0x7fffffffffffffff, rest;
    if (magnitude > 0x7ff0000000000000)
        return sign | 0x7fc00000 | ((uint32_t)(magnitude >> 29) & 0x007fffff);
    if (magnitude >= (uint64_t)1151 << 52) /* 2^128 */
        return sign | (odd && magnitude != 0x7ff0000000000000 ? 0x7f7fffff : 0x7f800000);
    uint32_t cut = f32_cut_from_f64(magnitude, &rest);
    uint64_t half = (uint64_t)1 << 63;
    if (odd)
        return sign | cut | (rest != 0);
    return sign | (cut + (rest > half || (rest == half && (cut & 1))));
}

uint32_t tmi_f32_from_f64(uint64_t bits) {
    return f32_from_f64_with(bits, false);
}

uint32_t tmi_f32_odd_from_f64(uint64_t bits) {
    return f32_from_f64_with(bits, true);
}

/* To F64. Integers of at most 53 bits and the products here are exact. */

static inline uint64_t f64_from_f32(uint32_t bits) {
    uint64_t sign = (uint64_t)(bits & 0x80000000) << 32;
    uint64_t magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000)
        return sign | 0x7ff0000000000000 | (magnitude & 0x007fffff) << 29 |
               (magnitude > 0x7f800000 ? 0x0008000000000000 : 0);
    if (magnitude >= 0x00800000)
        return sign | ((magnitude << 29) + ((uint64_t)896 << 52));
    return sign | bits_of_double((double)(int32_t)magnitude * 0x1p-149);
}

static inline uint64_t f64_from_magnitude(uint64_t magnitude, uint64_t sign) {
    if (magnitude == 0)
        return 0;
    unsigned zeros = leading_zeros(magnitude);
    uint64_t left = magnitude << zeros, kept = left >> 11, rest = left & 0x7ff;
    kept += (rest | (kept & 1)) > 0x400;
    return sign | (((uint64_t)(1022 + 63 - zeros) << 52) + kept);
}

static inline uint64_t f64_from_i32(uint32_t v) {
    return bits_of_double((double)(int32_t)v);
}
static inline uint64_t f64_from_u32(uint32_t v) {
    return bits_of_double((double)v);
}
static inline uint64_t f64_from_u64(uint64_t v) {
    return f64_from_magnitude(v, 0);
}
static inline uint64_t f64_from_i64(uint64_t v) {
    uint64_t sign = v & UINT64_C(1) << 63;
    return f64_from_magnitude(sign ? -v : v, sign);
}

/* Narrowing from F32. */

static inline uint16_t bf16_from_f32(uint32_t bits, bool saturate) {
    uint32_t magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    if (magnitude > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x0040);
    uint32_t code = nearest_u32(magnitude, 16);
    if (saturate && code > 0x7f7f)
        code = 0x7f7f;
    return (uint16_t)(sign | code);
}

/* A positive F32 (not NaN) to the code of a narrow format, with no upper limit on the exponent. */
static inline uint32_t narrow_magnitude(uint32_t magnitude, unsigned fraction_bits, unsigned bias) {
    unsigned field = magnitude >> 23, lowest = 128 - bias, shift = 23 - fraction_bits;
    if (field >= lowest)
        return nearest_u32(magnitude, shift) - ((127 - bias) << fraction_bits);
    shift += lowest - field;
    if (shift > 24) /* below half of the smallest subnormal */
        return 0;
    return nearest_u32((magnitude & 0x007fffff) | 0x00800000, shift);
}

static inline uint16_t f16_from_f32(uint32_t bits, bool saturate) {
    uint32_t magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x03ff));
    uint32_t code = narrow_magnitude(magnitude, 10, 15);
    if (code > 0x7bff)
        code = saturate ? 0x7bff : 0x7c00;
    return (uint16_t)(sign | code);
}

static inline uint8_t small_from_f32(uint32_t bits, bool saturate, tmi_narrow_format f) {
    uint32_t magnitude = bits & 0x7fffffff, sign = bits >> 31 << f.sign_at;
    if (magnitude > 0x7f800000)
        return (uint8_t)(sign | f.nan);
    uint32_t code = narrow_magnitude(magnitude, f.fraction_bits, f.bias);
    if (code > f.largest)
        code = saturate || f.always_clamps ? f.largest : f.largest + 1;
    if (f.unsigned_zero && code == 0)
        sign = 0;
    return (uint8_t)(sign | code);
}

static inline uint8_t e8m0_from_f32(uint32_t bits, bool saturate) {
    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0xff;
    if (bits == 0 || bits >> 31)
        return saturate ? 0x00 : 0xff;
    /* Rounds half up at the top fraction bit; below 2^-126 that bit stands for 2^-127. */
    uint32_t code = bits < 0x00800000 ? bits >= 0x00600000 : (bits + 0x00400000) >> 23;
    return (uint8_t)(saturate && code > 0xfe ? 0xfe : code);
}

/* Powers of two: the smallest is subnormal, and the last code is NaN. */
static inline uint32_t f32_from_e8m0(uint32_t code) {
    return code == 0xff ? 0x7fc00000 : code == 0 ? 0x00400000 : code << 23;
}

/* Defines a kernel from an expression in `v`, the source element, and `saturate`. */
#define PLAIN_KERNEL(kernel, out, in, expression)                                                  \
    static void kernel(void *dst, const void *src, size_t count, uint32_t flags) {                 \
        const bool saturate = flags & TENMAP_CONVERT_SATURATE;                                     \
        (void)saturate;                                                                            \
        for (size_t i = 0; i < count; i++) {                                                       \
            in##_t v = get_##in(src, i);                                                           \
            set_##out(dst, i, expression);                                                         \
        }                                                                                          \
    }

PLAIN_KERNEL(plain_bf16_to_f32, uint32, uint16, f32_from_bf16(v))
PLAIN_KERNEL(plain_f16_to_f32, uint32, uint16, f32_from_f16(v))
PLAIN_KERNEL(plain_e8m0_to_f32, uint32, uint8, f32_from_e8m0(v))
PLAIN_KERNEL(plain_i16_to_f32, uint32, uint16, f32_from_i16(v))
PLAIN_KERNEL(plain_u16_to_f32, uint32, uint16, f32_from_u16(v))
PLAIN_KERNEL(plain_i32_to_f32, uint32, uint32, f32_from_i32(v))
PLAIN_KERNEL(plain_u32_to_f32, uint32, uint32, f32_from_u32(v))
PLAIN_KERNEL(plain_i64_to_f32, uint32, uint64, f32_from_i64(v))
PLAIN_KERNEL(plain_u64_to_f32, uint32, uint64, f32_from_u64(v))
PLAIN_KERNEL(plain_f64_to_f32, uint32, uint64, tmi_f32_from_f64(v))
PLAIN_KERNEL(plain_i32_to_odd, uint32, uint32, f32_odd_from_i32(v))
PLAIN_KERNEL(plain_u32_to_odd, uint32, uint32, f32_odd_from_u32(v))
PLAIN_KERNEL(plain_i64_to_odd, uint32, uint64, f32_odd_from_i64(v))
PLAIN_KERNEL(plain_u64_to_odd, uint32, uint64, f32_odd_from_u64(v))
PLAIN_KERNEL(plain_f64_to_odd, uint32, uint64, tmi_f32_odd_from_f64(v))
PLAIN_KERNEL(plain_f32_to_f64, uint64, uint32, f64_from_f32(v))
PLAIN_KERNEL(plain_i32_to_f64, uint64, uint32, f64_from_i32(v))
PLAIN_KERNEL(plain_u32_to_f64, uint64, uint32, f64_from_u32(v))
PLAIN_KERNEL(plain_i64_to_f64, uint64, uint64, f64_from_i64(v))
PLAIN_KERNEL(plain_u64_to_f64, uint64, uint64, f64_from_u64(v))
PLAIN_KERNEL(plain_f32_to_bf16, uint16, uint32, bf16_from_f32(v, saturate))
PLAIN_KERNEL(plain_f32_to_f16, uint16, uint32, f16_from_f32(v, saturate))
PLAIN_KERNEL(plain_f32_to_e8m0, uint8, uint32, e8m0_from_f32(v, saturate))
PLAIN_KERNEL(plain_f32_to_f4, uint8, uint32, small_from_f32(v, saturate, TMI_NARROW_F4))
PLAIN_KERNEL(plain_f32_to_e2m3, uint8, uint32, small_from_f32(v, saturate, TMI_NARROW_F6_E2M3))
PLAIN_KERNEL(plain_f32_to_e3m2, uint8, uint32, small_from_f32(v, saturate, TMI_NARROW_F6_E3M2))
PLAIN_KERNEL(plain_f32_to_e5m2, uint8, uint32, small_from_f32(v, saturate, TMI_NARROW_F8_E5M2))
PLAIN_KERNEL(plain_f32_to_e4m3, uint8, uint32, small_from_f32(v, saturate, TMI_NARROW_F8_E4M3))
PLAIN_KERNEL(plain_f32_to_e4m3fnuz, uint8, uint32,
             small_from_f32(v, saturate, TMI_NARROW_F8_E4M3FNUZ))
PLAIN_KERNEL(plain_f32_to_e5m2fnuz, uint8, uint32,
             small_from_f32(v, saturate, TMI_NARROW_F8_E5M2FNUZ))

const tmi_kernels tmi_kernels_scalar = {
    .name = "scalar",
    .pair =
        {
            [TENMAP_F32] =
                {
                    [TENMAP_BF16] = plain_bf16_to_f32,
                    [TENMAP_F16] = plain_f16_to_f32,
                    [TENMAP_F8_E8M0] = plain_e8m0_to_f32,
                    [TENMAP_I16] = plain_i16_to_f32,
                    [TENMAP_U16] = plain_u16_to_f32,
                    [TENMAP_I32] = plain_i32_to_f32,
                    [TENMAP_U32] = plain_u32_to_f32,
                    [TENMAP_I64] = plain_i64_to_f32,
                    [TENMAP_U64] = plain_u64_to_f32,
                    [TENMAP_F64] = plain_f64_to_f32,
                },
            [TENMAP_F64] =
                {
                    [TENMAP_F32] = plain_f32_to_f64,
                    [TENMAP_I32] = plain_i32_to_f64,
                    [TENMAP_U32] = plain_u32_to_f64,
                    [TENMAP_I64] = plain_i64_to_f64,
                    [TENMAP_U64] = plain_u64_to_f64,
                },
            [TENMAP_BF16][TENMAP_F32] = plain_f32_to_bf16,
            [TENMAP_F16][TENMAP_F32] = plain_f32_to_f16,
            [TENMAP_F8_E8M0][TENMAP_F32] = plain_f32_to_e8m0,
            [TENMAP_F8_E5M2][TENMAP_F32] = plain_f32_to_e5m2,
            [TENMAP_F8_E4M3][TENMAP_F32] = plain_f32_to_e4m3,
            [TENMAP_F8_E5M2FNUZ][TENMAP_F32] = plain_f32_to_e5m2fnuz,
            [TENMAP_F8_E4M3FNUZ][TENMAP_F32] = plain_f32_to_e4m3fnuz,
            [TENMAP_F6_E2M3][TENMAP_F32] = plain_f32_to_e2m3,
            [TENMAP_F6_E3M2][TENMAP_F32] = plain_f32_to_e3m2,
            [TENMAP_F4][TENMAP_F32] = plain_f32_to_f4,
        },
    .odd =
        {
            [TENMAP_I32] = plain_i32_to_odd,
            [TENMAP_U32] = plain_u32_to_odd,
            [TENMAP_I64] = plain_i64_to_odd,
            [TENMAP_U64] = plain_u64_to_odd,
            [TENMAP_F64] = plain_f64_to_odd,
        },
    .xxh3_blocks = tmi_scalar_xxh3_blocks,
    .times = tmi_group_times,
    .minus = tmi_group_minus,
    .plus = tmi_group_plus,
    .unpack =
        {
            [TENMAP_Q4_0 - TENMAP_Q4_0] = tmi_unpack_q4_0,
            [TENMAP_Q4_1 - TENMAP_Q4_0] = tmi_unpack_q4_1,
            [TENMAP_Q5_0 - TENMAP_Q4_0] = tmi_unpack_q5_0,
            [TENMAP_Q5_1 - TENMAP_Q4_0] = tmi_unpack_q5_1,
            [TENMAP_Q8_0 - TENMAP_Q4_0] = tmi_unpack_q8_0,
            [TENMAP_Q8_1 - TENMAP_Q4_0] = tmi_unpack_q8_1,
            [TENMAP_Q2_K - TENMAP_Q4_0] = tmi_unpack_q2_k,
            [TENMAP_Q3_K - TENMAP_Q4_0] = tmi_unpack_q3_k,
            [TENMAP_Q4_K - TENMAP_Q4_0] = tmi_unpack_q4_k,
            [TENMAP_Q5_K - TENMAP_Q4_0] = tmi_unpack_q5_k,
            [TENMAP_Q6_K - TENMAP_Q4_0] = tmi_unpack_q6_k,
            [TENMAP_Q8_K - TENMAP_Q4_0] = tmi_unpack_q8_k,
            [TENMAP_IQ2_XXS - TENMAP_Q4_0] = tmi_unpack_iq2_xxs,
            [TENMAP_IQ2_XS - TENMAP_Q4_0] = tmi_unpack_iq2_xs,
            [TENMAP_IQ3_XXS - TENMAP_Q4_0] = tmi_unpack_iq3_xxs,
            [TENMAP_IQ1_S - TENMAP_Q4_0] = tmi_unpack_iq1_s,
            [TENMAP_IQ4_NL - TENMAP_Q4_0] = tmi_unpack_iq4_nl,
            [TENMAP_IQ3_S - TENMAP_Q4_0] = tmi_unpack_iq3_s,
            [TENMAP_IQ2_S - TENMAP_Q4_0] = tmi_unpack_iq2_s,
            [TENMAP_IQ4_XS - TENMAP_Q4_0] = tmi_unpack_iq4_xs,
            [TENMAP_IQ1_M - TENMAP_Q4_0] = tmi_unpack_iq1_m,
            [TENMAP_TQ1_0 - TENMAP_Q4_0] = tmi_unpack_tq1_0,
            [TENMAP_TQ2_0 - TENMAP_Q4_0] = tmi_unpack_tq2_0,
            [TENMAP_MXFP4 - TENMAP_Q4_0] = tmi_unpack_mxfp4,
            [TENMAP_NVFP4 - TENMAP_Q4_0] = tmi_unpack_nvfp4,
            [TENMAP_Q1_0 - TENMAP_Q4_0] = tmi_unpack_q1_0,
        },
    .nibbles = tmi_scalar_nibbles,
    .split_columns = tmi_scalar_split_columns,
    .transpose16 = tmi_scalar_transpose16,
    .transpose32 = tmi_scalar_transpose32,
    .add_scaled = tmi_scalar_add_scaled,
    .product = tmi_scalar_product,
};
