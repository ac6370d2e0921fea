/*
 * NEON kernels for 64-bit ARM. The hardware's half-precision conversions depend on floating-point
 * modes that the caller may have set (AHP, DN, FZ), so F16 is decoded and encoded with integer
 * arithmetic. As with AVX2, a kernel is a step of NEON_STEP elements that neon_drive runs over a
 * range. There are no non-temporal stores: these CPUs detect a stream of full cache lines by
 * themselves.
 */
#include "blocks.h"
#include "kernels.h"
#include "xxh3_blocks.h"

#if TMI_NEON

#include <arm_neon.h>
#include <string.h>

#define NEON_INLINE static inline __attribute__((always_inline))

enum { NEON_STEP = 32 };

typedef void neon_step(unsigned char *d, const unsigned char *s, bool saturate);

/* Loads and stores by bytes: these require no alignment. */
NEON_INLINE uint8x16_t neon_load(const unsigned char *s, size_t vector) {
    return vld1q_u8(s + vector * 16);
}
NEON_INLINE uint16x8_t neon_load_16(const unsigned char *s, size_t vector) {
    return vreinterpretq_u16_u8(neon_load(s, vector));
}
NEON_INLINE uint32x4_t neon_load_32(const unsigned char *s, size_t vector) {
    return vreinterpretq_u32_u8(neon_load(s, vector));
}
NEON_INLINE void neon_store_16(unsigned char *d, size_t vector, uint16x8_t v) {
    vst1q_u8(d + vector * 16, vreinterpretq_u8_u16(v));
}
NEON_INLINE void neon_store_32(unsigned char *d, size_t vector, uint32x4_t v) {
    vst1q_u8(d + vector * 16, vreinterpretq_u8_u32(v));
}

/* The size of one element before and after a kernel. */
typedef struct neon_sizes {
    size_t src_bits, dst_bytes;
} neon_sizes;

/* A remainder shorter than a step goes through buffers, so that a step never leaves the range. */
NEON_INLINE void neon_drive(void *dst, const void *src, size_t count, neon_step *step,
                            bool saturate, neon_sizes element) {
    unsigned char *d = dst;
    const unsigned char *s = src;
    for (; count >= NEON_STEP; count -= NEON_STEP) {
        step(d, s, saturate);
        d += NEON_STEP * element.dst_bytes;
        s += NEON_STEP * element.src_bits / 8;
    }
    if (count) {
        unsigned char in[NEON_STEP * 8], out[NEON_STEP * 8];
        memset(in, 0, NEON_STEP * element.src_bits / 8);
        memcpy(in, s, (count * element.src_bits + 7) / 8);
        step(out, in, saturate);
        memcpy(d, out, count * element.dst_bytes);
    }
}

#define NEON_KERNEL(kernel, step, src_bits, dst_bytes)                                             \
    static void kernel(void *dst, const void *src, size_t count, uint32_t flags) {                 \
        if (flags & TENMAP_CONVERT_SATURATE)                                                       \
            neon_drive(dst, src, count, step, true, (neon_sizes){src_bits, dst_bytes});            \
        else                                                                                       \
            neon_drive(dst, src, count, step, false, (neon_sizes){src_bits, dst_bytes});           \
    }

/* Widening. */

NEON_INLINE void neon_store_bf16_as_f32(unsigned char *d, size_t vector, uint16x8_t v) {
    neon_store_32(d, vector, vshlq_n_u32(vmovl_u16(vget_low_u16(v)), 16));
    neon_store_32(d, vector + 1, vshlq_n_u32(vmovl_high_u16(v), 16));
}

NEON_INLINE void step_bf16_to_f32_neon(unsigned char *d, const unsigned char *s, bool saturate) {
    (void)saturate;
    for (size_t i = 0; i < 4; i++)
        neon_store_bf16_as_f32(d, i * 2, neon_load_16(s, i));
}

/* Four F16 in 32-bit lanes. */
NEON_INLINE uint32x4_t f32_from_f16_neon(uint32x4_t h) {
    uint32x4_t magnitude = vandq_u32(h, vdupq_n_u32(0x7fff));
    uint32x4_t sign = vshlq_n_u32(vandq_u32(h, vdupq_n_u32(0x8000)), 16);
    uint32x4_t normal = vaddq_u32(vshlq_n_u32(magnitude, 13), vdupq_n_u32(112u << 23));
    /* A subnormal is an integer times 2^-24, which is a normal F32. */
    uint32x4_t subnormal = vreinterpretq_u32_f32(vcvtq_n_f32_u32(magnitude, 24));
    uint32x4_t v = vbslq_u32(vcltq_u32(magnitude, vdupq_n_u32(0x0400)), subnormal, normal);
    uint32x4_t is_special = vcgeq_u32(magnitude, vdupq_n_u32(0x7c00));
    uint32x4_t is_nan = vcgtq_u32(magnitude, vdupq_n_u32(0x7c00));
    v = vorrq_u32(v, vandq_u32(is_special, vdupq_n_u32(0x7f800000)));
    v = vorrq_u32(v, vandq_u32(is_nan, vdupq_n_u32(0x00400000)));
    return vorrq_u32(v, sign);
}

NEON_INLINE void step_f16_to_f32_neon(unsigned char *d, const unsigned char *s, bool saturate) {
    (void)saturate;
    for (size_t i = 0; i < 4; i++) {
        uint16x8_t h = neon_load_16(s, i);
        neon_store_32(d, i * 2, f32_from_f16_neon(vmovl_u16(vget_low_u16(h))));
        neon_store_32(d, i * 2 + 1, f32_from_f16_neon(vmovl_high_u16(h)));
    }
}

/* 16-bit results for subnormal codes of an 8-bit float; `bytes` has low bytes, then high bytes. */
NEON_INLINE uint16x8_t neon_subnormals(uint16x8_t magnitude, const uint8_t *bytes) {
    uint16x8_t twice = vorrq_u16(magnitude, vshlq_n_u16(magnitude, 8));
    uint16x8_t index = vaddq_u16(twice, vdupq_n_u16(0x0800));
    return vreinterpretq_u16_u8(vqtbl1q_u8(vld1q_u8(bytes), vreinterpretq_u8_u16(index)));
}

NEON_INLINE uint16x8_t e4m3_to_bf16_neon(uint16x8_t codes) {
    static const uint8_t bytes[16] = {0, 0,    0x80, 0xc0, 0,    0x20, 0x40, 0x60,
                                      0, 0x3b, 0x3b, 0x3b, 0x3c, 0x3c, 0x3c, 0x3c};
    uint16x8_t magnitude = vandq_u16(codes, vdupq_n_u16(0x7f));
    uint16x8_t sign = vshlq_n_u16(vshrq_n_u16(codes, 7), 15);
    uint16x8_t v = vaddq_u16(vshlq_n_u16(magnitude, 4), vdupq_n_u16(120 << 7));
    v = vbslq_u16(vcltq_u16(magnitude, vdupq_n_u16(8)), neon_subnormals(magnitude, bytes), v);
    v = vbslq_u16(vceqq_u16(magnitude, vdupq_n_u16(0x7f)), vdupq_n_u16(0x7fc0), v);
    return vorrq_u16(v, sign);
}

NEON_INLINE uint16x8_t e4m3_to_f16_neon(uint16x8_t codes) {
    static const uint8_t bytes[16] = {0, 0,    0,    0,    0,    0,    0,    0,
                                      0, 0x18, 0x1c, 0x1e, 0x20, 0x21, 0x22, 0x23};
    uint16x8_t magnitude = vandq_u16(codes, vdupq_n_u16(0x7f));
    uint16x8_t sign = vshlq_n_u16(vshrq_n_u16(codes, 7), 15);
    uint16x8_t v = vaddq_u16(vshlq_n_u16(magnitude, 7), vdupq_n_u16(8 << 10));
    v = vbslq_u16(vcltq_u16(magnitude, vdupq_n_u16(8)), neon_subnormals(magnitude, bytes), v);
    v = vbslq_u16(vceqq_u16(magnitude, vdupq_n_u16(0x7f)), vdupq_n_u16(0x7e00), v);
    return vorrq_u16(v, sign);
}

NEON_INLINE uint16x8_t e5m2_to_bf16_neon(uint16x8_t codes) {
    static const uint8_t bytes[16] = {0, 0x80, 0,    0x40, 0, 0, 0, 0,
                                      0, 0x37, 0x38, 0x38, 0, 0, 0, 0};
    uint16x8_t magnitude = vandq_u16(codes, vdupq_n_u16(0x7f));
    uint16x8_t sign = vshlq_n_u16(vshrq_n_u16(codes, 7), 15);
    uint16x8_t v = vaddq_u16(vshlq_n_u16(magnitude, 5), vdupq_n_u16(112 << 7));
    v = vbslq_u16(vcltq_u16(magnitude, vdupq_n_u16(4)), neon_subnormals(magnitude, bytes), v);
    uint16x8_t is_special = vcgeq_u16(magnitude, vdupq_n_u16(0x7c));
    uint16x8_t is_nan = vcgtq_u16(magnitude, vdupq_n_u16(0x7c));
    v = vorrq_u16(v, vandq_u16(is_special, vdupq_n_u16(0x7f80)));
    v = vorrq_u16(v, vandq_u16(is_nan, vdupq_n_u16(0x0040)));
    return vorrq_u16(v, sign);
}

/*
 * FNUZ has no infinity, and its NaN is where other formats have -0. `rule` holds the results of
 * normal magnitudes; those below `below` are subnormal.
 */
NEON_INLINE uint16x8_t fnuz_to_bf16_neon(uint16x8_t codes, const uint8_t *bytes, uint16_t below,
                                         uint16x8_t rule) {
    uint16x8_t magnitude = vandq_u16(codes, vdupq_n_u16(0x7f));
    uint16x8_t sign = vshlq_n_u16(vshrq_n_u16(codes, 7), 15);
    uint16x8_t is_small = vcltq_u16(magnitude, vdupq_n_u16(below));
    uint16x8_t v = vorrq_u16(vbslq_u16(is_small, neon_subnormals(magnitude, bytes), rule), sign);
    return vbslq_u16(vceqq_u16(codes, vdupq_n_u16(0x80)), vdupq_n_u16(0x7fc0), v);
}

NEON_INLINE uint16x8_t e4m3fnuz_to_bf16_neon(uint16x8_t codes) {
    static const uint8_t bytes[16] = {0, 0x80, 0,    0x40, 0x80, 0xa0, 0xc0, 0xe0,
                                      0, 0x3a, 0x3b, 0x3b, 0x3b, 0x3b, 0x3b, 0x3b};
    uint16x8_t magnitude = vandq_u16(codes, vdupq_n_u16(0x7f));
    uint16x8_t rule = vaddq_u16(vshlq_n_u16(magnitude, 4), vdupq_n_u16(119 << 7));
    return fnuz_to_bf16_neon(codes, bytes, 8, rule);
}

NEON_INLINE uint16x8_t e5m2fnuz_to_bf16_neon(uint16x8_t codes) {
    static const uint8_t bytes[16] = {0, 0,    0x80, 0xc0, 0, 0, 0, 0,
                                      0, 0x37, 0x37, 0x37, 0, 0, 0, 0};
    uint16x8_t magnitude = vandq_u16(codes, vdupq_n_u16(0x7f));
    uint16x8_t rule = vaddq_u16(vshlq_n_u16(magnitude, 5), vdupq_n_u16(111 << 7));
    return fnuz_to_bf16_neon(codes, bytes, 4, rule);
}

NEON_INLINE uint16x8_t e5m2_to_f16_neon(uint16x8_t codes) {
    return vshlq_n_u16(codes, 8);
}

/* A step from 32 codes of 8 bits to 16 bits, or by way of BF16 to F32. */
#define NEON_STEP_8(name, store, width, function)                                                  \
    NEON_INLINE void name(unsigned char *d, const unsigned char *s, bool saturate) {               \
        (void)saturate;                                                                            \
        for (size_t i = 0; i < 2; i++) {                                                           \
            uint8x16_t codes = neon_load(s, i);                                                    \
            store(d, i * 2 * width, function(vmovl_u8(vget_low_u8(codes))));                       \
            store(d, (i * 2 + 1) * width, function(vmovl_high_u8(codes)));                         \
        }                                                                                          \
    }
NEON_STEP_8(step_e4m3_to_f32_neon, neon_store_bf16_as_f32, 2, e4m3_to_bf16_neon)
NEON_STEP_8(step_e5m2_to_f32_neon, neon_store_bf16_as_f32, 2, e5m2_to_bf16_neon)
NEON_STEP_8(step_e4m3fnuz_to_f32_neon, neon_store_bf16_as_f32, 2, e4m3fnuz_to_bf16_neon)
NEON_STEP_8(step_e5m2fnuz_to_f32_neon, neon_store_bf16_as_f32, 2, e5m2fnuz_to_bf16_neon)
NEON_STEP_8(step_e4m3fnuz_to_bf16_neon, neon_store_16, 1, e4m3fnuz_to_bf16_neon)
NEON_STEP_8(step_e5m2fnuz_to_bf16_neon, neon_store_16, 1, e5m2fnuz_to_bf16_neon)
NEON_STEP_8(step_e4m3_to_bf16_neon, neon_store_16, 1, e4m3_to_bf16_neon)
NEON_STEP_8(step_e5m2_to_bf16_neon, neon_store_16, 1, e5m2_to_bf16_neon)
NEON_STEP_8(step_e4m3_to_f16_neon, neon_store_16, 1, e4m3_to_f16_neon)
NEON_STEP_8(step_e5m2_to_f16_neon, neon_store_16, 1, e5m2_to_f16_neon)

/* Widens 16 bytes of packed F4 to four vectors of 16-bit results, from tables of their bytes. */
NEON_INLINE void widen_f4_neon(uint16x8_t *out, const unsigned char *s, const uint8_t *low_bytes,
                               const uint8_t *high_bytes) {
    uint8x16_t both = neon_load(s, 0), low_table = vld1q_u8(low_bytes);
    uint8x16_t high_table = vld1q_u8(high_bytes);
    uint8x16_t even = vandq_u8(both, vdupq_n_u8(0x0f)), odd = vshrq_n_u8(both, 4);
    uint8x16_t codes[2] = {vzip1q_u8(even, odd), vzip2q_u8(even, odd)};
    for (size_t i = 0; i < 2; i++) {
        uint8x16_t low = vqtbl1q_u8(low_table, codes[i]), high = vqtbl1q_u8(high_table, codes[i]);
        out[i * 2] = vreinterpretq_u16_u8(vzip1q_u8(low, high));
        out[i * 2 + 1] = vreinterpretq_u16_u8(vzip2q_u8(low, high));
    }
}

static const uint8_t f4_bf16_low_neon[16] = {0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0,
                                             0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0};
static const uint8_t f4_bf16_high_neon[16] = {0,    0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40,
                                              0x80, 0xbf, 0xbf, 0xbf, 0xc0, 0xc0, 0xc0, 0xc0};
static const uint8_t f4_f16_low_neon[16] = {0};
static const uint8_t f4_f16_high_neon[16] = {0,    0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46,
                                             0x80, 0xb8, 0xbc, 0xbe, 0xc0, 0xc2, 0xc4, 0xc6};

#define NEON_STEP_F4(name, store, width, low, high)                                                \
    NEON_INLINE void name(unsigned char *d, const unsigned char *s, bool saturate) {               \
        uint16x8_t v[4];                                                                           \
        (void)saturate;                                                                            \
        widen_f4_neon(v, s, low, high);                                                            \
        for (size_t i = 0; i < 4; i++)                                                             \
            store(d, i *width, v[i]);                                                              \
    }
NEON_STEP_F4(step_f4_to_f32_neon, neon_store_bf16_as_f32, 2, f4_bf16_low_neon, f4_bf16_high_neon)
NEON_STEP_F4(step_f4_to_bf16_neon, neon_store_16, 1, f4_bf16_low_neon, f4_bf16_high_neon)
NEON_STEP_F4(step_f4_to_f16_neon, neon_store_16, 1, f4_f16_low_neon, f4_f16_high_neon)

NEON_INLINE void neon_store_s16_as_f32(unsigned char *d, size_t vector, int16x8_t v) {
    float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(v)));
    float32x4_t high = vcvtq_f32_s32(vmovl_high_s16(v));
    neon_store_32(d, vector, vreinterpretq_u32_f32(low));
    neon_store_32(d, vector + 1, vreinterpretq_u32_f32(high));
}

NEON_INLINE void step_i8_to_f32_neon(unsigned char *d, const unsigned char *s, bool saturate) {
    (void)saturate;
    for (size_t i = 0; i < 2; i++) {
        int8x16_t v = vreinterpretq_s8_u8(neon_load(s, i));
        neon_store_s16_as_f32(d, i * 4, vmovl_s8(vget_low_s8(v)));
        neon_store_s16_as_f32(d, i * 4 + 2, vmovl_high_s8(v));
    }
}

NEON_INLINE void step_u8_to_f32_neon(unsigned char *d, const unsigned char *s, bool saturate) {
    (void)saturate;
    for (size_t i = 0; i < 2; i++) {
        uint8x16_t v = neon_load(s, i);
        neon_store_s16_as_f32(d, i * 4, vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(v))));
        neon_store_s16_as_f32(d, i * 4 + 2, vreinterpretq_s16_u16(vmovl_high_u8(v)));
    }
}

/*
 * Converts two F64 in hardware, except for tiny values and NaN, where modes matter: plain C
 * converts those.
 */
NEON_INLINE uint32x2_t f32_from_f64_neon(const unsigned char *s) {
    uint64x2_t bits = vreinterpretq_u64_u8(vld1q_u8(s));
    uint64x2_t magnitude = vandq_u64(bits, vdupq_n_u64(INT64_MAX));
    uint64x2_t is_tiny =
        vcltq_u64(vsubq_u64(magnitude, vdupq_n_u64(1)), vdupq_n_u64(((uint64_t)897 << 52) - 1));
    uint64x2_t is_nan = vcgtq_u64(magnitude, vdupq_n_u64((uint64_t)0x7ff << 52));
    uint64x2_t rare = vorrq_u64(is_tiny, is_nan);
    if (TMI_UNLIKELY(vgetq_lane_u64(rare, 0) | vgetq_lane_u64(rare, 1))) {
        uint32x2_t v = vdup_n_u32(tmi_f32_from_f64(vgetq_lane_u64(bits, 0)));
        return vset_lane_u32(tmi_f32_from_f64(vgetq_lane_u64(bits, 1)), v, 1);
    }
    return vreinterpret_u32_f32(vcvt_f32_f64(vreinterpretq_f64_u64(bits)));
}

NEON_INLINE void step_f64_to_f32_neon(unsigned char *d, const unsigned char *s, bool saturate) {
    (void)saturate;
    for (size_t i = 0; i < 8; i++)
        neon_store_32(
            d, i, vcombine_u32(f32_from_f64_neon(s + i * 32), f32_from_f64_neon(s + i * 32 + 16)));
}

/* Narrowing. */

NEON_INLINE uint32x4_t neon_magnitude(uint32x4_t bits) {
    return vandq_u32(bits, vdupq_n_u32(0x7fffffff));
}
NEON_INLINE uint32x4_t neon_is_nan(uint32x4_t bits) {
    return vcgtq_u32(neon_magnitude(bits), vdupq_n_u32(0x7f800000));
}

NEON_INLINE uint16x4_t bf16_from_f32_neon(uint32x4_t bits, bool saturate) {
    uint32x4_t is_nan = neon_is_nan(bits);
    uint32x4_t sign = veorq_u32(bits, neon_magnitude(bits)), magnitude = neon_magnitude(bits);
    if (saturate)
        magnitude = vminq_u32(magnitude, vdupq_n_u32(0x7f7f0000));
    uint32x4_t odd = vandq_u32(vshrq_n_u32(magnitude, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(vaddq_u32(magnitude, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x00400000));
    return vshrn_n_u32(vbslq_u32(is_nan, quiet, vorrq_u32(rounded, sign)), 16);
}

/*
 * Converts four F32 to codes of a format with at most 10 fraction bits, without signs; wrong for
 * NaN. The addition of a power of two rounds; x86_avx2_narrow.c explains why no mode can change it.
 */
NEON_INLINE uint32x4_t neon_round(uint32x4_t bits, uint32_t limit, unsigned fraction_bits,
                                  unsigned bias) {
    const unsigned shift = 23 - fraction_bits;
    const uint32_t excess = (shift + 128 - bias) << fraction_bits;
    uint32x4_t clamped = vminq_u32(neon_magnitude(bits), vdupq_n_u32(limit));
    uint32x4_t exponent = vandq_u32(clamped, vdupq_n_u32(0x7f800000));
    uint32x4_t power =
        vaddq_u32(vmaxq_u32(exponent, vdupq_n_u32((128 - bias) << 23)), vdupq_n_u32(shift << 23));
    float32x4_t sum = vaddq_f32(vreinterpretq_f32_u32(clamped), vreinterpretq_f32_u32(power));
    uint32x4_t fraction = vsubq_u32(vreinterpretq_u32_f32(sum), power);
    uint32x4_t field = vshlq_u32(power, vdupq_n_s32(-(int32_t)shift));
    return vsubq_u32(vaddq_u32(fraction, field), vdupq_n_u32(excess));
}

NEON_INLINE uint16x4_t f16_from_f32_neon(uint32x4_t bits, bool saturate) {
    uint32x4_t code = neon_round(bits, saturate ? 0x477fe000 : 0x47800000, 10, 15);
    uint32x4_t payload = vandq_u32(vshrq_n_u32(bits, 13), vdupq_n_u32(0x03ff));
    code = vbslq_u32(neon_is_nan(bits), vorrq_u32(payload, vdupq_n_u32(0x7e00)), code);
    uint32x4_t sign = vshlq_n_u32(vshrq_n_u32(bits, 31), 15);
    return vmovn_u32(vorrq_u32(code, sign));
}

NEON_INLINE uint16x4_t small_from_f32_neon(uint32x4_t bits, bool saturate,
                                           const tmi_narrow_format f) {
    const uint32_t top = saturate || f.always_clamps ? f.largest : f.largest + 1;
    uint32x4_t code = neon_round(bits, TMI_NARROW_AS_F32(f, top), f.fraction_bits, f.bias);
    code = vbslq_u32(neon_is_nan(bits), vdupq_n_u32(f.nan), code);
    uint32x4_t sign = vshlq_u32(vshrq_n_u32(bits, 31), vdupq_n_s32((int32_t)f.sign_at));
    if (f.unsigned_zero)
        sign = vbicq_u32(sign, vceqq_u32(code, vdupq_n_u32(0)));
    return vmovn_u32(vorrq_u32(code, sign));
}

NEON_INLINE uint32x4_t neon_f32_of_f16(uint16x4_t h) {
    return f32_from_f16_neon(vmovl_u16(h));
}
NEON_INLINE uint32x4_t neon_f32_of_bf16(uint16x4_t h) {
    return vshlq_n_u32(vmovl_u16(h), 16);
}

#define NEON_STEP_32_TO_16(name, function)                                                         \
    NEON_INLINE void name(unsigned char *d, const unsigned char *s, bool saturate) {               \
        for (size_t i = 0; i < 4; i++)                                                             \
            neon_store_16(d, i,                                                                    \
                          vcombine_u16(function(neon_load_32(s, i * 2), saturate),                 \
                                       function(neon_load_32(s, i * 2 + 1), saturate)));           \
    }
NEON_STEP_32_TO_16(step_f32_to_bf16_neon, bf16_from_f32_neon)
NEON_STEP_32_TO_16(step_f32_to_f16_neon, f16_from_f32_neon)

#define NEON_STEP_16_TO_16(name, widen, narrow)                                                    \
    NEON_INLINE void name(unsigned char *d, const unsigned char *s, bool saturate) {               \
        for (size_t i = 0; i < 4; i++) {                                                           \
            uint16x8_t h = neon_load_16(s, i);                                                     \
            neon_store_16(d, i,                                                                    \
                          vcombine_u16(narrow(widen(vget_low_u16(h)), saturate),                   \
                                       narrow(widen(vget_high_u16(h)), saturate)));                \
        }                                                                                          \
    }
NEON_STEP_16_TO_16(step_f16_to_bf16_neon, neon_f32_of_f16, bf16_from_f32_neon)
NEON_STEP_16_TO_16(step_bf16_to_f16_neon, neon_f32_of_bf16, f16_from_f32_neon)

#define NEON_STEP_SMALL(name, format)                                                              \
    NEON_INLINE void name(unsigned char *d, const unsigned char *s, bool saturate) {               \
        for (size_t i = 0; i < 4; i++) {                                                           \
            uint16x4_t a = small_from_f32_neon(neon_load_32(s, i * 2), saturate, format);          \
            uint16x4_t b = small_from_f32_neon(neon_load_32(s, i * 2 + 1), saturate, format);      \
            vst1_u8(d + i * 8, vmovn_u16(vcombine_u16(a, b)));                                     \
        }                                                                                          \
    }
NEON_STEP_SMALL(step_f32_to_e5m2_neon, TMI_NARROW_F8_E5M2)
NEON_STEP_SMALL(step_f32_to_e4m3_neon, TMI_NARROW_F8_E4M3)
NEON_STEP_SMALL(step_f32_to_e5m2fnuz_neon, TMI_NARROW_F8_E5M2FNUZ)
NEON_STEP_SMALL(step_f32_to_e4m3fnuz_neon, TMI_NARROW_F8_E4M3FNUZ)
NEON_STEP_SMALL(step_f32_to_f4_neon, TMI_NARROW_F4)

#define NEON_STEP_16_TO_SMALL(name, widen, format)                                                 \
    NEON_INLINE void name(unsigned char *d, const unsigned char *s, bool saturate) {               \
        for (size_t i = 0; i < 4; i++) {                                                           \
            uint16x8_t h = neon_load_16(s, i);                                                     \
            uint16x4_t a = small_from_f32_neon(widen(vget_low_u16(h)), saturate, format);          \
            uint16x4_t b = small_from_f32_neon(widen(vget_high_u16(h)), saturate, format);         \
            vst1_u8(d + i * 8, vmovn_u16(vcombine_u16(a, b)));                                     \
        }                                                                                          \
    }
NEON_STEP_16_TO_SMALL(step_bf16_to_e5m2_neon, neon_f32_of_bf16, TMI_NARROW_F8_E5M2)
NEON_STEP_16_TO_SMALL(step_bf16_to_e4m3_neon, neon_f32_of_bf16, TMI_NARROW_F8_E4M3)
NEON_STEP_16_TO_SMALL(step_f16_to_e5m2_neon, neon_f32_of_f16, TMI_NARROW_F8_E5M2)
NEON_STEP_16_TO_SMALL(step_f16_to_e4m3_neon, neon_f32_of_f16, TMI_NARROW_F8_E4M3)

NEON_KERNEL(bf16_to_f32_neon, step_bf16_to_f32_neon, 16, 4)
NEON_KERNEL(f16_to_f32_neon, step_f16_to_f32_neon, 16, 4)
NEON_KERNEL(e4m3_to_f32_neon, step_e4m3_to_f32_neon, 8, 4)
NEON_KERNEL(e5m2_to_f32_neon, step_e5m2_to_f32_neon, 8, 4)
NEON_KERNEL(e4m3fnuz_to_f32_neon, step_e4m3fnuz_to_f32_neon, 8, 4)
NEON_KERNEL(e5m2fnuz_to_f32_neon, step_e5m2fnuz_to_f32_neon, 8, 4)
NEON_KERNEL(e4m3fnuz_to_bf16_kernel_neon, step_e4m3fnuz_to_bf16_neon, 8, 2)
NEON_KERNEL(e5m2fnuz_to_bf16_kernel_neon, step_e5m2fnuz_to_bf16_neon, 8, 2)
NEON_KERNEL(i8_to_f32_neon, step_i8_to_f32_neon, 8, 4)
NEON_KERNEL(u8_to_f32_neon, step_u8_to_f32_neon, 8, 4)
NEON_KERNEL(f64_to_f32_neon, step_f64_to_f32_neon, 64, 4)
NEON_KERNEL(f4_to_f32_neon, step_f4_to_f32_neon, 4, 4)
NEON_KERNEL(f4_to_bf16_neon, step_f4_to_bf16_neon, 4, 2)
NEON_KERNEL(f4_to_f16_neon, step_f4_to_f16_neon, 4, 2)
NEON_KERNEL(e4m3_to_bf16_kernel_neon, step_e4m3_to_bf16_neon, 8, 2)
NEON_KERNEL(e5m2_to_bf16_kernel_neon, step_e5m2_to_bf16_neon, 8, 2)
NEON_KERNEL(e4m3_to_f16_kernel_neon, step_e4m3_to_f16_neon, 8, 2)
NEON_KERNEL(e5m2_to_f16_kernel_neon, step_e5m2_to_f16_neon, 8, 2)
NEON_KERNEL(f32_to_bf16_neon, step_f32_to_bf16_neon, 32, 2)
NEON_KERNEL(f32_to_f16_neon, step_f32_to_f16_neon, 32, 2)
NEON_KERNEL(f16_to_bf16_neon, step_f16_to_bf16_neon, 16, 2)
NEON_KERNEL(bf16_to_f16_neon, step_bf16_to_f16_neon, 16, 2)
NEON_KERNEL(f32_to_e5m2_neon, step_f32_to_e5m2_neon, 32, 1)
NEON_KERNEL(f32_to_e4m3_neon, step_f32_to_e4m3_neon, 32, 1)
NEON_KERNEL(f32_to_e5m2fnuz_neon, step_f32_to_e5m2fnuz_neon, 32, 1)
NEON_KERNEL(f32_to_e4m3fnuz_neon, step_f32_to_e4m3fnuz_neon, 32, 1)
NEON_KERNEL(f32_to_f4_neon, step_f32_to_f4_neon, 32, 1)
NEON_KERNEL(bf16_to_e5m2_neon, step_bf16_to_e5m2_neon, 16, 1)
NEON_KERNEL(bf16_to_e4m3_neon, step_bf16_to_e4m3_neon, 16, 1)
NEON_KERNEL(f16_to_e5m2_neon, step_f16_to_e5m2_neon, 16, 1)
NEON_KERNEL(f16_to_e4m3_neon, step_f16_to_e4m3_neon, 16, 1)

const tmi_kernels tmi_kernels_neon = {
    .name = "neon",
    .pair =
        {
            [TENMAP_F32] =
                {
                    [TENMAP_BF16] = bf16_to_f32_neon,
                    [TENMAP_F16] = f16_to_f32_neon,
                    [TENMAP_F8_E4M3] = e4m3_to_f32_neon,
                    [TENMAP_F8_E5M2] = e5m2_to_f32_neon,
                    [TENMAP_F8_E4M3FNUZ] = e4m3fnuz_to_f32_neon,
                    [TENMAP_F8_E5M2FNUZ] = e5m2fnuz_to_f32_neon,
                    [TENMAP_I8] = i8_to_f32_neon,
                    [TENMAP_U8] = u8_to_f32_neon,
                    [TENMAP_F64] = f64_to_f32_neon,
                },
            [TENMAP_BF16] =
                {
                    [TENMAP_F32] = f32_to_bf16_neon,
                    [TENMAP_F16] = f16_to_bf16_neon,
                    [TENMAP_F8_E4M3] = e4m3_to_bf16_kernel_neon,
                    [TENMAP_F8_E5M2] = e5m2_to_bf16_kernel_neon,
                    [TENMAP_F8_E4M3FNUZ] = e4m3fnuz_to_bf16_kernel_neon,
                    [TENMAP_F8_E5M2FNUZ] = e5m2fnuz_to_bf16_kernel_neon,
                },
            [TENMAP_F16] =
                {
                    [TENMAP_F32] = f32_to_f16_neon,
                    [TENMAP_BF16] = bf16_to_f16_neon,
                    [TENMAP_F8_E4M3] = e4m3_to_f16_kernel_neon,
                    [TENMAP_F8_E5M2] = e5m2_to_f16_kernel_neon,
                },
            [TENMAP_F8_E5M2] =
                {
                    [TENMAP_F32] = f32_to_e5m2_neon,
                    [TENMAP_BF16] = bf16_to_e5m2_neon,
                    [TENMAP_F16] = f16_to_e5m2_neon,
                },
            [TENMAP_F8_E4M3] =
                {
                    [TENMAP_F32] = f32_to_e4m3_neon,
                    [TENMAP_BF16] = bf16_to_e4m3_neon,
                    [TENMAP_F16] = f16_to_e4m3_neon,
                },
            [TENMAP_F8_E5M2FNUZ][TENMAP_F32] = f32_to_e5m2fnuz_neon,
            [TENMAP_F8_E4M3FNUZ][TENMAP_F32] = f32_to_e4m3fnuz_neon,
            [TENMAP_F4][TENMAP_F32] = f32_to_f4_neon,
        },
    .packed_f4 =
        {
            [TENMAP_F32] = f4_to_f32_neon,
            [TENMAP_BF16] = f4_to_bf16_neon,
            [TENMAP_F16] = f4_to_f16_neon,
        },
    .unpack =
        {
            [TENMAP_Q4_0 - TENMAP_Q4_0] = tmi_neon_unpack_q4_0,
            [TENMAP_Q8_0 - TENMAP_Q4_0] = tmi_neon_unpack_q8_0,
            [TENMAP_Q4_K - TENMAP_Q4_0] = tmi_neon_unpack_q4_k,
            [TENMAP_Q5_K - TENMAP_Q4_0] = tmi_neon_unpack_q5_k,
            [TENMAP_Q6_K - TENMAP_Q4_0] = tmi_neon_unpack_q6_k,
            [TENMAP_IQ4_NL - TENMAP_Q4_0] = tmi_neon_unpack_iq4_nl,
            [TENMAP_MXFP4 - TENMAP_Q4_0] = tmi_neon_unpack_mxfp4,
        },
    .xxh3_blocks = tmi_neon_xxh3_blocks,
    .times = tmi_neon_group_times,
    .minus = tmi_neon_group_minus,
    .plus = tmi_neon_group_plus,
    .nibbles = tmi_neon_nibbles,
    .fused4 = tmi_neon_fused4,
    .add_scaled = tmi_neon_add_scaled,
    .product = tmi_neon_product,
};

#endif
