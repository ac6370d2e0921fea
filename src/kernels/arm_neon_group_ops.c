/*
 * NEON versions of group_ops.c, and of unpacking 4-bit codes. Each does one operation, so that
 * compilers have nothing to fuse.
 */
#include "kernels.h"

#if TMI_NEON

#include <arm_neon.h>

#define NEON_GROUP_OP(name, vector, plain)                                                         \
    void name(float *values, size_t count, const float *by, size_t first, size_t group) {          \
        for (size_t end = first; count > 0; by++, end = group) {                                   \
            size_t n = end < count ? end : count, i = 0;                                           \
            float32x4_t shared = vdupq_n_f32(*by);                                                 \
            for (; i + 4 <= n; i += 4)                                                             \
                vst1q_f32(values + i, vector(vld1q_f32(values + i), shared));                      \
            if (i < n)                                                                             \
                plain(values + i, n - i, by, n - i, n - i);                                        \
            values += n;                                                                           \
            count -= n;                                                                            \
        }                                                                                          \
    }

NEON_GROUP_OP(tmi_neon_group_times, vmulq_f32, tmi_group_times)
NEON_GROUP_OP(tmi_neon_group_minus, vsubq_f32, tmi_group_minus)
NEON_GROUP_OP(tmi_neon_group_plus, vaddq_f32, tmi_group_plus)

/* 8 bytes hold 16 codes, the low half of a byte first. */
void tmi_neon_nibbles(float *values, const unsigned char *bytes, size_t count, int32_t bias) {
    const int32x4_t by = vdupq_n_s32(bias);
    size_t i = 0;
    for (; i + 16 <= count; i += 16, bytes += 8) {
        uint8x8_t both = vld1_u8(bytes);
        uint8x8x2_t codes = vzip_u8(vand_u8(both, vdup_n_u8(15)), vshr_n_u8(both, 4));
        for (size_t k = 0; k < 2; k++) {
            uint16x8_t wide = vmovl_u8(codes.val[k]);
            int32x4_t x = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide)));
            int32x4_t y = vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(wide)));
            vst1q_f32(values + i + 8 * k, vcvtq_f32_s32(vsubq_s32(x, by)));
            vst1q_f32(values + i + 8 * k + 4, vcvtq_f32_s32(vsubq_s32(y, by)));
        }
    }
    if (i < count)
        tmi_scalar_nibbles(values + i, bytes, count - i, bias);
}

#endif
