/* Kernels that unpack block dtypes, and helpers that they share. */
#ifndef TENMAP_BLOCKS_H
#define TENMAP_BLOCKS_H

#include "kernels.h"

#include <string.h>

/* The levels of 4-bit codes. */
extern const int8_t tmi_levels_iq4[16];
extern const int8_t tmi_levels_e2m1[16]; /* twice the value, 0 for both zeros */

static inline uint16_t tmi_block_u16(const unsigned char *b) {
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t tmi_block_u32(const unsigned char *b) {
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline float tmi_float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Whether the F16 at these bytes is infinite or NaN: only then can an element of its block be. */
static inline bool tmi_half_is_nonfinite(const unsigned char *b) {
    return (b[1] & 0x7c) == 0x7c;
}

/* Converts an F16 to F32 exactly, with integers and one multiplication of normal numbers. */
static inline float tmi_half(const unsigned char *b) {
    uint32_t bits = tmi_block_u16(b), sign = (bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00)
        return tmi_float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400)
        return tmi_float_of(sign | ((rest << 13) + (112u << 23)));
    float value = (float)rest * 0x1p-24f; /* 0 and the subnormals */
    return sign ? -value : value;
}

/* Replaces every NaN of a block by 0x7fc00000, so that all hosts give the same bits. */
void tmi_canonicalize_nans(float *values, size_t count);

/* The i-th 6-bit scale and 6-bit minimum of the eight that Q4_K and Q5_K pack into 12 bytes. */
static inline void tmi_scale_and_min(const unsigned char *packed, size_t i, unsigned *scale,
                                     unsigned *min) {
    if (i < 4) {
        *scale = packed[i] & 63u;
        *min = packed[i + 4] & 63u;
    } else {
        *scale = (packed[i + 4] & 15u) | (unsigned)packed[i - 4] >> 6 << 4;
        *min = (unsigned)packed[i + 4] >> 4 | (unsigned)packed[i] >> 6 << 4;
    }
}

/* The F32 of each E2M1 level times 2^(exponent - 128), as in MXFP4; integer operations only. */
void tmi_mxfp4_levels(float out[16], unsigned exponent);
/* Half the value of an unsigned E4M3 number, NVFP4's scale format; codes 0 and 0x7f give 0. */
float tmi_nvfp4_scale(unsigned code);

/* blocks.c */
tmi_unpack tmi_unpack_q4_0, tmi_unpack_q4_1, tmi_unpack_q5_0, tmi_unpack_q5_1, tmi_unpack_q8_0;
tmi_unpack tmi_unpack_q8_1, tmi_unpack_iq4_nl, tmi_unpack_mxfp4, tmi_unpack_nvfp4, tmi_unpack_q1_0;
tmi_unpack tmi_unpack_tq1_0, tmi_unpack_tq2_0;
/* blocks_k.c */
tmi_unpack tmi_unpack_q2_k, tmi_unpack_q3_k, tmi_unpack_q4_k, tmi_unpack_q5_k, tmi_unpack_q6_k;
tmi_unpack tmi_unpack_q8_k, tmi_unpack_iq4_xs;
/* blocks_iq.c */
tmi_unpack tmi_unpack_iq2_xxs, tmi_unpack_iq2_xs, tmi_unpack_iq2_s, tmi_unpack_iq3_xxs;
tmi_unpack tmi_unpack_iq3_s, tmi_unpack_iq1_s, tmi_unpack_iq1_m;

/* quantize_blocks.c */

/* Writes one block for finite values whose scales an F16 can hold. */
typedef void tmi_quantize_block(unsigned char *dst, const float *values);
typedef struct tmi_quantizer {
    tenmap_dtype dtype;
    tmi_quantize_block *block;
    /*
     * The scale is the largest magnitude divided by this, or the range of the values if `range`;
     * then the minimum is an F16 too. 0: any scale can be stored.
     */
    unsigned divisor;
    bool range;
} tmi_quantizer;
/* NULL: nothing quantizes to the dtype. */
const tmi_quantizer *tmi_quantizer_of(tenmap_dtype dtype);

/* block_grids.c: grid points of IQ types: eight 2-bit or four 3-bit levels, the first lowest. */
extern const uint16_t tmi_grid_iq2_xxs[256], tmi_grid_iq2_xs[512], tmi_grid_iq2_s[1024];
extern const uint16_t tmi_grid_iq3_xxs[256], tmi_grid_iq3_s[512], tmi_grid_iq1[2048];

#if TMI_AVX2 /* x86_avx2_blocks.c */
tmi_unpack tmi_avx2_unpack_q4_0, tmi_avx2_unpack_q8_0, tmi_avx2_unpack_q4_k, tmi_avx2_unpack_q5_k;
tmi_unpack tmi_avx2_unpack_q6_k, tmi_avx2_unpack_iq4_nl, tmi_avx2_unpack_mxfp4;
tmi_unpack tmi_avx2_nt_q4_0, tmi_avx2_nt_q8_0, tmi_avx2_nt_q4_k, tmi_avx2_nt_q5_k;
tmi_unpack tmi_avx2_nt_q6_k, tmi_avx2_nt_iq4_nl, tmi_avx2_nt_mxfp4;
#endif
#if TMI_NEON /* arm_neon_blocks.c */
tmi_unpack tmi_neon_unpack_q4_0, tmi_neon_unpack_q8_0, tmi_neon_unpack_q4_k, tmi_neon_unpack_q5_k;
tmi_unpack tmi_neon_unpack_q6_k, tmi_neon_unpack_iq4_nl, tmi_neon_unpack_mxfp4;
#endif

#endif
