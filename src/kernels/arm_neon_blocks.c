/*
 * Unpacks block dtypes with NEON: the operations of blocks.c in the same order, with bit-identical
 * results.
 */
#include "blocks.h"

#if TMI_NEON

#include <arm_neon.h>

/* 16 signed bytes as F32, in four vectors. */
static inline void neon_floats(int8x16_t bytes, float32x4_t out[4]) {
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    out[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    out[1] = vcvtq_f32_s32(vmovl_high_s16(low));
    out[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    out[3] = vcvtq_f32_s32(vmovl_high_s16(high));
}

static inline void neon_put_16(float *dst, int8x16_t bytes, float scale) {
    float32x4_t values[4];
    neon_floats(bytes, values);
    for (int i = 0; i < 4; i++)
        vst1q_f32(dst + 4 * i, vmulq_n_f32(values[i], scale));
}

/* Multiplies by a scale, subtracts a minimum. The product is exact, so fusing changes nothing. */
static inline void neon_put_16_minus(float *dst, uint8x16_t bytes, float scale, float offset) {
    float32x4_t values[4], minimum = vdupq_n_f32(offset);
    neon_floats(vreinterpretq_s8_u8(bytes), values);
    for (int i = 0; i < 4; i++)
        vst1q_f32(dst + 4 * i, vsubq_f32(vmulq_n_f32(values[i], scale), minimum));
}

static inline uint8x16_t neon_low(uint8x16_t bytes) {
    return vandq_u8(bytes, vdupq_n_u8(15));
}

static inline uint8x16_t neon_high(uint8x16_t bytes) {
    return vshrq_n_u8(bytes, 4);
}

void tmi_neon_unpack_q4_0(float *dst, const unsigned char *src, size_t blocks) {
    const int8x16_t eight = vdupq_n_s8(8);
    for (; blocks > 0; blocks--, src += 18, dst += 32) {
        float d = tmi_half(src);
        uint8x16_t q = vld1q_u8(src + 2);
        neon_put_16(dst, vsubq_s8(vreinterpretq_s8_u8(neon_low(q)), eight), d);
        neon_put_16(dst + 16, vsubq_s8(vreinterpretq_s8_u8(neon_high(q)), eight), d);
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src)))
            tmi_canonicalize_nans(dst, 32);
    }
}

void tmi_neon_unpack_q8_0(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 34, dst += 32) {
        float d = tmi_half(src);
        neon_put_16(dst, vreinterpretq_s8_u8(vld1q_u8(src + 2)), d);
        neon_put_16(dst + 16, vreinterpretq_s8_u8(vld1q_u8(src + 18)), d);
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src)))
            tmi_canonicalize_nans(dst, 32);
    }
}

void tmi_neon_unpack_iq4_nl(float *dst, const unsigned char *src, size_t blocks) {
    const int8x16_t levels = vld1q_s8(tmi_levels_iq4);
    for (; blocks > 0; blocks--, src += 18, dst += 32) {
        float d = tmi_half(src);
        uint8x16_t q = vld1q_u8(src + 2);
        neon_put_16(dst, vqtbl1q_s8(levels, neon_low(q)), d);
        neon_put_16(dst + 16, vqtbl1q_s8(levels, neon_high(q)), d);
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src)))
            tmi_canonicalize_nans(dst, 32);
    }
}

/*
 * The levels are twice the values, so d is half the scale. A d of 2^-126 or more is multiplied
 * here; a smaller one and its results may be subnormal, so plain C handles those blocks.
 */
void tmi_neon_unpack_mxfp4(float *dst, const unsigned char *src, size_t blocks) {
    const int8x16_t levels = vld1q_s8(tmi_levels_e2m1);
    for (; blocks > 0; blocks--, src += 17, dst += 32) {
        if (TMI_UNLIKELY(src[0] < 2)) {
            tmi_unpack_mxfp4(dst, src, 1);
            continue;
        }
        float d = tmi_float_of((uint32_t)(src[0] - 1) << 23);
        uint8x16_t q = vld1q_u8(src + 1);
        neon_put_16(dst, vqtbl1q_s8(levels, neon_low(q)), d);
        neon_put_16(dst + 16, vqtbl1q_s8(levels, neon_high(q)), d);
    }
}

void tmi_neon_unpack_q4_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 144, dst += 256) {
        float d = tmi_half(src), min = tmi_half(src + 2);
        for (unsigned part = 0; part < 8; part++) {
            unsigned sc, m;
            tmi_scale_and_min(src + 4, part, &sc, &m);
            float scale = d * (float)sc, offset = min * (float)m;
            for (unsigned i = 0; i < 2; i++) {
                uint8x16_t q = vld1q_u8(src + 16 + part / 2 * 32 + 16 * i);
                neon_put_16_minus(dst + 32 * part + 16 * i, part % 2 ? neon_high(q) : neon_low(q),
                                  scale, offset);
            }
        }
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src) || tmi_half_is_nonfinite(src + 2)))
            tmi_canonicalize_nans(dst, 256);
    }
}

void tmi_neon_unpack_q5_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 176, dst += 256) {
        float d = tmi_half(src), min = tmi_half(src + 2);
        for (unsigned part = 0; part < 8; part++) {
            unsigned sc, m;
            tmi_scale_and_min(src + 4, part, &sc, &m);
            float scale = d * (float)sc, offset = min * (float)m;
            uint8x16_t bit = vdupq_n_u8((uint8_t)(1u << part));
            for (unsigned i = 0; i < 2; i++) {
                uint8x16_t q = vld1q_u8(src + 48 + part / 2 * 32 + 16 * i);
                uint8x16_t fifth =
                    vandq_u8(vtstq_u8(vld1q_u8(src + 16 + 16 * i), bit), vdupq_n_u8(16));
                q = vorrq_u8(part % 2 ? neon_high(q) : neon_low(q), fifth);
                neon_put_16_minus(dst + 32 * part + 16 * i, q, scale, offset);
            }
        }
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src) || tmi_half_is_nonfinite(src + 2)))
            tmi_canonicalize_nans(dst, 256);
    }
}

/* 16 elements of Q6_K from one row of half a block; low bits and high bits come separately. */
static inline void neon_put_sixth(float *dst, uint8x16_t low, uint8x16_t high, float scale) {
    uint8x16_t q = vorrq_u8(low, vandq_u8(high, vdupq_n_u8(0x30)));
    neon_put_16(dst, vsubq_s8(vreinterpretq_s8_u8(q), vdupq_n_s8(32)), scale);
}

void tmi_neon_unpack_q6_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 210, dst += 256) {
        float d = tmi_half(src + 208);
        for (unsigned i = 0; i < 4; i++) { /* 16 columns of half a block */
            const unsigned char *low = src + i / 2 * 64 + i % 2 * 16;
            uint8x16_t a = vld1q_u8(low), b = vld1q_u8(low + 32);
            uint8x16_t h = vld1q_u8(src + 128 + 16 * i);
            float scale[4], *to = dst + i / 2 * 128 + i % 2 * 16;
            for (unsigned row = 0; row < 4; row++)
                scale[row] = d * (float)(int8_t)src[192 + i / 2 * 8 + row * 2 + i % 2];
            neon_put_sixth(to, neon_low(a), vshlq_n_u8(h, 4), scale[0]);
            neon_put_sixth(to + 32, neon_low(b), vshlq_n_u8(h, 2), scale[1]);
            neon_put_sixth(to + 64, neon_high(a), h, scale[2]);
            neon_put_sixth(to + 96, neon_high(b), vshrq_n_u8(h, 2), scale[3]);
        }
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src + 208)))
            tmi_canonicalize_nans(dst, 256);
    }
}

#endif
