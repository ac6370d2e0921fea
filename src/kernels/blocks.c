/*
 * Unpacks block dtypes with one scale, in plain C.
 *
 * The formulas are those of ggml's dequantization in F32, operation by operation. Wherever
 * something is added to a product, the product is exact: a scale has 11 bits, and what it is
 * multiplied by has at most 13. So the result is the same whether or not a compiler fuses the two
 * operations or computes with more bits than F32 has.
 */
#include "blocks.h"

const int8_t tmi_levels_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
const int8_t tmi_levels_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void tmi_canonicalize_nans(float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7fffffff) > 0x7f800000) {
            bits = 0x7fc00000;
            memcpy(&values[i], &bits, sizeof bits);
        }
    }
}

void tmi_unpack_q4_0(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 18, dst += 32) {
        float d = tmi_half(src);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)((src[2 + i] & 15) - 8) * d;
            dst[i + 16] = (float)((src[2 + i] >> 4) - 8) * d;
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(dst, 32);
    }
}

void tmi_unpack_q4_1(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 20, dst += 32) {
        float d = tmi_half(src), m = tmi_half(src + 2);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)(src[4 + i] & 15) * d + m;
            dst[i + 16] = (float)(src[4 + i] >> 4) * d + m;
        }
        if (tmi_half_is_nonfinite(src) || tmi_half_is_nonfinite(src + 2))
            tmi_canonicalize_nans(dst, 32);
    }
}

/* The fifth bits are in a separate word: bit i belongs to element i. */
void tmi_unpack_q5_0(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 22, dst += 32) {
        float d = tmi_half(src);
        uint32_t high = tmi_block_u32(src + 2);
        for (int i = 0; i < 16; i++) {
            int low = (src[6 + i] & 15) | (int)(high >> i & 1) << 4;
            int top = src[6 + i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
            dst[i] = (float)(low - 16) * d;
            dst[i + 16] = (float)(top - 16) * d;
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(dst, 32);
    }
}

void tmi_unpack_q5_1(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 24, dst += 32) {
        float d = tmi_half(src), m = tmi_half(src + 2);
        uint32_t high = tmi_block_u32(src + 4);
        for (int i = 0; i < 16; i++) {
            int low = (src[8 + i] & 15) | (int)(high >> i & 1) << 4;
            int top = src[8 + i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
            dst[i] = (float)low * d + m;
            dst[i + 16] = (float)top * d + m;
        }
        if (tmi_half_is_nonfinite(src) || tmi_half_is_nonfinite(src + 2))
            tmi_canonicalize_nans(dst, 32);
    }
}

/* 32 signed bytes, `head` bytes into the block, times the scale that the block begins with. */
static void unpack_bytes(float *dst, const unsigned char *src, size_t blocks, size_t head) {
    for (; blocks > 0; blocks--, src += head + 32, dst += 32) {
        float d = tmi_half(src);
        for (size_t i = 0; i < 32; i++)
            dst[i] = (float)(int8_t)src[head + i] * d;
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(dst, 32);
    }
}

void tmi_unpack_q8_0(float *dst, const unsigned char *src, size_t blocks) {
    unpack_bytes(dst, src, blocks, 2);
}

/* The scaled sum of the block follows the scale; it is not needed here. */
void tmi_unpack_q8_1(float *dst, const unsigned char *src, size_t blocks) {
    unpack_bytes(dst, src, blocks, 4);
}

void tmi_unpack_iq4_nl(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 18, dst += 32) {
        float d = tmi_half(src);
        for (int i = 0; i < 16; i++) {
            dst[i] = d * (float)tmi_levels_iq4[src[2 + i] & 15];
            dst[i + 16] = d * (float)tmi_levels_iq4[src[2 + i] >> 4];
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(dst, 32);
    }
}

/*
 * Level k is (1 or 1.5) * 2^a, so the exponent field of the result is a + exponent - 1: 0 and below
 * are subnormal, 255 and above overflow. Integers only, so that no flush-to-zero mode of the caller
 * matters.
 */
void tmi_mxfp4_levels(float out[16], unsigned exponent) {
    static const int8_t powers[8] = {0, 0, 1, 1, 2, 2, 3, 3};
    for (unsigned k = 0; k < 16; k++) {
        int field = powers[k & 7] + (int)exponent - 1;
        bool half = (k & 7) >= 3 && (k & 1);
        uint32_t whole = 0x800000u | (half ? 0x400000u : 0), bits;
        if (field >= 255)
            bits = 0x7f800000;
        else if (field >= 1)
            bits = (uint32_t)field << 23 | (whole & 0x7fffff);
        else
            bits = whole >> (1 - field);
        if ((k & 7) == 0)
            bits = 0;
        else if (k & 8)
            bits |= 0x80000000;
        out[k] = tmi_float_of(bits);
    }
}

void tmi_unpack_mxfp4(float *dst, const unsigned char *src, size_t blocks) {
    float levels[16];
    for (; blocks > 0; blocks--, src += 17, dst += 32) {
        tmi_mxfp4_levels(levels, src[0]);
        for (int i = 0; i < 16; i++) {
            dst[i] = levels[src[1 + i] & 15];
            dst[i + 16] = levels[src[1 + i] >> 4];
        }
    }
}

float tmi_nvfp4_scale(unsigned code) {
    unsigned exponent = code >> 3 & 15, fraction = code & 7;
    if (code == 0 || code == 0x7f)
        return 0.0f;
    if (exponent == 0)
        return (float)fraction * 0x1p-10f;
    return tmi_float_of((exponent + 127 - 7 - 1) << 23 | fraction << 20);
}

/* Four groups of 16, each with a scale; the low halves of its bytes are a group's first eight. */
void tmi_unpack_nvfp4(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 36, dst += 64)
        for (size_t group = 0; group < 4; group++) {
            float d = tmi_nvfp4_scale(src[group]);
            const unsigned char *codes = src + 4 + 8 * group;
            for (size_t i = 0; i < 8; i++) {
                dst[16 * group + i] = d * (float)tmi_levels_e2m1[codes[i] & 15];
                dst[16 * group + 8 + i] = d * (float)tmi_levels_e2m1[codes[i] >> 4];
            }
        }
}

void tmi_unpack_q1_0(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 18, dst += 128) {
        float d = tmi_half(src);
        for (int i = 0; i < 128; i++)
            dst[i] = src[2 + i / 8] >> i % 8 & 1 ? d : -d;
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(dst, 128);
    }
}

/*
 * Unpacks base-3 digits, one digit of all `count` bytes at a time: every byte is a base-3 fraction
 * of five (or four) digits.
 */
static float *unpack_trits(float *dst, const unsigned char *bytes, int count, int digits, float d) {
    unsigned power = 1;
    for (int digit = 0; digit < digits; digit++, power *= 3)
        for (int i = 0; i < count; i++) {
            unsigned shifted = bytes[i] * power & 0xff;
            *dst++ = (float)((int)(shifted * 3 >> 8) - 1) * d;
        }
    return dst;
}

void tmi_unpack_tq1_0(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 54) {
        float d = tmi_half(src + 52), *begin = dst;
        dst = unpack_trits(dst, src, 32, 5, d);
        dst = unpack_trits(dst, src + 32, 16, 5, d);
        dst = unpack_trits(dst, src + 48, 4, 4, d);
        if (tmi_half_is_nonfinite(src + 52))
            tmi_canonicalize_nans(begin, 256);
    }
}

void tmi_unpack_tq2_0(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 66, dst += 256) {
        float d = tmi_half(src + 64);
        for (int i = 0; i < 256; i++) {
            int code = src[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
            dst[i] = (float)(code - 1) * d;
        }
        if (tmi_half_is_nonfinite(src + 64))
            tmi_canonicalize_nans(dst, 256);
    }
}
