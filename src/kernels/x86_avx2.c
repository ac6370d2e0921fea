/* The table of AVX2 kernels, and the copy with non-temporal stores. */
#include "blocks.h"
#include "x86_avx2.h"
#include "xxh3_blocks.h"

#if TMI_AVX2

AVX2_TARGET static void stream_copy_avx2(void *dst, const void *src, size_t count, uint32_t flags) {
    (void)flags;
    unsigned char *d = dst;
    const unsigned char *s = src;
    size_t head = (size_t) - (uintptr_t)d & 63;
    head = head < count ? head : count;
    memcpy(d, s, head);
    d += head;
    s += head;
    count -= head;
    for (; count >= 128; count -= 128, d += 128, s += 128) {
        _mm_prefetch((const char *)s + AVX2_PREFETCH, _MM_HINT_T0);
        _mm_prefetch((const char *)s + AVX2_PREFETCH + 64, _MM_HINT_T0);
        __m256i a = avx2_load(s, 0), b = avx2_load(s, 1), c = avx2_load(s, 2), e = avx2_load(s, 3);
        avx2_store(d, 0, a, true);
        avx2_store(d, 1, b, true);
        avx2_store(d, 2, c, true);
        avx2_store(d, 3, e, true);
    }
    _mm_sfence();
    memcpy(d, s, count);
}

static void fence_avx2(void) {
    _mm_sfence();
}

const tmi_kernels tmi_kernels_avx2 = {
    .name = "avx2",
    .pair =
        {
            [TENMAP_F32] =
                {
                    [TENMAP_BF16] = tmi_avx2_bf16_to_f32,
                    [TENMAP_F16] = tmi_avx2_f16_to_f32,
                    [TENMAP_F8_E4M3] = tmi_avx2_e4m3_to_f32,
                    [TENMAP_F8_E5M2] = tmi_avx2_e5m2_to_f32,
                    [TENMAP_F8_E4M3FNUZ] = tmi_avx2_e4m3fnuz_to_f32,
                    [TENMAP_F8_E5M2FNUZ] = tmi_avx2_e5m2fnuz_to_f32,
                    [TENMAP_I8] = tmi_avx2_i8_to_f32,
                    [TENMAP_U8] = tmi_avx2_u8_to_f32,
                    [TENMAP_I16] = tmi_avx2_i16_to_f32,
                    [TENMAP_U16] = tmi_avx2_u16_to_f32,
                    [TENMAP_I32] = tmi_avx2_i32_to_f32,
                    [TENMAP_F64] = tmi_avx2_f64_to_f32,
                },
            [TENMAP_F64][TENMAP_F32] = tmi_avx2_f32_to_f64,
            [TENMAP_BF16] =
                {
                    [TENMAP_F32] = tmi_avx2_f32_to_bf16,
                    [TENMAP_F16] = tmi_avx2_f16_to_bf16,
                    [TENMAP_F8_E4M3] = tmi_avx2_e4m3_to_bf16,
                    [TENMAP_F8_E5M2] = tmi_avx2_e5m2_to_bf16,
                    [TENMAP_F8_E4M3FNUZ] = tmi_avx2_e4m3fnuz_to_bf16,
                    [TENMAP_F8_E5M2FNUZ] = tmi_avx2_e5m2fnuz_to_bf16,
                    [TENMAP_F64] = tmi_avx2_f64_to_bf16,
                },
            [TENMAP_F16] =
                {
                    [TENMAP_F32] = tmi_avx2_f32_to_f16,
                    [TENMAP_BF16] = tmi_avx2_bf16_to_f16,
                    [TENMAP_F8_E4M3] = tmi_avx2_e4m3_to_f16,
                    [TENMAP_F8_E5M2] = tmi_avx2_e5m2_to_f16,
                    [TENMAP_F8_E4M3FNUZ] = tmi_avx2_e4m3fnuz_to_f16,
                    [TENMAP_F8_E5M2FNUZ] = tmi_avx2_e5m2fnuz_to_f16,
                    [TENMAP_F64] = tmi_avx2_f64_to_f16,
                },
            [TENMAP_F8_E5M2] =
                {
                    [TENMAP_F32] = tmi_avx2_f32_to_e5m2,
                    [TENMAP_BF16] = tmi_avx2_bf16_to_e5m2,
                    [TENMAP_F16] = tmi_avx2_f16_to_e5m2,
                },
            [TENMAP_F8_E4M3] =
                {
                    [TENMAP_F32] = tmi_avx2_f32_to_e4m3,
                    [TENMAP_BF16] = tmi_avx2_bf16_to_e4m3,
                    [TENMAP_F16] = tmi_avx2_f16_to_e4m3,
                },
            [TENMAP_F8_E5M2FNUZ] =
                {
                    [TENMAP_F32] = tmi_avx2_f32_to_e5m2fnuz,
                    [TENMAP_BF16] = tmi_avx2_bf16_to_e5m2fnuz,
                    [TENMAP_F16] = tmi_avx2_f16_to_e5m2fnuz,
                },
            [TENMAP_F8_E4M3FNUZ] =
                {
                    [TENMAP_F32] = tmi_avx2_f32_to_e4m3fnuz,
                    [TENMAP_BF16] = tmi_avx2_bf16_to_e4m3fnuz,
                    [TENMAP_F16] = tmi_avx2_f16_to_e4m3fnuz,
                },
            [TENMAP_F6_E2M3][TENMAP_F32] = tmi_avx2_f32_to_e2m3,
            [TENMAP_F6_E3M2][TENMAP_F32] = tmi_avx2_f32_to_e3m2,
            [TENMAP_F4][TENMAP_F32] = tmi_avx2_f32_to_f4,
        },
    .odd[TENMAP_F64] = tmi_avx2_f64_to_odd,
    .packed_f4 =
        {
            [TENMAP_F32] = tmi_avx2_f4_to_f32,
            [TENMAP_BF16] = tmi_avx2_f4_to_bf16,
            [TENMAP_F16] = tmi_avx2_f4_to_f16,
        },
    .stream_copy = stream_copy_avx2,
    .fence = fence_avx2,
#ifndef TENMAP_NO_MEASURE
    .moments =
        {
            [TENMAP_BF16] = tmi_avx2_moments_bf16,
            [TENMAP_F16] = tmi_avx2_moments_f16,
            [TENMAP_F32] = tmi_avx2_moments_f32,
        },
    .places = tmi_avx2_f32_find_bins,
#endif
    .unpack =
        {
            [TENMAP_Q4_0 - TENMAP_Q4_0] = tmi_avx2_unpack_q4_0,
            [TENMAP_Q8_0 - TENMAP_Q4_0] = tmi_avx2_unpack_q8_0,
            [TENMAP_Q4_K - TENMAP_Q4_0] = tmi_avx2_unpack_q4_k,
            [TENMAP_Q5_K - TENMAP_Q4_0] = tmi_avx2_unpack_q5_k,
            [TENMAP_Q6_K - TENMAP_Q4_0] = tmi_avx2_unpack_q6_k,
            [TENMAP_IQ4_NL - TENMAP_Q4_0] = tmi_avx2_unpack_iq4_nl,
            [TENMAP_MXFP4 - TENMAP_Q4_0] = tmi_avx2_unpack_mxfp4,
        },
    .unpack_nt =
        {
            [TENMAP_Q4_0 - TENMAP_Q4_0] = tmi_avx2_nt_q4_0,
            [TENMAP_Q8_0 - TENMAP_Q4_0] = tmi_avx2_nt_q8_0,
            [TENMAP_Q4_K - TENMAP_Q4_0] = tmi_avx2_nt_q4_k,
            [TENMAP_Q5_K - TENMAP_Q4_0] = tmi_avx2_nt_q5_k,
            [TENMAP_Q6_K - TENMAP_Q4_0] = tmi_avx2_nt_q6_k,
            [TENMAP_IQ4_NL - TENMAP_Q4_0] = tmi_avx2_nt_iq4_nl,
            [TENMAP_MXFP4 - TENMAP_Q4_0] = tmi_avx2_nt_mxfp4,
        },
    .xxh3_blocks = tmi_avx2_xxh3_blocks,
    .times = tmi_avx2_group_times,
    .minus = tmi_avx2_group_minus,
    .plus = tmi_avx2_group_plus,
    .nibbles = tmi_avx2_nibbles,
    .fused4 = tmi_avx2_fused4,
    .fused_e4m3 = tmi_avx2_fused_e4m3,
    .fused_i8 = tmi_avx2_fused_i8,
    .split_columns = tmi_avx2_split_columns,
    .scale_by_powers = tmi_avx2_scale_by_powers,
    .transpose16 = tmi_avx2_transpose16,
    .transpose32 = tmi_avx2_transpose32,
    .add_scaled = tmi_avx2_add_scaled,
    .product = tmi_avx2_product,
};

#endif
