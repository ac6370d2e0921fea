/*
 * AVX2 kernels whose results hold every source value exactly. All sources of at most 8 bits fit
 * BF16, so they are mapped to BF16 on 16-bit integers, and to F32 by putting zeros below that.
 */
#include "x86_avx2.h"

#if TMI_AVX2

/*
 * 16 BF16 as two vectors of F32. The 16 lanes must hold elements 0-3, 8-11, 4-7, 12-15, because the
 * unpacks work within 128-bit halves.
 */
AVX2_INLINE void store_bf16_as_f32(unsigned char *d, size_t vector, __m256i split, bool stream) {
    __m256i zero = _mm256_setzero_si256();
    avx2_store(d, vector, _mm256_unpacklo_epi16(zero, split), stream);
    avx2_store(d, vector + 1, _mm256_unpackhi_epi16(zero, split), stream);
}

/* 16 bytes as 16-bit lanes in the order that store_bf16_as_f32 wants. */
AVX2_INLINE __m256i spread_split(__m128i bytes) {
    return _mm256_cvtepu8_epi16(_mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}

#define AVX2_LOAD_8 _mm_loadl_epi64((const __m128i *)(const void *)(s + i * 8))

AVX2_INLINE void step_bf16_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m256i v = _mm256_permute4x64_epi64(avx2_load(s, i), _MM_SHUFFLE(3, 1, 2, 0));
        store_bf16_as_f32(d, i * 2, v, stream);
    }
}

AVX2_INLINE void step_f16_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m256 v = _mm256_cvtph_ps(avx2_load_half(s, i));
        avx2_store(d, i, _mm256_castps_si256(v), stream);
    }
}

/* The subnormal codes of an 8-bit float as 16-bit results: low bytes, then high bytes. */
AVX2_INLINE __m256i lookup_subnormals(__m256i magnitude, __m128i bytes) {
    __m256i table = _mm256_broadcastsi128_si256(bytes);
    __m256i twice = _mm256_or_si256(magnitude, _mm256_slli_epi16(magnitude, 8));
    return _mm256_shuffle_epi8(table, _mm256_add_epi16(twice, _mm256_set1_epi16(0x0800)));
}

AVX2_INLINE __m256i e4m3_to_bf16(__m256i codes) {
    const __m128i subnormals = _mm_setr_epi8(0, 0, (char)0x80, (char)0xc0, 0, 0x20, 0x40, 0x60, 0,
                                             0x3b, 0x3b, 0x3b, 0x3c, 0x3c, 0x3c, 0x3c);
    __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
    __m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(codes, 7), 15);
    __m256i v = _mm256_add_epi16(_mm256_slli_epi16(magnitude, 4), _mm256_set1_epi16(120 << 7));
    __m256i is_small = _mm256_cmpgt_epi16(_mm256_set1_epi16(8), magnitude);
    v = _mm256_blendv_epi8(v, lookup_subnormals(magnitude, subnormals), is_small);
    __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
    v = _mm256_blendv_epi8(v, _mm256_set1_epi16(0x7fc0), is_nan);
    return _mm256_or_si256(v, sign);
}

AVX2_INLINE __m256i e4m3_to_f16(__m256i codes) {
    const __m128i subnormals =
        _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0x18, 0x1c, 0x1e, 0x20, 0x21, 0x22, 0x23);
    __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
    __m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(codes, 7), 15);
    __m256i v = _mm256_add_epi16(_mm256_slli_epi16(magnitude, 7), _mm256_set1_epi16(8 << 10));
    __m256i is_small = _mm256_cmpgt_epi16(_mm256_set1_epi16(8), magnitude);
    v = _mm256_blendv_epi8(v, lookup_subnormals(magnitude, subnormals), is_small);
    __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
    v = _mm256_blendv_epi8(v, _mm256_set1_epi16(0x7e00), is_nan);
    return _mm256_or_si256(v, sign);
}

AVX2_INLINE __m256i e5m2_to_bf16(__m256i codes) {
    const __m128i subnormals =
        _mm_setr_epi8(0, (char)0x80, 0, 0x40, 0, 0, 0, 0, 0, 0x37, 0x38, 0x38, 0, 0, 0, 0);
    __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
    __m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(codes, 7), 15);
    __m256i v = _mm256_add_epi16(_mm256_slli_epi16(magnitude, 5), _mm256_set1_epi16(112 << 7));
    __m256i is_small = _mm256_cmpgt_epi16(_mm256_set1_epi16(4), magnitude);
    v = _mm256_blendv_epi8(v, lookup_subnormals(magnitude, subnormals), is_small);
    /* Infinity and NaN: an all-ones exponent, and the quiet bit for NaN. */
    __m256i is_special = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7b));
    __m256i is_nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7c));
    v = _mm256_or_si256(v, _mm256_and_si256(is_special, _mm256_set1_epi16(0x7f80)));
    v = _mm256_or_si256(v, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x0040)));
    return _mm256_or_si256(v, sign);
}

AVX2_INLINE void step_e4m3_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    (void)saturate;
    const __m256i ones = _mm256_set1_epi8(-1);
    __m256i without_sign = _mm256_or_si256(avx2_load(s, 0), _mm256_set1_epi8((char)0x80));
    if (TMI_UNLIKELY(_mm256_movemask_epi8(_mm256_cmpeq_epi8(without_sign, ones)))) {
        AVX2_UNROLL
        for (size_t i = 0; i < 2; i++)
            store_bf16_as_f32(d, i * 2, e4m3_to_bf16(spread_split(avx2_load_half(s, i))), stream);
        return;
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        avx2_store(d, i, _mm256_castps_si256(e4m3_to_f32(AVX2_LOAD_8)), stream);
}

/* E5M2 is the upper half of F16. */
AVX2_INLINE void step_e5m2_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m256 v = _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), AVX2_LOAD_8));
        avx2_store(d, i, _mm256_castps_si256(v), stream);
    }
}

/* Steps from 32 codes of 8 bits to 32 results of 16 bits. */
#define AVX2_STEP_8_TO_16(name, expression)                                                        \
    AVX2_INLINE void name(unsigned char *d, const unsigned char *s, bool stream, bool saturate) {  \
        (void)saturate;                                                                            \
        AVX2_UNROLL                                                                                \
        for (size_t i = 0; i < 2; i++) {                                                           \
            __m256i codes = _mm256_cvtepu8_epi16(avx2_load_half(s, i));                            \
            avx2_store(d, i, expression, stream);                                                  \
        }                                                                                          \
    }
AVX2_STEP_8_TO_16(step_e4m3_to_bf16, e4m3_to_bf16(codes))
AVX2_STEP_8_TO_16(step_e5m2_to_bf16, e5m2_to_bf16(codes))
AVX2_STEP_8_TO_16(step_e4m3_to_f16, e4m3_to_f16(codes))
AVX2_STEP_8_TO_16(step_e5m2_to_f16, _mm256_slli_epi16(codes, 8))

/* 16 bytes of packed F4 as 32 codes in order. */
AVX2_INLINE __m256i unpack_f4(const unsigned char *s) {
    const __m128i nibble = _mm_set1_epi8(0x0f);
    __m128i both = avx2_load_half(s, 0);
    __m128i low = _mm_and_si128(both, nibble);
    __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), nibble);
    return _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high));
}

/* The low and the high bytes of the 16 values of F4 in BF16, and the high ones in F16. */
AVX2_INLINE __m256i f4_bf16_low(__m256i codes) {
    const __m128i low =
        _mm_setr_epi8(0, 0, (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0, 0, 0,
                      (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(low), codes);
}

AVX2_INLINE __m256i f4_bf16_high(__m256i codes) {
    const __m128i high =
        _mm_setr_epi8(0, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, (char)0x80, (char)0xbf,
                      (char)0xbf, (char)0xbf, (char)0xc0, (char)0xc0, (char)0xc0, (char)0xc0);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(high), codes);
}

AVX2_INLINE __m256i f4_f16_high(__m256i codes) {
    const __m128i high =
        _mm_setr_epi8(0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, (char)0x80, (char)0xb8,
                      (char)0xbc, (char)0xbe, (char)0xc0, (char)0xc2, (char)0xc4, (char)0xc6);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(high), codes);
}

/* Two vectors of bytes interleaved into two vectors of 16-bit lanes, in order. */
AVX2_INLINE void store_interleaved(unsigned char *d, __m256i low, __m256i high, bool stream) {
    __m256i even = _mm256_unpacklo_epi8(low, high), odd = _mm256_unpackhi_epi8(low, high);
    avx2_store(d, 0, _mm256_permute2x128_si256(even, odd, 0x20), stream);
    avx2_store(d, 1, _mm256_permute2x128_si256(even, odd, 0x31), stream);
}

AVX2_INLINE void step_f4_to_bf16(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    __m256i codes = unpack_f4(s);
    store_interleaved(d, f4_bf16_low(codes), f4_bf16_high(codes), stream);
}

AVX2_INLINE void step_f4_to_f16(unsigned char *d, const unsigned char *s, bool stream,
                                bool saturate) {
    (void)saturate;
    store_interleaved(d, _mm256_setzero_si256(), f4_f16_high(unpack_f4(s)), stream);
}

AVX2_INLINE void step_f4_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                bool saturate) {
    (void)saturate;
    __m256i codes = unpack_f4(s);
    /* In this order the byte unpacks leave their lanes as store_bf16_as_f32 wants them. */
    codes = _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    __m256i low = f4_bf16_low(codes), high = f4_bf16_high(codes);
    store_bf16_as_f32(d, 0, _mm256_unpacklo_epi8(low, high), stream);
    store_bf16_as_f32(d, 2, _mm256_unpackhi_epi8(low, high), stream);
}

/* Integers of at most 24 bits are exact in F32; 32 bits are rounded by the conversion, once. */
#define AVX2_STEP_INTEGER(name, expression)                                                        \
    AVX2_INLINE void name(unsigned char *d, const unsigned char *s, bool stream, bool saturate) {  \
        (void)saturate;                                                                            \
        AVX2_UNROLL                                                                                \
        for (size_t i = 0; i < 4; i++) {                                                           \
            __m256 v = _mm256_cvtepi32_ps(expression);                                             \
            avx2_store(d, i, _mm256_castps_si256(v), stream);                                      \
        }                                                                                          \
    }
AVX2_STEP_INTEGER(step_i8_to_f32, _mm256_cvtepi8_epi32(AVX2_LOAD_8))
AVX2_STEP_INTEGER(step_u8_to_f32, _mm256_cvtepu8_epi32(AVX2_LOAD_8))
AVX2_STEP_INTEGER(step_i16_to_f32, _mm256_cvtepi16_epi32(avx2_load_half(s, i)))
AVX2_STEP_INTEGER(step_u16_to_f32, _mm256_cvtepu16_epi32(avx2_load_half(s, i)))
AVX2_STEP_INTEGER(step_i32_to_f32, avx2_load(s, i))

AVX2_KERNEL(tmi_avx2_bf16_to_f32, step_bf16_to_f32, 16, 4)
AVX2_KERNEL(tmi_avx2_f16_to_f32, step_f16_to_f32, 16, 4)
AVX2_KERNEL(tmi_avx2_e4m3_to_f32, step_e4m3_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_e5m2_to_f32, step_e5m2_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_e4m3_to_bf16, step_e4m3_to_bf16, 8, 2)
AVX2_KERNEL(tmi_avx2_e5m2_to_bf16, step_e5m2_to_bf16, 8, 2)
AVX2_KERNEL(tmi_avx2_e4m3_to_f16, step_e4m3_to_f16, 8, 2)
AVX2_KERNEL(tmi_avx2_e5m2_to_f16, step_e5m2_to_f16, 8, 2)
AVX2_KERNEL(tmi_avx2_f4_to_f32, step_f4_to_f32, 4, 4)
AVX2_KERNEL(tmi_avx2_f4_to_bf16, step_f4_to_bf16, 4, 2)
AVX2_KERNEL(tmi_avx2_f4_to_f16, step_f4_to_f16, 4, 2)
AVX2_KERNEL(tmi_avx2_i8_to_f32, step_i8_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_u8_to_f32, step_u8_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_i16_to_f32, step_i16_to_f32, 16, 4)
AVX2_KERNEL(tmi_avx2_u16_to_f32, step_u16_to_f32, 16, 4)
AVX2_KERNEL(tmi_avx2_i32_to_f32, step_i32_to_f32, 32, 4)

#endif
