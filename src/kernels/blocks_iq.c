/* Unpacks block dtypes whose elements are points of a grid (IQ1, IQ2, IQ3), in plain C. */
#include "blocks.h"

static const float levels_iq2[4] = {8, 25, 43, 0}, levels_iq1[4] = {-1, 0, 1, 0};
static const float levels_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const float levels_iq3_s[8] = {1, 3, 5, 7, 9, 11, 13, 15};

/* Only seven of eight signs are stored: the eighth makes the number of minus signs even. */
static unsigned eight_signs(unsigned seven) {
    unsigned parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    return seven | ((parity ^ parity >> 1) & 1) << 7;
}

/* Writes eight elements: a point of eight levels, times a scale, with signs. */
static void put_point(float *dst, unsigned point, unsigned signs, float scale) {
    for (int i = 0; i < 8; i++) {
        float value = scale * levels_iq2[point >> 2 * i & 3];
        dst[i] = signs >> i & 1 ? -value : value;
    }
}

/* Writes eight elements of IQ3: two points of four levels. */
static void put_points(float *dst, unsigned first, unsigned second, const float *levels,
                       unsigned signs, float scale) {
    for (int i = 0; i < 8; i++) {
        unsigned point = i < 4 ? first : second;
        float value = scale * levels[point >> 3 * (i % 4) & 7];
        dst[i] = signs >> i & 1 ? -value : value;
    }
}

/* Eight parts of 32: four points, then four times seven signs, and a 4-bit scale. */
void tmi_unpack_iq2_xxs(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 66) {
        float d = tmi_half(src), *begin = dst;
        for (size_t part = 0; part < 8; part++) {
            const unsigned char *q = src + 2 + 8 * part;
            uint32_t rest = tmi_block_u32(q + 4);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
            for (int i = 0; i < 4; i++, dst += 8)
                put_point(dst, tmi_grid_iq2_xxs[q[i]], eight_signs(rest >> 7 * i & 127), scale);
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(begin, 256);
    }
}

/* 32 words, each a 9-bit point and seven signs; then a 4-bit scale for every two words. */
void tmi_unpack_iq2_xs(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 74) {
        float d = tmi_half(src), *begin = dst;
        for (size_t i = 0; i < 32; i++, dst += 8) {
            unsigned word = tmi_block_u16(src + 2 + 2 * i);
            unsigned bits = src[66 + i / 4] >> i / 2 % 2 * 4 & 15u;
            float scale = d * (0.5f + (float)bits) * 0.25f;
            put_point(dst, tmi_grid_iq2_xs[word & 511], eight_signs(word >> 9), scale);
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(begin, 256);
    }
}

/* 32 points of 10 bits, two of which are stored separately; 32 bytes of signs; scales as above. */
void tmi_unpack_iq2_s(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 82) {
        float d = tmi_half(src), *begin = dst;
        for (size_t i = 0; i < 32; i++, dst += 8) {
            unsigned point = src[2 + i] | (src[66 + i / 4] >> i % 4 * 2 & 3u) << 8;
            unsigned bits = src[74 + i / 4] >> i / 2 % 2 * 4 & 15u;
            float scale = d * (0.5f + (float)bits) * 0.25f;
            put_point(dst, tmi_grid_iq2_s[point], src[34 + i], scale);
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(begin, 256);
    }
}

/* 64 points of four levels; then for every 32 elements four times seven signs and a 4-bit scale. */
void tmi_unpack_iq3_xxs(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 98) {
        float d = tmi_half(src), *begin = dst;
        for (size_t i = 0; i < 32; i++, dst += 8) {
            uint32_t rest = tmi_block_u32(src + 66 + i / 4 * 4);
            const unsigned char *q = src + 2 + 2 * i;
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
            put_points(dst, tmi_grid_iq3_xxs[q[0]], tmi_grid_iq3_xxs[q[1]], levels_iq3_xxs,
                       eight_signs(rest >> i % 4 * 7 & 127), scale);
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(begin, 256);
    }
}

/* 64 points of 9 bits, the ninth stored separately; 32 bytes of signs; a scale per 32 elements. */
void tmi_unpack_iq3_s(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 110) {
        float d = tmi_half(src), *begin = dst;
        for (size_t i = 0; i < 32; i++, dst += 8) {
            const unsigned char *q = src + 2 + 2 * i;
            unsigned high = src[66 + i / 4] >> i % 4 * 2;
            unsigned bits = src[106 + i / 8] >> i / 4 % 2 * 4 & 15u;
            float scale = d * (float)(1 + 2 * bits);
            put_points(dst, tmi_grid_iq3_s[q[0] | (high & 1) << 8],
                       tmi_grid_iq3_s[q[1] | (high >> 1 & 1) << 8], levels_iq3_s, src[74 + i],
                       scale);
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(begin, 256);
    }
}

/* Writes eight elements of IQ1: all levels are shifted by an eighth, up or down. */
static void put_shifted(float *dst, unsigned point, bool down, float scale) {
    for (int i = 0; i < 8; i++)
        dst[i] = scale * (levels_iq1[point >> 2 * i & 3] + (down ? -0.125f : 0.125f));
}

/* 32 points of 11 bits; one word for every four holds their high bits, a scale and the shift. */
void tmi_unpack_iq1_s(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 50) {
        float d = tmi_half(src), *begin = dst;
        for (size_t i = 0; i < 32; i++, dst += 8) {
            unsigned word = tmi_block_u16(src + 34 + i / 4 * 2);
            unsigned point = src[2 + i] | (word >> i % 4 * 3 & 7) << 8;
            float scale = d * (float)(2 * (word >> 12 & 7) + 1);
            put_shifted(dst, tmi_grid_iq1[point], word >> 15, scale);
        }
        if (tmi_half_is_nonfinite(src))
            tmi_canonicalize_nans(begin, 256);
    }
}

/* The block's scale is in the high 4 bits of four words; the other bits are 16 scales of 3 bits. */
void tmi_unpack_iq1_m(float *dst, const unsigned char *src, size_t blocks) {
    for (; blocks > 0; blocks--, src += 56) {
        unsigned char half[2];
        half[0] = (unsigned char)(src[49] >> 4 | (src[51] & 0xf0));
        half[1] = (unsigned char)(src[53] >> 4 | (src[55] & 0xf0));
        float d = tmi_half(half), *begin = dst;
        for (size_t i = 0; i < 32; i++, dst += 8) {
            unsigned high = src[32 + i / 2] >> i % 2 * 4 & 15u;
            unsigned bits = tmi_block_u16(src + 48 + i / 8 * 2) >> i / 2 % 4 * 3 & 7u;
            float scale = d * (float)(2 * bits + 1);
            put_shifted(dst, tmi_grid_iq1[src[i] | (high & 7) << 8], high >> 3, scale);
        }
        if (tmi_half_is_nonfinite(half))
            tmi_canonicalize_nans(begin, 256);
    }
}
