/*
 * AVX2 kernels to and from F64. The hardware conversions depend on the flush-to-zero modes only
 * where an F32 is subnormal: those elements, rare in weights, are done on integers.
 */
#include "x86_avx2.h"

#if TMI_AVX2

/* Eight F32 whose subnormals, if any, came out as zeros or right, depending on the modes. */
AVX2_INLINE __m256d f64_from_subnormals(__m128i bits) {
    /* A subnormal is its fraction, an integer, times 2^-149: both factors are normal. */
    __m256d fraction = _mm256_cvtepi32_pd(_mm_and_si128(bits, _mm_set1_epi32(0x007fffff)));
    __m256d magnitude = _mm256_mul_pd(fraction, _mm256_set1_pd(0x1p-149));
    __m128i sign = _mm_and_si128(bits, _mm_set1_epi32((int)0x80000000));
    __m256i wide_sign = _mm256_slli_epi64(_mm256_cvtepu32_epi64(sign), 32);
    return _mm256_or_pd(magnitude, _mm256_castsi256_pd(wide_sign));
}

AVX2_INLINE __m256d f64_from_f32_avx2(__m128i bits) {
    __m256d v = _mm256_cvtps_pd(_mm_castsi128_ps(bits));
    __m128i exponent = _mm_and_si128(bits, _mm_set1_epi32(0x7f800000));
    __m128i is_small = _mm_cmpeq_epi32(exponent, _mm_setzero_si128());
    if (_mm_movemask_epi8(is_small)) {
        __m256d mask = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(is_small));
        v = _mm256_blendv_pd(v, f64_from_subnormals(bits), mask);
    }
    return v;
}

AVX2_INLINE void step_f32_to_f64(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i++) {
        __m256d v = f64_from_f32_avx2(avx2_load_half(s, i));
        avx2_store(d, i, _mm256_castpd_si256(v), stream);
    }
}

/* Four F64 that plain C converts, to odd or to nearest. */
AVX2_TARGET static __m128i f32_from_f64_one_by_one(__m256i bits, bool odd) {
    uint64_t in[4];
    uint32_t out[4];
    memcpy(in, &bits, sizeof in);
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        out[i] = odd ? tmi_f32_odd_from_f64(in[i]) : tmi_f32_from_f64(in[i]);
    return _mm_loadu_si128((const __m128i *)(const void *)out);
}

/* Whether one of four magnitudes is below 2^-126 without being 0. */
AVX2_INLINE bool any_below_f32(__m256i magnitude) {
    __m256i least = _mm256_set1_epi64x((long long)897 << 52);
    __m256i is_small = _mm256_cmpgt_epi64(least, magnitude);
    __m256i is_zero = _mm256_cmpeq_epi64(magnitude, _mm256_setzero_si256());
    return !_mm256_testc_si256(is_zero, is_small);
}

AVX2_INLINE __m128i f32_from_f64_avx2(__m256i bits) {
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi64x(INT64_MAX));
    if (TMI_UNLIKELY(any_below_f32(magnitude)))
        return f32_from_f64_one_by_one(bits, false);
    return _mm_castps_si128(_mm256_cvtpd_ps(_mm256_castsi256_pd(bits)));
}

/* Shifts of the bits within F32's normal range; anything else is left to plain C. */
AVX2_INLINE __m128i f32_odd_from_f64_avx2(__m256i bits) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi64x(INT64_MAX));
    __m256i too_large =
        _mm256_cmpgt_epi64(magnitude, _mm256_set1_epi64x(((long long)1151 << 52) - 1));
    if (TMI_UNLIKELY(!_mm256_testz_si256(too_large, too_large) || any_below_f32(magnitude)))
        return f32_from_f64_one_by_one(bits, true);
    __m256i v = _mm256_sub_epi64(_mm256_srli_epi64(magnitude, 29),
                                 _mm256_set1_epi64x((long long)896 << 23));
    __m256i rest = _mm256_and_si256(bits, _mm256_set1_epi64x(0x1fffffff));
    __m256i is_exact = _mm256_cmpeq_epi64(rest, zero);
    v = _mm256_or_si256(v, _mm256_andnot_si256(is_exact, _mm256_set1_epi64x(1)));
    v = _mm256_andnot_si256(_mm256_cmpeq_epi64(magnitude, zero), v);
    __m256i sign = _mm256_srli_epi64(_mm256_xor_si256(bits, magnitude), 32);
    v = _mm256_or_si256(v, sign);
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    return _mm256_castsi256_si128(v);
}

AVX2_INLINE void step_f64_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m128i low = f32_from_f64_avx2(avx2_load(s, i * 2));
        __m128i high = f32_from_f64_avx2(avx2_load(s, i * 2 + 1));
        avx2_store(d, i, _mm256_set_m128i(high, low), stream);
    }
}

AVX2_INLINE void step_f64_to_odd(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m128i low = f32_odd_from_f64_avx2(avx2_load(s, i * 2));
        __m128i high = f32_odd_from_f64_avx2(avx2_load(s, i * 2 + 1));
        avx2_store(d, i, _mm256_set_m128i(high, low), stream);
    }
}

AVX2_KERNEL(tmi_avx2_f32_to_f64, step_f32_to_f64, 32, 8)
AVX2_KERNEL(tmi_avx2_f64_to_f32, step_f64_to_f32, 64, 4)
AVX2_KERNEL(tmi_avx2_f64_to_odd, step_f64_to_odd, 64, 4)

#endif
