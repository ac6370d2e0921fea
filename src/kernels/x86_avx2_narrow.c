/*
 * AVX2 kernels that round: from F32 to BF16, F16 and the formats of at most 8 bits, and between
 * BF16 and F16 by way of F32 in registers.
 */
#include "x86_avx2.h"

#if TMI_AVX2

/*
 * F32 magnitudes above `limit` become it; NaN stays. The sign is apart. Saturation is done before
 * rounding: what lies above the largest finite value rounds to at least that.
 */
AVX2_INLINE __m256i clamp_not_nan(__m256i bits, int limit) {
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    __m256i clamped = _mm256_min_epu32(magnitude, _mm256_set1_epi32(limit));
    __m256i sign = _mm256_xor_si256(bits, magnitude);
    return _mm256_or_si256(sign, _mm256_blendv_epi8(clamped, magnitude, is_nan));
}

/* Eight F32 to BF16 in the low halves of 32-bit lanes. */
AVX2_INLINE __m256i bf16_from_f32_avx2(__m256i bits, bool saturate) {
    if (saturate)
        bits = clamp_not_nan(bits, 0x7f7f0000);
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    __m256i high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x0040));
    return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

/* VCVTPS2PH with its rounding in the instruction depends on no mode. */
AVX2_INLINE __m128i f16_from_f32_avx2(__m256i bits, bool saturate) {
    if (saturate)
        bits = clamp_not_nan(bits, 0x477fe000);
    return _mm256_cvtps_ph(_mm256_castsi256_ps(bits), _MM_FROUND_TO_NEAREST_INT);
}

/* Two vectors of 16-bit results in 32-bit lanes as one, in order. */
AVX2_INLINE __m256i join_16(__m256i a, __m256i b) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
}

AVX2_INLINE void step_f32_to_bf16(unsigned char *d, const unsigned char *s, bool stream,
                                  uint32_t flags) {
    bool saturate = flags & TENMAP_CONVERT_SATURATE;
    for (size_t i = 0; i < 2; i++) {
        __m256i a = bf16_from_f32_avx2(avx2_load(s, i * 2), saturate);
        __m256i b = bf16_from_f32_avx2(avx2_load(s, i * 2 + 1), saturate);
        avx2_store(d, i, join_16(a, b), stream);
    }
}

AVX2_INLINE void step_f32_to_f16(unsigned char *d, const unsigned char *s, bool stream,
                                 uint32_t flags) {
    bool saturate = flags & TENMAP_CONVERT_SATURATE;
    for (size_t i = 0; i < 2; i++) {
        __m128i a = f16_from_f32_avx2(avx2_load(s, i * 2), saturate);
        __m128i b = f16_from_f32_avx2(avx2_load(s, i * 2 + 1), saturate);
        avx2_store(d, i, _mm256_set_m128i(b, a), stream);
    }
}

AVX2_INLINE void step_f16_to_bf16(unsigned char *d, const unsigned char *s, bool stream,
                                  uint32_t flags) {
    bool saturate = flags & TENMAP_CONVERT_SATURATE;
    for (size_t i = 0; i < 2; i++) {
        __m256 a = _mm256_cvtph_ps(avx2_load_half(s, i * 2));
        __m256 b = _mm256_cvtph_ps(avx2_load_half(s, i * 2 + 1));
        avx2_store(d, i,
                   join_16(bf16_from_f32_avx2(_mm256_castps_si256(a), saturate),
                           bf16_from_f32_avx2(_mm256_castps_si256(b), saturate)),
                   stream);
    }
}

AVX2_INLINE __m256i f32_from_bf16_avx2(__m128i bits) {
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
}

AVX2_INLINE void step_bf16_to_f16(unsigned char *d, const unsigned char *s, bool stream,
                                  uint32_t flags) {
    bool saturate = flags & TENMAP_CONVERT_SATURATE;
    for (size_t i = 0; i < 2; i++) {
        __m128i a = f16_from_f32_avx2(f32_from_bf16_avx2(avx2_load_half(s, i * 2)), saturate);
        __m128i b = f16_from_f32_avx2(f32_from_bf16_avx2(avx2_load_half(s, i * 2 + 1)), saturate);
        avx2_store(d, i, _mm256_set_m128i(b, a), stream);
    }
}

/*
 * Eight F32 to codes of at most 8 bits in 32-bit lanes. Normal results are rounded on the bits.
 * Subnormal ones by adding the power of two whose last bit is worth the smallest subnormal: the
 * sum is a normal number whose low bits are the code, and sources that a mode may take for zero
 * are far below half of that.
 */
AVX2_INLINE __m256i small_from_f32_avx2(__m256i bits, bool saturate, const tmi_narrow_format f) {
    const unsigned shift = 23 - f.fraction_bits;
    const uint32_t top = saturate || f.always_clamps ? f.largest : f.largest + 1;
    const __m256i limit = _mm256_set1_epi32((int)TMI_NARROW_AS_F32(f, top));
    const __m256i least = _mm256_set1_epi32((int)((128 - f.bias) << 23));
    const __m256i magic = _mm256_set1_epi32((int)((151 - f.bias - f.fraction_bits) << 23));
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    magnitude = _mm256_min_epu32(magnitude, limit);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(magnitude, (int)shift), _mm256_set1_epi32(1));
    /* Half of the last place, and the change of bias, in one addition. */
    int addend = (int)((1u << (shift - 1)) - 1 - ((127 - f.bias) << 23));
    __m256i code = _mm256_add_epi32(_mm256_add_epi32(magnitude, _mm256_set1_epi32(addend)), odd);
    code = _mm256_srli_epi32(code, (int)shift);
    __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(magic));
    __m256i subnormal = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
    code = _mm256_blendv_epi8(code, subnormal, _mm256_cmpgt_epi32(least, magnitude));
    code = _mm256_blendv_epi8(code, _mm256_set1_epi32((int)f.nan), is_nan);
    __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(bits, 31), (int)f.sign_at);
    if (f.unsigned_zero)
        sign = _mm256_andnot_si256(_mm256_cmpeq_epi32(code, _mm256_setzero_si256()), sign);
    return _mm256_or_si256(code, sign);
}

AVX2_INLINE void step_f32_to_small(unsigned char *d, const unsigned char *s, bool stream,
                                   uint32_t flags, const tmi_narrow_format f) {
    bool saturate = flags & TENMAP_CONVERT_SATURATE;
    __m256i v[4];
    for (size_t i = 0; i < 4; i++)
        v[i] = small_from_f32_avx2(avx2_load(s, i), saturate, f);
    __m256i bytes =
        _mm256_packus_epi16(_mm256_packus_epi32(v[0], v[1]), _mm256_packus_epi32(v[2], v[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    avx2_store(d, 0, bytes, stream);
}

#define AVX2_STEP_SMALL(name, format)                                                              \
    AVX2_INLINE void name(unsigned char *d, const unsigned char *s, bool stream, uint32_t flags) { \
        step_f32_to_small(d, s, stream, flags, format);                                            \
    }
AVX2_STEP_SMALL(step_f32_to_f4, TMI_NARROW_F4)
AVX2_STEP_SMALL(step_f32_to_e2m3, TMI_NARROW_F6_E2M3)
AVX2_STEP_SMALL(step_f32_to_e3m2, TMI_NARROW_F6_E3M2)
AVX2_STEP_SMALL(step_f32_to_e5m2, TMI_NARROW_F8_E5M2)
AVX2_STEP_SMALL(step_f32_to_e4m3, TMI_NARROW_F8_E4M3)
AVX2_STEP_SMALL(step_f32_to_e4m3fnuz, TMI_NARROW_F8_E4M3FNUZ)
AVX2_STEP_SMALL(step_f32_to_e5m2fnuz, TMI_NARROW_F8_E5M2FNUZ)

AVX2_KERNEL(tmi_avx2_f32_to_bf16, step_f32_to_bf16, 32, 2)
AVX2_KERNEL(tmi_avx2_f32_to_f16, step_f32_to_f16, 32, 2)
AVX2_KERNEL(tmi_avx2_bf16_to_f16, step_bf16_to_f16, 16, 2)
AVX2_KERNEL(tmi_avx2_f16_to_bf16, step_f16_to_bf16, 16, 2)
AVX2_KERNEL(tmi_avx2_f32_to_f4, step_f32_to_f4, 32, 1)
AVX2_KERNEL(tmi_avx2_f32_to_e2m3, step_f32_to_e2m3, 32, 1)
AVX2_KERNEL(tmi_avx2_f32_to_e3m2, step_f32_to_e3m2, 32, 1)
AVX2_KERNEL(tmi_avx2_f32_to_e5m2, step_f32_to_e5m2, 32, 1)
AVX2_KERNEL(tmi_avx2_f32_to_e4m3, step_f32_to_e4m3, 32, 1)
AVX2_KERNEL(tmi_avx2_f32_to_e4m3fnuz, step_f32_to_e4m3fnuz, 32, 1)
AVX2_KERNEL(tmi_avx2_f32_to_e5m2fnuz, step_f32_to_e5m2fnuz, 32, 1)

#endif
