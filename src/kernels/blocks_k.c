/* Unpacks block dtypes of 256 elements with scaled parts (the K types and IQ4_XS), in plain C. */
#include "blocks.h"

/* 16 parts, each with a byte for a 4-bit scale and minimum. Four elements per byte, 32 apart. */
void tmi_unpack_q2_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 84, dst += 256) {
        float d = tmi_half(src + 80), min = tmi_half(src + 82);
        for (size_t part = 0; part < 16; part++) {
            const unsigned char *q = src + 16 + part / 8 * 32 + part % 2 * 16;
            float scale = d * (float)(src[part] & 15), offset = min * (float)(src[part] >> 4);
            for (size_t i = 0; i < 16; i++)
                dst[16 * part + i] = scale * (float)(q[i] >> part / 2 % 4 * 2 & 3) - offset;
        }
        if (tmi_half_is_nonfinite(src + 80) || tmi_half_is_nonfinite(src + 82))
            tmi_canonicalize_nans(dst, 256);
    }
}

/* Scale number i of the 16 that Q3_K packs into 12 bytes with 6 bits each, minus 32. */
static int q3_scale(const unsigned char *packed, size_t i) {
    int low = packed[i % 8] >> i / 8 * 4 & 15, high = packed[8 + i % 4] >> i / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

/* The third bit of each element is in the first 32 bytes; if it is 0, the element is 4 less. */
void tmi_unpack_q3_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 110, dst += 256) {
        float d = tmi_half(src + 108);
        for (size_t part = 0; part < 16; part++) {
            const unsigned char *q = src + 32 + part / 8 * 32 + part % 2 * 16;
            const unsigned char *high = src + part % 2 * 16;
            float scale = d * (float)q3_scale(src + 96, part);
            for (size_t i = 0; i < 16; i++) {
                int code = (q[i] >> part / 2 % 4 * 2 & 3) - (high[i] >> part / 2 & 1 ? 0 : 4);
                dst[16 * part + i] = scale * (float)code;
            }
        }
        if (tmi_half_is_nonfinite(src + 108))
            tmi_canonicalize_nans(dst, 256);
    }
}

/* Eight parts of 32; two parts share 32 bytes, one in the low halves and one in the high halves. */
void tmi_unpack_q4_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 144, dst += 256) {
        float d = tmi_half(src), min = tmi_half(src + 2);
        for (size_t part = 0; part < 8; part++) {
            const unsigned char *q = src + 16 + part / 2 * 32;
            unsigned sc, m;
            tmi_scale_and_min(src + 4, part, &sc, &m);
            float scale = d * (float)sc, offset = min * (float)m;
            for (size_t i = 0; i < 32; i++)
                dst[32 * part + i] = scale * (float)(q[i] >> part % 2 * 4 & 15) - offset;
        }
        if (tmi_half_is_nonfinite(src) || tmi_half_is_nonfinite(src + 2))
            tmi_canonicalize_nans(dst, 256);
    }
}

/* As Q4_K, with a fifth bit: that of part p is bit p of the 32 bytes before the others. */
void tmi_unpack_q5_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 176, dst += 256) {
        float d = tmi_half(src), min = tmi_half(src + 2);
        for (size_t part = 0; part < 8; part++) {
            const unsigned char *high = src + 16, *q = src + 48 + part / 2 * 32;
            unsigned sc, m;
            tmi_scale_and_min(src + 4, part, &sc, &m);
            float scale = d * (float)sc, offset = min * (float)m;
            for (size_t i = 0; i < 32; i++) {
                unsigned code = (q[i] >> part % 2 * 4 & 15u) | (high[i] >> part & 1u) << 4;
                dst[32 * part + i] = scale * (float)code - offset;
            }
        }
        if (tmi_half_is_nonfinite(src) || tmi_half_is_nonfinite(src + 2))
            tmi_canonicalize_nans(dst, 256);
    }
}

/* Two halves of 128. Each has four rows of 32, with 64 bytes of low bits and 32 of high bits. */
void tmi_unpack_q6_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 210, dst += 256) {
        float d = tmi_half(src + 208);
        for (size_t row = 0; row < 8; row++) {
            const unsigned char *low = src + row / 4 * 64 + row % 2 * 32;
            const unsigned char *high = src + 128 + row / 4 * 32;
            for (size_t i = 0; i < 32; i++) {
                float scale = d * (float)(int8_t)src[192 + row * 2 + i / 16];
                int code = (low[i] >> row % 4 / 2 * 4 & 15) | (high[i] >> row % 4 * 2 & 3) << 4;
                dst[32 * row + i] = scale * (float)(code - 32);
            }
        }
        if (tmi_half_is_nonfinite(src + 208))
            tmi_canonicalize_nans(dst, 256);
    }
}

/*
 * The scale is an F32, which may be subnormal: one element at a time, so that no flush-to-zero mode
 * of the caller matters.
 */
void tmi_unpack_q8_k(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 292, dst += 256) {
        uint64_t wide = tmi_scalar_one(TENMAP_F64, TENMAP_F32, tmi_block_u32(src), 0);
        double d;
        memcpy(&d, &wide, sizeof d);
        for (size_t i = 0; i < 256; i++) {
            double exact = d * (double)(int8_t)src[4 + i]; /* 32 bits */
            memcpy(&wide, &exact, sizeof wide);
            dst[i] = tmi_float_of((uint32_t)tmi_scalar_one(TENMAP_F32, TENMAP_F64, wide, 0));
        }
        if ((tmi_block_u32(src) & 0x7f800000) == 0x7f800000)
            tmi_canonicalize_nans(dst, 256);
    }
}

/* Eight parts of 32 with 6-bit scales, of which four bits and two bits are stored separately. */
void tmi_unpack_iq4_xs(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 136, dst += 256) {
        float d = tmi_half(src);
        unsigned high = tmi_block_u16(src + 2);
        for (size_t part = 0; part < 8; part++) {
            const unsigned char *q = src + 8 + part * 16;
            unsigned bits = (src[4 + part / 2] >> part % 2 * 4 & 15u) | (high >> part * 2 & 3u)
                                                                            << 4;
            float scale = d * (float)((int)bits - 32);
            for (size_t i = 0; i < 16; i++) {
                dst[32 * part + (unsigned)i] = scale * (float)tmi_levels_iq4[q[i] & 15];
                dst[32 * part + 16 + (unsigned)i] = scale * (float)tmi_levels_iq4[q[i] >> 4];
            }
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(dst, 256);
    }
}
