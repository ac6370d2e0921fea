/*
 * Unpacks block dtypes with AVX2. An element takes one multiplication and at most one subtraction,
 * in the order of blocks.c. The results have the same bits, NaN included, since FMA is not used.
 * Each kernel exists twice: with ordinary stores, and with non-temporal stores to multiples of 32
 * bytes.
 */
#include "blocks.h"
#include "x86_avx2.h"

#if TMI_AVX2

/* Converts the low eight signed bytes to F32. */
AVX2_INLINE __m256 avx2_signed_floats(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

AVX2_INLINE __m128i avx2_upper_half(__m128i bytes) {
    return _mm_unpackhi_epi64(bytes, bytes);
}

AVX2_INLINE void avx2_put_8(float *dst, __m256 values, bool stream) {
    if (stream)
        _mm256_stream_ps(dst, values);
    else
        _mm256_storeu_ps(dst, values);
}

/* 16 signed bytes times a scale. */
AVX2_INLINE void avx2_put_16(float *dst, __m128i bytes, __m256 scale, bool stream) {
    __m256 low = avx2_signed_floats(bytes), high = avx2_signed_floats(avx2_upper_half(bytes));
    avx2_put_8(dst, _mm256_mul_ps(low, scale), stream);
    avx2_put_8(dst + 8, _mm256_mul_ps(high, scale), stream);
}

/* 32 bytes below 128 times a scale, minus a minimum. */
AVX2_INLINE void avx2_put_32_minus(float *dst, __m256i bytes, __m256 scale, __m256 offset,
                                   bool stream) {
    __m128i halves[2] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m256 a = avx2_signed_floats(halves[i]);
        __m256 b = avx2_signed_floats(avx2_upper_half(halves[i]));
        avx2_put_8(dst + 16 * i, _mm256_sub_ps(_mm256_mul_ps(a, scale), offset), stream);
        avx2_put_8(dst + 16 * i + 8, _mm256_sub_ps(_mm256_mul_ps(b, scale), offset), stream);
    }
}

AVX2_INLINE __m256 avx2_half_scale(const unsigned char *src) {
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(tmi_block_u16(src))));
}

AVX2_INLINE __m128i avx2_low_nibbles(__m128i bytes) {
    return _mm_and_si128(bytes, _mm_set1_epi8(15));
}

AVX2_INLINE __m128i avx2_high_nibbles(__m128i bytes) {
    return _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
}

AVX2_INLINE void avx2_unpack_q4_0(float *dst, const unsigned char *src, size_t blocks,
                                  bool stream) {
    const __m128i eight = _mm_set1_epi8(8);
    for (; blocks > 0; blocks--, src += 18, dst += 32) {
        __m256 d = avx2_half_scale(src);
        __m128i q = avx2_load_half(src + 2, 0);
        avx2_put_16(dst, _mm_sub_epi8(avx2_low_nibbles(q), eight), d, stream);
        avx2_put_16(dst + 16, _mm_sub_epi8(avx2_high_nibbles(q), eight), d, stream);
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src)))
            tmi_canonicalize_nans(dst, 32);
    }
}

AVX2_INLINE void avx2_unpack_q8_0(float *dst, const unsigned char *src, size_t blocks,
                                  bool stream) {
    for (; blocks > 0; blocks--, src += 34, dst += 32) {
        __m256 d = avx2_half_scale(src);
        avx2_put_16(dst, avx2_load_half(src + 2, 0), d, stream);
        avx2_put_16(dst + 16, avx2_load_half(src + 2, 1), d, stream);
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src)))
            tmi_canonicalize_nans(dst, 32);
    }
}

AVX2_INLINE void avx2_unpack_iq4_nl(float *dst, const unsigned char *src, size_t blocks,
                                    bool stream) {
    const __m128i levels = _mm_loadu_si128((const __m128i *)(const void *)tmi_levels_iq4);
    for (; blocks > 0; blocks--, src += 18, dst += 32) {
        __m256 d = avx2_half_scale(src);
        __m128i q = avx2_load_half(src + 2, 0);
        avx2_put_16(dst, _mm_shuffle_epi8(levels, avx2_low_nibbles(q)), d, stream);
        avx2_put_16(dst + 16, _mm_shuffle_epi8(levels, avx2_high_nibbles(q)), d, stream);
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src)))
            tmi_canonicalize_nans(dst, 32);
    }
}

/*
 * Scales of 2^-126 and above are multiplied; smaller ones and their results are subnormal, and
 * plain C handles them.
 */
AVX2_INLINE void avx2_unpack_mxfp4(float *dst, const unsigned char *src, size_t blocks,
                                   bool stream) {
    const __m128i levels = _mm_loadu_si128((const __m128i *)(const void *)tmi_levels_e2m1);
    for (; blocks > 0; blocks--, src += 17, dst += 32) {
        if (TMI_UNLIKELY(src[0] < 2)) {
            tmi_unpack_mxfp4(dst, src, 1);
            continue;
        }
        __m256 d = _mm256_castsi256_ps(_mm256_set1_epi32((src[0] - 1) << 23));
        __m128i q = avx2_load_half(src + 1, 0);
        avx2_put_16(dst, _mm_shuffle_epi8(levels, avx2_low_nibbles(q)), d, stream);
        avx2_put_16(dst + 16, _mm_shuffle_epi8(levels, avx2_high_nibbles(q)), d, stream);
    }
}

/* The scale and the minimum of one part of a block of Q4_K or Q5_K. */
AVX2_INLINE void avx2_part_scale(const unsigned char *src, size_t part, __m256 d, __m256 min,
                                 __m256 *scale, __m256 *offset) {
    unsigned sc, m;
    tmi_scale_and_min(src + 4, part, &sc, &m);
    *scale = _mm256_mul_ps(d, _mm256_set1_ps((float)(int)sc));
    *offset = _mm256_mul_ps(min, _mm256_set1_ps((float)(int)m));
}

AVX2_INLINE void avx2_unpack_q4_k(float *dst, const unsigned char *src, size_t blocks,
                                  bool stream) {
    const __m256i nibble = _mm256_set1_epi8(15);
    for (; blocks > 0; blocks--, src += 144, dst += 256) {
        __m256 d = avx2_half_scale(src), min = avx2_half_scale(src + 2), scale, offset;
        AVX2_UNROLL
        for (size_t part = 0; part < 8; part += 2) {
            __m256i q = avx2_load(src + 16, part / 2);
            avx2_part_scale(src, part, d, min, &scale, &offset);
            avx2_put_32_minus(dst + 32 * part, _mm256_and_si256(q, nibble), scale, offset, stream);
            avx2_part_scale(src, part + 1, d, min, &scale, &offset);
            q = _mm256_and_si256(_mm256_srli_epi16(q, 4), nibble);
            avx2_put_32_minus(dst + 32 * part + 32, q, scale, offset, stream);
        }
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src) || tmi_half_is_nonfinite(src + 2)))
            tmi_canonicalize_nans(dst, 256);
    }
}

/* The fifth bits of a part: 16 where the part's bit is set in a byte. */
AVX2_INLINE __m256i avx2_fifth_bits(__m256i high, size_t part) {
    __m256i bit = _mm256_set1_epi8((char)(1u << part));
    __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(high, bit), bit);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

AVX2_INLINE void avx2_unpack_q5_k(float *dst, const unsigned char *src, size_t blocks,
                                  bool stream) {
    const __m256i nibble = _mm256_set1_epi8(15);
    for (; blocks > 0; blocks--, src += 176, dst += 256) {
        __m256 d = avx2_half_scale(src), min = avx2_half_scale(src + 2), scale, offset;
        __m256i high = avx2_load(src + 16, 0);
        AVX2_UNROLL
        for (size_t part = 0; part < 8; part += 2) {
            __m256i q = avx2_load(src + 48, part / 2), low = _mm256_and_si256(q, nibble);
            avx2_part_scale(src, part, d, min, &scale, &offset);
            low = _mm256_or_si256(low, avx2_fifth_bits(high, part));
            avx2_put_32_minus(dst + 32 * part, low, scale, offset, stream);
            avx2_part_scale(src, part + 1, d, min, &scale, &offset);
            q = _mm256_and_si256(_mm256_srli_epi16(q, 4), nibble);
            q = _mm256_or_si256(q, avx2_fifth_bits(high, part + 1));
            avx2_put_32_minus(dst + 32 * part + 32, q, scale, offset, stream);
        }
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src) || tmi_half_is_nonfinite(src + 2)))
            tmi_canonicalize_nans(dst, 256);
    }
}

/* Writes a row of 32 elements of Q6_K: low bits, two high bits already in place, and two scales. */
AVX2_INLINE void avx2_put_row(float *dst, __m256i low, __m256i high, const unsigned char *scales,
                              __m256 d, bool stream) {
    __m256i q = _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
    __m256 first = _mm256_mul_ps(d, _mm256_set1_ps((float)(int8_t)scales[0]));
    __m256 second = _mm256_mul_ps(d, _mm256_set1_ps((float)(int8_t)scales[1]));
    avx2_put_16(dst, _mm256_castsi256_si128(q), first, stream);
    avx2_put_16(dst + 16, _mm256_extracti128_si256(q, 1), second, stream);
}

AVX2_INLINE void avx2_unpack_q6_k(float *dst, const unsigned char *src, size_t blocks,
                                  bool stream) {
    const __m256i nibble = _mm256_set1_epi8(15), bits = _mm256_set1_epi8(0x30);
    for (; blocks > 0; blocks--, src += 210, dst += 256) {
        __m256 d = avx2_half_scale(src + 208);
        AVX2_UNROLL
        for (size_t half = 0; half < 2; half++) {
            const unsigned char *scales = src + 192 + 8 * half;
            float *to = dst + 128 * half;
            __m256i a = avx2_load(src + 64 * half, 0), b = avx2_load(src + 64 * half, 1);
            __m256i h = avx2_load(src + 128, half);
            __m256i h0 = _mm256_and_si256(_mm256_slli_epi16(h, 4), bits);
            __m256i h1 = _mm256_and_si256(_mm256_slli_epi16(h, 2), bits);
            __m256i h2 = _mm256_and_si256(h, bits);
            __m256i h3 = _mm256_and_si256(_mm256_srli_epi16(h, 2), bits);
            avx2_put_row(to, _mm256_and_si256(a, nibble), h0, scales, d, stream);
            avx2_put_row(to + 32, _mm256_and_si256(b, nibble), h1, scales + 2, d, stream);
            a = _mm256_and_si256(_mm256_srli_epi16(a, 4), nibble);
            b = _mm256_and_si256(_mm256_srli_epi16(b, 4), nibble);
            avx2_put_row(to + 64, a, h2, scales + 4, d, stream);
            avx2_put_row(to + 96, b, h3, scales + 6, d, stream);
        }
        if (TMI_UNLIKELY(tmi_half_is_nonfinite(src + 208)))
            tmi_canonicalize_nans(dst, 256);
    }
}

#define AVX2_UNPACK(name)                                                                          \
    AVX2_TARGET void tmi_avx2_unpack_##name(float *dst, const unsigned char *src, size_t blocks) { \
        avx2_unpack_##name(dst, src, blocks, false);                                               \
    }                                                                                              \
    AVX2_TARGET void tmi_avx2_nt_##name(float *dst, const unsigned char *src, size_t blocks) {     \
        avx2_unpack_##name(dst, src, blocks, true);                                                \
        _mm_sfence();                                                                              \
    }

AVX2_UNPACK(q4_0)
AVX2_UNPACK(q8_0)
AVX2_UNPACK(iq4_nl)
AVX2_UNPACK(mxfp4)
AVX2_UNPACK(q4_k)
AVX2_UNPACK(q5_k)
AVX2_UNPACK(q6_k)

#endif
