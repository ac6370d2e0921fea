/* Helpers shared by the AVX2 kernels that dequantize weights in one pass. */
#ifndef TENMAP_X86_AVX2_DEQUANT_FUSED_H
#define TENMAP_X86_AVX2_DEQUANT_FUSED_H

#include "x86_avx2.h"

#if TMI_AVX2

/*
 * Whether non-temporal stores can be used: every destination vector lies within one step of 16
 * values, and all of them are aligned.
 */
AVX2_INLINE bool fused_can_stream(const void *dst, const tmi_fused_run *run, uint32_t flags) {
    bool whole = run->count <= run->first || (run->first % 16 == 0 && run->group % 16 == 0);
    return (flags & TENMAP_CONVERT_STREAM) && (uintptr_t)dst % 32 == 0 && whole;
}

/* The scale and zero point of a group. */
typedef struct fused_scale {
    __m256 scale, zero;
    bool zeros; /* there are zero points */
    bool added; /* they are added to the products, not subtracted from the codes */
} fused_scale;

/*
 * The steps of a group: (code - zero) * scale, or code * scale + zero. The assembly keeps compilers
 * from fusing the operations, even if other instruction sets are enabled or -ffast-math is given.
 */
AVX2_INLINE __m256 fused_apply_scale(__m256 codes, fused_scale by) {
    if (by.zeros && !by.added) {
        codes = _mm256_sub_ps(codes, by.zero);
        __asm__("" : "+x"(codes));
    }
    codes = _mm256_mul_ps(codes, by.scale);
    if (!by.zeros || !by.added)
        return codes;
    __asm__("" : "+x"(codes));
    return _mm256_add_ps(codes, by.zero);
}

/* The low bytes of 16 results of 16 bits, and their high bytes, each in both 128-bit halves. */
typedef struct fused_planes {
    __m256i low, high;
} fused_planes;

/* Rounds F32 that are not NaN to BF16, in the high half of each lane; the low half is undefined. */
AVX2_INLINE __m256i fused_round_bf16(__m256 values, bool saturate) {
    __m256i bits = _mm256_castps_si256(values);
    if (saturate)
        bits = clamp_not_nan(bits, 0x7f7f0000);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}

/* Converts sixteen F32 that are not NaN to BF16 or F16. */
AVX2_INLINE fused_planes fused_split_planes(__m256 a, __m256 b, tenmap_dtype as, bool saturate) {
    fused_planes t;
    if (as == TENMAP_BF16) {
        const __m256i second_third = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(2, 6, 10, 14, 3, 7, 11, 15, 2, 6, 10, 14, 3, 7, 11, 15));
        __m256i x = _mm256_shuffle_epi8(fused_round_bf16(a, saturate), second_third);
        __m256i y = _mm256_shuffle_epi8(fused_round_bf16(b, saturate), second_third);
        __m256i both = _mm256_blend_epi32(x, y, 0xcc);
        t.low = _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(0, 4, 2, 6, 0, 4, 2, 6));
        t.high = _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(1, 5, 3, 7, 1, 5, 3, 7));
        return t;
    }
    const __m256i first_second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    __m128i x = f16_from_f32_avx2(_mm256_castps_si256(a), saturate);
    __m128i y = f16_from_f32_avx2(_mm256_castps_si256(b), saturate);
    __m256i both = _mm256_shuffle_epi8(_mm256_set_m128i(y, x), first_second);
    t.low = _mm256_permute4x64_epi64(both, _MM_SHUFFLE(2, 0, 2, 0));
    t.high = _mm256_permute4x64_epi64(both, _MM_SHUFFLE(3, 1, 3, 1));
    return t;
}

/* Whether no value is infinite or NaN; tests the bits, so -ffast-math has no influence. */
AVX2_INLINE bool fused_all_finite(const float *values, size_t count) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i bits = avx2_load((const unsigned char *)(values + i), 0);
        most = _mm256_max_epi32(most, _mm256_and_si256(bits, magnitude));
    }
    bool finite = !_mm256_movemask_epi8(_mm256_cmpgt_epi32(most, _mm256_set1_epi32(0x7f7fffff)));
    for (; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, 4);
        finite = finite && (bits & 0x7fffffff) < 0x7f800000;
    }
    return finite;
}

/* The number of groups of a run. */
AVX2_INLINE size_t fused_group_count(const tmi_fused_run *run) {
    return run->count <= run->first ? 1
                                    : 1 + (run->count - run->first + run->group - 1) / run->group;
}

#endif
#endif
