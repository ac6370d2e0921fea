/*
 * NEON kernels that dequantize weights with 4-bit codes in one pass. Plain C computes the values of
 * the 16 codes of a group, one operation at a time, and rounds them. For each byte of a result
 * there is a plane, the table of that byte of all 16 values; codes are looked up in every plane.
 */
#include "kernels.h"

#if TMI_NEON

#include <arm_neon.h>
#include <string.h>

/* Sixteen codes, one in each byte, to results of 2 or 4 bytes. */
static inline void neon_put_codes(unsigned char *d, uint8x16_t codes, const uint8x16x4_t *planes,
                                  size_t width) {
    uint8x16x4_t four;
    uint8x16x2_t two;
    if (width == 2) {
        for (int i = 0; i < 2; i++)
            two.val[i] = vqtbl1q_u8(planes->val[i], codes);
        vst2q_u8(d, two);
        return;
    }
    for (int i = 0; i < 4; i++)
        four.val[i] = vqtbl1q_u8(planes->val[i], codes);
    vst4q_u8(d, four);
}

/* Splits 8 bytes into 16 codes, one per byte. */
static inline uint8x16_t neon_split_halves(const unsigned char *s, bool high_first) {
    uint8x8_t both = vld1_u8(s), low = vand_u8(both, vdup_n_u8(15)), high = vshr_n_u8(both, 4);
    uint8x8x2_t codes = high_first ? vzip_u8(high, low) : vzip_u8(low, high);
    return vcombine_u8(codes.val[0], codes.val[1]);
}

/* Converts sixteen F32 to BF16; false, with an undefined result, if one of them is a NaN. */
static inline bool neon_table_to_bf16(unsigned char *to, const float *values) {
    uint32x4_t nans = vdupq_n_u32(0);
    for (size_t i = 0; i < 16; i += 4) {
        uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(values + i));
        uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
        uint32x4_t sum = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
        uint32x4_t magnitude = vandq_u32(bits, vdupq_n_u32(0x7fffffff));
        nans = vorrq_u32(nans, vcgtq_u32(magnitude, vdupq_n_u32(0x7f800000)));
        vst1_u8(to + i * 2, vreinterpret_u8_u16(vshrn_n_u32(sum, 16)));
    }
    return vmaxvq_u32(nans) == 0;
}

/* The table of group g, rounded, in planes of bytes. */
static uint8x16x4_t neon_group_planes(const tmi_fused_run *run, size_t g, tenmap_dtype as,
                                      uint32_t flags) {
    float values[16];
    unsigned char narrow[32];
    memcpy(values, run->table, sizeof values);
    if (run->zeros && !run->added)
        tmi_group_minus(values, 16, &run->zeros[g], 16, 16);
    tmi_group_times(values, 16, &run->scales[g], 16, 16);
    if (run->zeros && run->added)
        tmi_group_plus(values, 16, &run->zeros[g], 16, 16);
    if (as == TENMAP_F32)
        return vld4q_u8((const unsigned char *)values);
    if (as != TENMAP_BF16 || flags || !neon_table_to_bf16(narrow, values))
        tmi_kernels_scalar.pair[as][TENMAP_F32](narrow, values, 16, flags);
    uint8x16x2_t two = vld2q_u8(narrow);
    uint8x16x4_t planes = {{two.val[0], two.val[1], two.val[0], two.val[1]}};
    return planes;
}

bool tmi_neon_fused4(void *dst, tenmap_dtype as, const tmi_fused_run *run, uint32_t flags) {
    bool bytes = run->count <= run->first || (run->first % 2 == 0 && run->group % 2 == 0);
    size_t width = as == TENMAP_F32 ? 4 : 2, left = run->count, end = run->first;
    const unsigned char *s = run->codes;
    unsigned char *d = dst;
    flags &= TENMAP_CONVERT_SATURATE;
    if (!bytes || (flags && as == TENMAP_F32))
        return false;
    for (size_t g = 0; left > 0; g++, end = run->group) {
        size_t n = end < left ? end : left, i = 0;
        uint8x16x4_t planes = neon_group_planes(run, g, as, flags);
        for (; i + 16 <= n; i += 16)
            neon_put_codes(d + i * width, neon_split_halves(s + i / 2, run->high_first), &planes,
                           width);
        if (i < n) {
            unsigned char in[8] = {0}, out[64];
            memcpy(in, s + i / 2, (n - i + 1) / 2);
            neon_put_codes(out, neon_split_halves(in, run->high_first), &planes, width);
            memcpy(d + i * width, out, (n - i) * width);
        }
        d += n * width;
        s += n / 2;
        left -= n;
    }
    return true;
}

#endif
