/*
 * AVX2 kernels to and from F64. The hardware conversions depend on the flush-to-zero modes only if
 * an F32 is subnormal: those elements, which are rare in weights, are converted with integer
 * arithmetic.
 */
#include "x86_avx2.h"

#if TMI_AVX2

/* Converts the subnormals of four F32, which some modes make the hardware treat as zeros. */
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

/* Converts four F64 in plain C, rounding to odd or to nearest. */
AVX2_TARGET static __m128i f32_from_f64_one_by_one(__m256i bits, bool odd) {
    uint64_t in[4];
    uint32_t out[4];
    memcpy(in, &bits, sizeof in);
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        out[i] = odd ? tmi_f32_odd_from_f64(in[i]) : tmi_f32_from_f64(in[i]);
    return _mm_loadu_si128((const __m128i *)(const void *)out);
}

/* Whether one of four magnitudes is below 2^-126 but not 0. */
AVX2_INLINE bool any_below_f32(__m256i magnitude) {
    __m256i least = _mm256_set1_epi64x((long long)897 << 52);
    __m256i is_small = _mm256_cmpgt_epi64(least, magnitude);
    __m256i is_zero = _mm256_cmpeq_epi64(magnitude, _mm256_setzero_si256());
    return !_mm256_testc_si256(is_zero, is_small);
}

/* The upper or lower halves of eight F64, in the order 0 1 4 5 2 3 6 7: the fewest shuffles. */
AVX2_INLINE __m256i upper_halves(__m256i a, __m256i b) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xdd));
}

AVX2_INLINE __m256i lower_halves(__m256i a, __m256i b) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
}

/* Upper halves of F64: those of F32's smallest normal number and of the first power beyond F32. */
enum { LEAST_NORMAL = 897 << 20, BEYOND_NORMAL = 1151 << 20 };

AVX2_INLINE __m256i f32_from_f64_slowly(__m256i a, __m256i b, bool odd) {
    return _mm256_set_m128i(f32_from_f64_one_by_one(b, odd), f32_from_f64_one_by_one(a, odd));
}

AVX2_INLINE __m256i f32_from_f64_avx2(__m256i a, __m256i b) {
    const __m256i magnitude = _mm256_set1_epi64x(INT64_MAX);
    __m256i upper = _mm256_and_si256(upper_halves(a, b), _mm256_set1_epi32(INT32_MAX));
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(LEAST_NORMAL), upper);
    if (TMI_UNLIKELY(!_mm256_testz_si256(is_small, is_small)) &&
        (any_below_f32(_mm256_and_si256(a, magnitude)) ||
         any_below_f32(_mm256_and_si256(b, magnitude))))
        return f32_from_f64_slowly(a, b, false);
    __m128 low = _mm256_cvtpd_ps(_mm256_castsi256_pd(a));
    __m128 high = _mm256_cvtpd_ps(_mm256_castsi256_pd(b));
    return _mm256_castps_si256(_mm256_set_m128(high, low));
}

/* Shifts the bits within F32's normal range; leaves everything else except zero to plain C. */
AVX2_INLINE __m256i f32_odd_from_f64_avx2(__m256i a, __m256i b) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i upper = upper_halves(a, b), lower = lower_halves(a, b);
    __m256i magnitude = _mm256_and_si256(upper, _mm256_set1_epi32(INT32_MAX));
    __m256i is_zero = _mm256_cmpeq_epi32(_mm256_or_si256(magnitude, lower), zero);
    __m256i too_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(LEAST_NORMAL), magnitude);
    __m256i too_large = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(BEYOND_NORMAL - 1));
    __m256i out = _mm256_or_si256(_mm256_andnot_si256(is_zero, too_small), too_large);
    if (TMI_UNLIKELY(!_mm256_testz_si256(out, out)))
        return f32_from_f64_slowly(a, b, true);
    __m256i v = _mm256_or_si256(_mm256_slli_epi32(magnitude, 3), _mm256_srli_epi32(lower, 29));
    v = _mm256_sub_epi32(v, _mm256_set1_epi32((int)(896u << 23)));
    __m256i is_exact = _mm256_cmpeq_epi32(_mm256_slli_epi32(lower, 3), zero);
    v = _mm256_or_si256(v, _mm256_andnot_si256(is_exact, _mm256_set1_epi32(1)));
    v = _mm256_andnot_si256(is_zero, v);
    v = _mm256_or_si256(v, _mm256_xor_si256(upper, magnitude)); /* the sign */
    return _mm256_permute4x64_epi64(v, 0xd8);
}

AVX2_INLINE void step_f64_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        avx2_store(d, i, f32_from_f64_avx2(avx2_load(s, i * 2), avx2_load(s, i * 2 + 1)), stream);
}

AVX2_INLINE void step_f64_to_odd(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        avx2_store(d, i, f32_odd_from_f64_avx2(avx2_load(s, i * 2), avx2_load(s, i * 2 + 1)),
                   stream);
}

/* One pass with two roundings, the first of them to odd: the result is as if rounded once. */
AVX2_INLINE void step_f64_to_bf16(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const unsigned char *at = s + i * 128;
        __m256i a = f32_odd_from_f64_avx2(avx2_load(at, 0), avx2_load(at, 1));
        __m256i b = f32_odd_from_f64_avx2(avx2_load(at, 2), avx2_load(at, 3));
        avx2_store(d, i, bf16_from_two(a, b, saturate), stream);
    }
}

AVX2_INLINE void step_f64_to_f16(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const unsigned char *at = s + i * 128;
        __m256i a = f32_odd_from_f64_avx2(avx2_load(at, 0), avx2_load(at, 1));
        __m256i b = f32_odd_from_f64_avx2(avx2_load(at, 2), avx2_load(at, 3));
        __m128i low = f16_from_f32_avx2(a, saturate), high = f16_from_f32_avx2(b, saturate);
        avx2_store(d, i, _mm256_set_m128i(high, low), stream);
    }
}

AVX2_KERNEL(tmi_avx2_f32_to_f64, step_f32_to_f64, 32, 8)
AVX2_KERNEL(tmi_avx2_f64_to_f32, step_f64_to_f32, 64, 4)
AVX2_KERNEL(tmi_avx2_f64_to_odd, step_f64_to_odd, 64, 4)
AVX2_SATURATING_KERNEL(tmi_avx2_f64_to_bf16, step_f64_to_bf16, 64, 2, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f64_to_f16, step_f64_to_f16, 64, 2, AVX2_FAR)

#endif
