/*
 * AVX2 kernels that round: from F32 to BF16, F16 and the formats of at most 8 bits, and between
 * BF16 and F16 by way of F32 in registers.
 */
#include "x86_avx2.h"

#if TMI_AVX2

AVX2_INLINE void step_f32_to_bf16(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m256i v = bf16_from_two(avx2_load(s, i * 2), avx2_load(s, i * 2 + 1), saturate);
        avx2_store(d, i, v, stream);
    }
}

AVX2_INLINE void step_f32_to_f16(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m128i a = f16_from_f32_avx2(avx2_load(s, i * 2), saturate);
        __m128i b = f16_from_f32_avx2(avx2_load(s, i * 2 + 1), saturate);
        avx2_store(d, i, _mm256_set_m128i(b, a), stream);
    }
}

AVX2_INLINE void step_f16_to_bf16(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m256 a = _mm256_cvtph_ps(avx2_load_half(s, i * 2));
        __m256 b = _mm256_cvtph_ps(avx2_load_half(s, i * 2 + 1));
        __m256i v = bf16_from_two(_mm256_castps_si256(a), _mm256_castps_si256(b), saturate);
        avx2_store(d, i, v, stream);
    }
}

AVX2_INLINE __m256i f32_from_bf16_avx2(__m128i bits) {
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
}

AVX2_INLINE void step_bf16_to_f16(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m128i a = f16_from_f32_avx2(f32_from_bf16_avx2(avx2_load_half(s, i * 2)), saturate);
        __m128i b = f16_from_f32_avx2(f32_from_bf16_avx2(avx2_load_half(s, i * 2 + 1)), saturate);
        avx2_store(d, i, _mm256_set_m128i(b, a), stream);
    }
}

/*
 * Eight F32 to codes of at most 8 bits in 32-bit lanes, without signs and wrong for NaN; all are
 * too large by SMALL_EXCESS. Adding the power of two whose last bit is worth the result's last bit
 * rounds the fraction, and leaves it with its hidden bit in the low bits of the sum; for subnormal
 * results that power stays the same. Sources that a mode may take for zero are far below half of
 * the smallest result.
 */
#define SMALL_EXCESS(f) ((150 - (f).fraction_bits + 1 - (f).bias) << (f).fraction_bits)

AVX2_INLINE __m256i small_from_f32_avx2(__m256i bits, bool saturate, const tmi_narrow_format f) {
    const unsigned shift = 23 - f.fraction_bits;
    const uint32_t top = saturate || f.always_clamps ? f.largest : f.largest + 1;
    const __m256i limit = _mm256_set1_epi32((int)TMI_NARROW_AS_F32(f, top));
    const __m256i least = _mm256_set1_epi32((int)((128 - f.bias) << 23));
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i clamped = _mm256_min_epu32(magnitude, limit);
    __m256i exponent = _mm256_and_si256(clamped, _mm256_set1_epi32(0x7f800000));
    __m256i power =
        _mm256_add_epi32(_mm256_max_epu32(exponent, least), _mm256_set1_epi32((int)(shift << 23)));
    __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(clamped), _mm256_castsi256_ps(power));
    __m256i fraction = _mm256_sub_epi32(_mm256_castps_si256(sum), power);
    return _mm256_add_epi32(fraction, _mm256_srli_epi32(power, (int)shift));
}

/* 32 such codes as bytes, right now; the lanes come out in the order of `order_bytes`. */
AVX2_INLINE __m256i join_codes(const __m256i *v, const tmi_narrow_format f) {
    const __m256i excess = _mm256_set1_epi16((short)SMALL_EXCESS(f));
    __m256i low = _mm256_sub_epi16(_mm256_packus_epi32(v[0], v[1]), excess);
    __m256i high = _mm256_sub_epi16(_mm256_packus_epi32(v[2], v[3]), excess);
    return _mm256_packus_epi16(low, high);
}

/* The sign of each as 0x80 or 0: packing with signed saturation keeps signs. */
AVX2_INLINE __m256i join_signs(const __m256i *v) {
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    return _mm256_and_si256(bytes, _mm256_set1_epi8((char)0x80));
}

/* 0xff where one of 32 F32 is a NaN. Loads them again, so that the usual case keeps nothing for it.
 */
AVX2_INLINE __m256i join_nans(const unsigned char *s) {
    __m256i v[4];
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m256i magnitude = _mm256_and_si256(avx2_load(s, i), _mm256_set1_epi32(0x7fffffff));
        v[i] = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    }
    return _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
}

AVX2_INLINE __m256i order_bytes(__m256i bytes) {
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

AVX2_INLINE void step_f32_to_small(unsigned char *d, const unsigned char *s, bool stream,
                                   bool saturate, const tmi_narrow_format f) {
    __m256i x[4], v[4];
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        x[i] = avx2_load(s, i);
        v[i] = small_from_f32_avx2(x[i], saturate, f);
    }
    __m256i codes = join_codes(v, f);
    if (TMI_UNLIKELY(avx2_any_nan(x[0], x[1]) || avx2_any_nan(x[2], x[3])))
        codes = _mm256_blendv_epi8(codes, _mm256_set1_epi8((char)f.nan), join_nans(s));
    __m256i signs = _mm256_srli_epi16(join_signs(x), (int)(7 - f.sign_at));
    if (f.unsigned_zero)
        signs = _mm256_andnot_si256(_mm256_cmpeq_epi8(codes, _mm256_setzero_si256()), signs);
    avx2_store(d, 0, order_bytes(_mm256_or_si256(codes, signs)), stream);
}

#define AVX2_STEP_SMALL(name, format)                                                              \
    AVX2_INLINE void name(unsigned char *d, const unsigned char *s, bool stream, bool saturate) {  \
        step_f32_to_small(d, s, stream, saturate, format);                                         \
    }
AVX2_STEP_SMALL(step_f32_to_f4, TMI_NARROW_F4)
AVX2_STEP_SMALL(step_f32_to_e2m3, TMI_NARROW_F6_E2M3)
AVX2_STEP_SMALL(step_f32_to_e3m2, TMI_NARROW_F6_E3M2)
AVX2_STEP_SMALL(step_f32_to_e5m2, TMI_NARROW_F8_E5M2)
AVX2_STEP_SMALL(step_f32_to_e4m3, TMI_NARROW_F8_E4M3)
AVX2_STEP_SMALL(step_f32_to_e4m3fnuz, TMI_NARROW_F8_E4M3FNUZ)
AVX2_STEP_SMALL(step_f32_to_e5m2fnuz, TMI_NARROW_F8_E5M2FNUZ)

AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_bf16, step_f32_to_bf16, 32, 2, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_f16, step_f32_to_f16, 32, 2, AVX2_NEAR)
AVX2_SATURATING_KERNEL(tmi_avx2_bf16_to_f16, step_bf16_to_f16, 16, 2, AVX2_PREFETCH)
AVX2_SATURATING_KERNEL(tmi_avx2_f16_to_bf16, step_f16_to_bf16, 16, 2, AVX2_PREFETCH)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_f4, step_f32_to_f4, 32, 1, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_e2m3, step_f32_to_e2m3, 32, 1, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_e3m2, step_f32_to_e3m2, 32, 1, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_e5m2, step_f32_to_e5m2, 32, 1, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_e4m3, step_f32_to_e4m3, 32, 1, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_e4m3fnuz, step_f32_to_e4m3fnuz, 32, 1, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_e5m2fnuz, step_f32_to_e5m2fnuz, 32, 1, AVX2_FAR)

#endif
