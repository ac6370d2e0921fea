/*
 * AVX2 kernels that dequantize weights with 8-bit codes in one pass. The target has no fused
 * multiply-add, so no product and sum can be fused.
 */
#include "x86_avx2_dequant_fused.h"

#if TMI_AVX2

/* Stores sixteen values. */
AVX2_INLINE void store_values(unsigned char *d, __m256 a, __m256 b, avx2_form form) {
    __m256i x = _mm256_castps_si256(a), y = _mm256_castps_si256(b);
    if (form.as == TENMAP_F32) {
        avx2_store(d, 0, x, form.stream);
        avx2_store(d, 1, y, form.stream);
    } else if (form.as == TENMAP_BF16) {
        avx2_store(d, 0, bf16_from_two(x, y, form.saturate), form.stream);
    } else {
        __m128i low = f16_from_f32_avx2(x, form.saturate);
        __m128i high = f16_from_f32_avx2(y, form.saturate);
        avx2_store(d, 0, _mm256_set_m128i(high, low), form.stream);
    }
}

typedef bool avx2_decode(__m128i codes, __m256 *a, __m256 *b);

/*
 * Decodes E4M3 to 2^-8 times its values: that is what the code's bits mean in F16's position, also
 * for subnormals. All results are normal in F32. Returns false if a code is NaN.
 */
AVX2_INLINE bool decode_e4m3(__m128i codes, __m256 *a, __m256 *b) {
    __m256i lanes = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    lanes = _mm256_and_si256(lanes, _mm256_set1_epi16((short)0xbfff));
    __m128i without_sign = _mm_or_si128(codes, _mm_set1_epi8((char)0x80));
    *a = _mm256_cvtph_ps(_mm256_castsi256_si128(lanes));
    *b = _mm256_cvtph_ps(_mm256_extracti128_si256(lanes, 1));
    return !_mm_movemask_epi8(_mm_cmpeq_epi8(without_sign, _mm_set1_epi8(-1)));
}

AVX2_INLINE bool decode_i8(__m128i codes, __m256 *a, __m256 *b) {
    *a = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
    *b = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8)));
    return true;
}

/* Computes the values of one group; false at a code that is left to other code. */
AVX2_INLINE bool scale_group(unsigned char *d, const unsigned char *s, size_t count, fused_scale by,
                             avx2_decode *decode, avx2_form form) {
    const size_t width = form.as == TENMAP_F32 ? 4 : 2;
    __m256 a, b;
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        if (form.stream)
            _mm_prefetch((const char *)s + i + AVX2_PREFETCH, _MM_HINT_T0);
        if (TMI_UNLIKELY(!decode(avx2_load_half(s + i, 0), &a, &b)))
            return false;
        store_values(d + i * width, fused_apply_scale(a, by), fused_apply_scale(b, by), form);
    }
    if (i < count) {
        unsigned char in[16] = {0}, out[64];
        memcpy(in, s + i, count - i);
        if (!decode(avx2_load_half(in, 0), &a, &b))
            return false;
        form.stream = false;
        store_values(out, fused_apply_scale(a, by), fused_apply_scale(b, by), form);
        memcpy(d + i * width, out, (count - i) * width);
    }
    return true;
}

/*
 * E4M3 to BF16. Codes below 16 mean the code times 2^-9. From 8 on, only the last three bits decide
 * how a product is rounded, and the other bits add to its exponent, as long as no product is so
 * small or so large that it has fewer digits. So the products of the first 16 codes are looked up.
 */

/* The low bytes of the products with a scale, then the high bytes. */
AVX2_INLINE void fill_e4m3_table(unsigned char *table, const float *scale) {
    const __m256 eight =
        _mm256_setr_ps(0, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f, 0x7p-9f);
    const __m256 more = _mm256_add_ps(eight, _mm256_set1_ps(0x8p-9f));
    __m256 by = _mm256_broadcast_ss(scale);
    fused_planes t =
        fused_split_planes(_mm256_mul_ps(eight, by), _mm256_mul_ps(more, by), TENMAP_BF16, false);
    avx2_store(table, 0, _mm256_blend_epi32(t.low, t.high, 0xf0), false);
}

/*
 * The table of group g, from the cache or computed in `buffer`; NULL if products with its scale
 * come close to the limits of F32 and BF16. A table costs as much as some 50 values; computing one
 * for each row would take a fifth of the time.
 */
AVX2_INLINE const unsigned char *find_e4m3_table(const tmi_fused_run *run, size_t g,
                                                 unsigned char *buffer) {
    size_t place = (run->place + g) % TMI_CACHED_TABLES;
    uint32_t bits;
    memcpy(&bits, run->scales + g, 4);
    if (run->tables)
        buffer = run->tables->bytes + place * TMI_TABLE_BYTES;
    if ((bits >> 23 & 0xff) - 27 > 200) /* among them the NaN that marks an empty place */
        return NULL;
    if (run->tables && run->tables->scale_bits[place] == bits)
        return buffer;
    fill_e4m3_table(buffer, run->scales + g);
    if (run->tables)
        run->tables->scale_bits[place] = bits;
    return buffer;
}

/* Converts 32 codes; returns the largest code so far, without its sign. */
AVX2_INLINE __m256i put_e4m3(unsigned char *d, __m256i codes, const fused_planes *t, __m256i most,
                             bool stream) {
    const __m256i seven_bits = _mm256_set1_epi8(0x7f), nothing = _mm256_setzero_si256();
    codes = _mm256_permute4x64_epi64(codes, _MM_SHUFFLE(3, 1, 2, 0));
    __m256i without_sign = _mm256_and_si256(codes, seven_bits);
    __m256i index = _mm256_and_si256(codes, _mm256_set1_epi8(7));
    index = _mm256_min_epu8(_mm256_or_si256(index, _mm256_set1_epi8(8)), without_sign);
    __m256i exponent = _mm256_sub_epi8(without_sign, index);
    __m256i low = _mm256_shuffle_epi8(t->low, index), high = _mm256_shuffle_epi8(t->high, index);
    high = _mm256_xor_si256(high, _mm256_xor_si256(codes, without_sign));
    __m256i a = _mm256_srli_epi16(_mm256_unpacklo_epi8(nothing, exponent), 4);
    __m256i b = _mm256_srli_epi16(_mm256_unpackhi_epi8(nothing, exponent), 4);
    avx2_store(d, 0, _mm256_add_epi16(a, _mm256_unpacklo_epi8(low, high)), stream);
    avx2_store(d, 1, _mm256_add_epi16(b, _mm256_unpackhi_epi8(low, high)), stream);
    return _mm256_max_epu8(most, without_sign);
}

/* Computes the values of one group; returns the largest code so far. */
AVX2_INLINE __m256i e4m3_group(unsigned char *d, const unsigned char *s, size_t count,
                               const fused_planes *t, __m256i most, bool stream) {
    size_t i = 0;
    for (; i + 64 <= count; i += 64) {
        if (stream)
            _mm_prefetch((const char *)s + i + AVX2_PREFETCH, _MM_HINT_T0);
        most = put_e4m3(d + i * 2, avx2_load(s + i, 0), t, most, stream);
        most = put_e4m3(d + i * 2 + 64, avx2_load(s + i, 1), t, most, stream);
    }
    for (; i + 32 <= count; i += 32)
        most = put_e4m3(d + i * 2, avx2_load(s + i, 0), t, most, stream);
    if (i < count) {
        unsigned char in[32] = {0}, out[64];
        memcpy(in, s + i, count - i);
        most = put_e4m3(out, avx2_load(in, 0), t, most, false);
        memcpy(d + i * 2, out, (count - i) * 2);
    }
    return most;
}

/* Computes all of a run; false if a scale is not suitable or a code is NaN. */
AVX2_INLINE bool run_e4m3(unsigned char *d, const tmi_fused_run *run, bool stream) {
    unsigned char buffer[TMI_TABLE_BYTES];
    const size_t groups = fused_group_count(run);
    size_t at = 0;
    __m256i most = _mm256_setzero_si256();
    for (size_t g = 0; g < groups; g++) {
        const unsigned char *table = find_e4m3_table(run, g, buffer);
        if (TMI_UNLIKELY(!table))
            return false;
        fused_planes t = {_mm256_broadcastsi128_si256(avx2_load_half(table, 0)),
                          _mm256_broadcastsi128_si256(avx2_load_half(table, 1))};
        size_t n = g ? run->group : run->first, left = run->count - at;
        n = n < left ? n : left;
        most = e4m3_group(d + at * 2, run->codes + at, n, &t, most, stream);
        at += n;
    }
    return !_mm256_movemask_epi8(_mm256_cmpeq_epi8(most, _mm256_set1_epi8(0x7f)));
}

AVX2_INLINE bool run_fused8(unsigned char *d, const tmi_fused_run *run, avx2_decode *decode,
                            float factor, bool zeros, avx2_form form) {
    const size_t width = form.as == TENMAP_F32 ? 4 : 2;
    const unsigned char *s = run->codes;
    size_t left = run->count, end = run->first;
    for (size_t g = 0; left > 0; g++, end = run->group) {
        size_t n = end < left ? end : left;
        __m256 scale = _mm256_set1_ps(run->scales[g] * factor);
        __m256 zero = zeros ? _mm256_set1_ps(run->zeros[g]) : scale;
        /* Under -ffast-math the factor must not be combined with the codes. */
        __asm__("" : "+x"(scale));
        fused_scale by = {scale, zero, zeros, run->added};
        if (!scale_group(d, s, n, by, decode, form))
            return false;
        d += n * width;
        s += n;
        left -= n;
    }
    return true;
}

/* Saturation and F16 share one loop that tests at every step. */
AVX2_INLINE bool dispatch_fused8(void *dst, const tmi_fused_run *run, avx2_decode *decode,
                                 float factor, bool zeros, avx2_form form) {
    const avx2_form bf16 = {TENMAP_BF16, false, false}, bf16_stream = {TENMAP_BF16, true, false};
    const avx2_form f32 = {TENMAP_F32, false, false}, f32_stream = {TENMAP_F32, true, false};
    const avx2_form bf16_saturate = {TENMAP_BF16, false, true};
    const avx2_form f16 = {TENMAP_F16, form.stream, form.saturate};
    if (form.as == TENMAP_BF16 && !form.saturate)
        return form.stream ? run_fused8(dst, run, decode, factor, zeros, bf16_stream)
                           : run_fused8(dst, run, decode, factor, zeros, bf16);
    if (form.as == TENMAP_F32 && !form.saturate)
        return form.stream ? run_fused8(dst, run, decode, factor, zeros, f32_stream)
                           : run_fused8(dst, run, decode, factor, zeros, f32);
    if (form.as == TENMAP_BF16)
        return run_fused8(dst, run, decode, factor, zeros, bf16_saturate);
    return form.as == TENMAP_F16 && run_fused8(dst, run, decode, factor, zeros, f16);
}

AVX2_INLINE avx2_form form_of(const void *dst, tenmap_dtype as, const tmi_fused_run *run,
                              uint32_t flags) {
    return (avx2_form){as, fused_can_stream(dst, run, flags), flags & TENMAP_CONVERT_SATURATE};
}

/* 2^8 times a scale must be finite, which is true of all scales except ones that no model has. */
AVX2_TARGET bool tmi_avx2_fused_e4m3(void *dst, tenmap_dtype as, const tmi_fused_run *run,
                                     uint32_t flags) {
    if (run->zeros)
        return false;
    if (as == TENMAP_BF16 &&
        (fused_can_stream(dst, run, flags) ? run_e4m3(dst, run, true) : run_e4m3(dst, run, false)))
        return true;
    for (size_t g = fused_group_count(run); g-- > 0;) {
        uint32_t bits;
        memcpy(&bits, run->scales + g, 4);
        if ((bits >> 23 & 0xff) >= 246)
            return false;
    }
    return dispatch_fused8(dst, run, decode_e4m3, 256, false, form_of(dst, as, run, flags));
}

AVX2_TARGET bool tmi_avx2_fused_i8(void *dst, tenmap_dtype as, const tmi_fused_run *run,
                                   uint32_t flags) {
    avx2_form form = form_of(dst, as, run, flags);
    return run->zeros ? dispatch_fused8(dst, run, decode_i8, 1, true, form)
                      : dispatch_fused8(dst, run, decode_i8, 1, false, form);
}

#endif
