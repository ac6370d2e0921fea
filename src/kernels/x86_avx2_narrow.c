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
 * Converts eight F32 to codes of at most 8 bits in 32-bit lanes, shifted up by `small_shift` bits,
 * without signs. It adds the power of two whose last bit has the value of the result's last bit.
 * That rounds the fraction and leaves it, with its hidden bit, in the low bits of the sum, below
 * the power's exponent; for subnormal results the power stays the same. One multiplication of
 * 16-bit halves combines exponent and fraction. The excess of the exponents is subtracted in the
 * low bits of the power, where it is even and so changes no rounding.
 *
 * For values that are too large, infinity and NaN the power is a NaN, and the code is above 127.
 * The addition is in assembly because the processor keeps the first of two NaN, and compilers may
 * swap the operands of a sum. Sources that a mode may treat as zero are far below half of the
 * smallest result.
 */
AVX2_INLINE int small_shift(const tmi_narrow_format f) {
    return (int)(7 - f.fraction_bits);
}

AVX2_INLINE __m256i small_from_f32_avx2(__m256i bits, const tmi_narrow_format f) {
    const unsigned shift = 23 - f.fraction_bits;
    const uint32_t excess = (shift + 128 - f.bias) << f.fraction_bits;
    const __m256i least = _mm256_set1_epi32((int)((128 - f.bias) << 23));
    const __m256i up = _mm256_set1_epi32((int)(shift << 23 | (0x10000 - excess)));
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i exponent = _mm256_and_si256(bits, _mm256_set1_epi32(0x7f800000));
    __m256i power = _mm256_adds_epi16(_mm256_max_epi32(exponent, least), up);
    __m256i sum;
    __asm__("vaddps %2, %1, %0" : "=x"(sum) : "x"(power), "x"(magnitude));
    return _mm256_madd_epi16(sum, _mm256_set1_epi32(1 << 16 | 1 << small_shift(f)));
}

/* Packs 32 such codes into bytes; only values that are too large or NaN are above 127. */
AVX2_INLINE __m256i pack_codes(const __m256i *v, const tmi_narrow_format f) {
    __m256i low = _mm256_srli_epi16(_mm256_packus_epi32(v[0], v[1]), small_shift(f));
    __m256i high = _mm256_srli_epi16(_mm256_packus_epi32(v[2], v[3]), small_shift(f));
    return _mm256_packus_epi16(low, high);
}

/* Packs 32 lanes into bytes, in the same order: packing with signed saturation keeps signs. */
AVX2_INLINE __m256i pack_signed(const __m256i *v) {
    return _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
}

/* 0xff for each of 32 F32 that is a NaN. */
AVX2_INLINE __m256i pack_nan_masks(const __m256i *x) {
    __m256i v[4];
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m256i magnitude = _mm256_and_si256(x[i], _mm256_set1_epi32(0x7fffffff));
        v[i] = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    }
    return pack_signed(v);
}

/* Converts 32 F32 to codes in pack_codes' order; the top bit of each byte of `signs` is a sign. */
AVX2_INLINE __m256i small_from_four(const __m256i *x, __m256i signs, bool saturate,
                                    const tmi_narrow_format f) {
    const uint32_t top = saturate || f.always_clamps ? f.largest : f.largest + 1;
    __m256i v[4];
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        v[i] = small_from_f32_avx2(x[i], f);
    __m256i codes = pack_codes(v, f);
    bool rare = _mm256_movemask_epi8(codes) != 0;
    if (top < 0x7f || rare) /* all other codes are at most 127 */
        codes = _mm256_min_epu8(codes, _mm256_set1_epi8((char)top));
    if (TMI_UNLIKELY(rare))
        codes = _mm256_blendv_epi8(codes, _mm256_set1_epi8((char)f.nan), pack_nan_masks(x));
    signs = _mm256_and_si256(signs, _mm256_set1_epi8((char)0x80));
    signs = _mm256_srli_epi16(signs, (int)(7 - f.sign_at));
    if (f.unsigned_zero)
        signs = _mm256_andnot_si256(_mm256_cmpeq_epi8(codes, _mm256_setzero_si256()), signs);
    return _mm256_or_si256(codes, signs);
}

AVX2_INLINE void step_f32_to_small(unsigned char *d, const unsigned char *s, bool stream,
                                   bool saturate, const tmi_narrow_format f) {
    __m256i x[4];
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        x[i] = avx2_load(s, i);
    __m256i codes = small_from_four(x, pack_signed(x), saturate, f);
    codes = _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    avx2_store(d, 0, codes, stream);
}

AVX2_INLINE void step_bf16_to_small(unsigned char *d, const unsigned char *s, bool stream,
                                    bool saturate, const tmi_narrow_format f) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i a = avx2_load(s, 0), b = avx2_load(s, 1);
    __m256i x[4] = {_mm256_unpacklo_epi16(zero, a), _mm256_unpackhi_epi16(zero, a),
                    _mm256_unpacklo_epi16(zero, b), _mm256_unpackhi_epi16(zero, b)};
    __m256i codes = small_from_four(x, _mm256_packs_epi16(a, b), saturate, f);
    avx2_store(d, 0, _mm256_permute4x64_epi64(codes, _MM_SHUFFLE(3, 1, 2, 0)), stream);
}

AVX2_INLINE void step_f16_to_small(unsigned char *d, const unsigned char *s, bool stream,
                                   bool saturate, const tmi_narrow_format f) {
    __m256i x[4];
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        x[i] = _mm256_castps_si256(_mm256_cvtph_ps(avx2_load_half(s, i)));
    __m256i codes = small_from_four(x, pack_signed(x), saturate, f);
    codes = _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    avx2_store(d, 0, codes, stream);
}

AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_bf16, step_f32_to_bf16, 32, 2, AVX2_FAR)
AVX2_SATURATING_KERNEL(tmi_avx2_f32_to_f16, step_f32_to_f16, 32, 2, AVX2_NEAR)
AVX2_SATURATING_KERNEL(tmi_avx2_bf16_to_f16, step_bf16_to_f16, 16, 2, AVX2_PREFETCH)
AVX2_SATURATING_KERNEL(tmi_avx2_f16_to_bf16, step_f16_to_bf16, 16, 2, AVX2_PREFETCH)

#define AVX2_SMALL_KERNEL(from, from_bits, to, format)                                             \
    AVX2_INLINE void step_##from##_to_##to(unsigned char *d, const unsigned char *s, bool stream,  \
                                           bool saturate) {                                        \
        step_##from##_to_small(d, s, stream, saturate, format);                                    \
    }                                                                                              \
    AVX2_SATURATING_KERNEL(tmi_avx2_##from##_to_##to, step_##from##_to_##to, from_bits, 1, AVX2_FAR)
AVX2_SMALL_KERNEL(f32, 32, f4, TMI_NARROW_F4)
AVX2_SMALL_KERNEL(f32, 32, e2m3, TMI_NARROW_F6_E2M3)
AVX2_SMALL_KERNEL(f32, 32, e3m2, TMI_NARROW_F6_E3M2)
AVX2_SMALL_KERNEL(f32, 32, e5m2, TMI_NARROW_F8_E5M2)
AVX2_SMALL_KERNEL(f32, 32, e4m3, TMI_NARROW_F8_E4M3)
AVX2_SMALL_KERNEL(f32, 32, e4m3fnuz, TMI_NARROW_F8_E4M3FNUZ)
AVX2_SMALL_KERNEL(f32, 32, e5m2fnuz, TMI_NARROW_F8_E5M2FNUZ)
AVX2_SMALL_KERNEL(bf16, 16, e5m2, TMI_NARROW_F8_E5M2)
AVX2_SMALL_KERNEL(bf16, 16, e4m3, TMI_NARROW_F8_E4M3)
AVX2_SMALL_KERNEL(bf16, 16, e4m3fnuz, TMI_NARROW_F8_E4M3FNUZ)
AVX2_SMALL_KERNEL(bf16, 16, e5m2fnuz, TMI_NARROW_F8_E5M2FNUZ)
AVX2_SMALL_KERNEL(f16, 16, e5m2, TMI_NARROW_F8_E5M2)
AVX2_SMALL_KERNEL(f16, 16, e4m3, TMI_NARROW_F8_E4M3)
AVX2_SMALL_KERNEL(f16, 16, e4m3fnuz, TMI_NARROW_F8_E4M3FNUZ)
AVX2_SMALL_KERNEL(f16, 16, e5m2fnuz, TMI_NARROW_F8_E5M2FNUZ)

#endif
