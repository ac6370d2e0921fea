/*
 * AVX2 kernels for transposed matrices: transposing, splitting packed columns, and scaling E2M1 by
 * powers of two.
 */
#include "x86_avx2.h"

#if TMI_AVX2

/* Sixteen vectors stay in registers only if the loops over them are fully unrolled. */
#if defined(__clang__)
#define AVX2_UNROLL_16 AVX2_UNROLL
#else
#define AVX2_UNROLL_16 _Pragma("GCC unroll 16")
#endif

/* Transposes eight vectors of eight 32-bit words: word i of each becomes vector i. */
AVX2_INLINE void transpose_8x8_words(__m256i *v) {
    __m256i a[8], b[8];
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* The same for eight vectors of eight 16-bit elements. */
AVX2_INLINE void transpose_8x8_halves(__m128i *v) {
    __m128i a[8], b[8];
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i += 2) {
        a[i] = _mm_unpacklo_epi16(v[i], v[i + 1]);
        a[i + 1] = _mm_unpackhi_epi16(v[i], v[i + 1]);
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i += 4) {
        b[i] = _mm_unpacklo_epi32(a[i], a[i + 2]);
        b[i + 1] = _mm_unpackhi_epi32(a[i], a[i + 2]);
        b[i + 2] = _mm_unpacklo_epi32(a[i + 1], a[i + 3]);
        b[i + 3] = _mm_unpackhi_epi32(a[i + 1], a[i + 3]);
    }
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        v[2 * i] = _mm_unpacklo_epi64(b[i], b[i + 4]);
        v[2 * i + 1] = _mm_unpackhi_epi64(b[i], b[i + 4]);
    }
}

/* Transposes what is left after whole 8x8 squares: columns on the right, then rows below. */
AVX2_INLINE void transpose_edges(tmi_lines to, tmi_const_lines from, size_t rows, size_t columns,
                                 size_t width) {
    size_t whole_rows = rows & ~(size_t)7, whole = columns & ~(size_t)7;
    tmi_transpose *plain = width == 2 ? tmi_scalar_transpose16 : tmi_scalar_transpose32;
    tmi_lines right = {to.bytes + whole * to.stride, to.stride};
    tmi_lines below = {to.bytes + whole_rows * width, to.stride};
    if (whole < columns)
        plain(right, (tmi_const_lines){from.bytes + whole * width, from.stride}, rows,
              columns - whole, false);
    if (whole_rows < rows)
        plain(below, (tmi_const_lines){from.bytes + whole_rows * from.stride, from.stride},
              rows - whole_rows, whole, false);
}

/* How many rows are transposed at once: eight columns of them stay in the cache. */
enum { TRANSPOSE_ROWS = 256 };

/*
 * Copies eight lines to their destination, each in one piece: alternating between them would leave
 * cache lines only partly written.
 */
AVX2_INLINE void store_eight_lines(tmi_lines to, tmi_const_lines from, size_t bytes, bool stream) {
    bool aligned_stream = stream && (uintptr_t)to.bytes % 32 == 0 && to.stride % 32 == 0;
    for (size_t k = 0; k < 8; k++, to.bytes += to.stride, from.bytes += from.stride) {
        size_t i = 0;
        for (; aligned_stream && i + 32 <= bytes; i += 32)
            avx2_store(to.bytes + i, 0, avx2_load(from.bytes + i, 0), true);
        memcpy(to.bytes + i, from.bytes + i, bytes - i);
    }
}

AVX2_TARGET void tmi_avx2_transpose16(tmi_lines to, tmi_const_lines from, size_t rows,
                                      size_t columns, bool stream) {
    unsigned char lines[8 * TRANSPOSE_ROWS * 2];
    for (size_t at = 0; at < (rows & ~(size_t)7); at += TRANSPOSE_ROWS)
        for (size_t c = 0; c + 8 <= columns; c += 8) {
            const unsigned char *s = from.bytes + at * from.stride + c * 2;
            size_t r = 0;
            for (; r < TRANSPOSE_ROWS && at + r + 8 <= rows; r += 8) {
                __m128i v[8];
                AVX2_UNROLL
                for (size_t i = 0; i < 8; i++)
                    v[i] = avx2_load_half(s + (r + i) * from.stride, 0);
                transpose_8x8_halves(v);
                AVX2_UNROLL
                for (size_t i = 0; i < 8; i++)
                    _mm_storeu_si128((__m128i *)(void *)(lines + (i * TRANSPOSE_ROWS + r) * 2),
                                     v[i]);
            }
            tmi_lines eight = {to.bytes + c * to.stride + at * 2, to.stride};
            store_eight_lines(eight, (tmi_const_lines){lines, (size_t)TRANSPOSE_ROWS * 2}, r * 2,
                              stream);
        }
    transpose_edges(to, from, rows, columns, 2);
}

/* Transposes eight rows straight to their destination. */
AVX2_INLINE void transpose_eight_rows(tmi_lines to, tmi_const_lines from, size_t columns) {
    for (size_t c = 0; c + 8 <= columns; c += 8) {
        __m256i v[8];
        AVX2_UNROLL
        for (size_t i = 0; i < 8; i++)
            v[i] = avx2_load(from.bytes + i * from.stride + c * 4, 0);
        transpose_8x8_words(v);
        AVX2_UNROLL
        for (size_t i = 0; i < 8; i++)
            avx2_store(to.bytes + (c + i) * to.stride, 0, v[i], false);
    }
}

AVX2_TARGET void tmi_avx2_transpose32(tmi_lines to, tmi_const_lines from, size_t rows,
                                      size_t columns, bool stream) {
    if (rows == 8) {
        transpose_eight_rows(to, from, columns);
        transpose_edges(to, from, rows, columns, 4);
        return;
    }
    unsigned char lines[8 * TRANSPOSE_ROWS * 4];
    for (size_t at = 0; at < (rows & ~(size_t)7); at += TRANSPOSE_ROWS)
        for (size_t c = 0; c + 8 <= columns; c += 8) {
            const unsigned char *s = from.bytes + at * from.stride + c * 4;
            size_t r = 0;
            for (; r < TRANSPOSE_ROWS && at + r + 8 <= rows; r += 8) {
                __m256i v[8];
                AVX2_UNROLL
                for (size_t i = 0; i < 8; i++)
                    v[i] = avx2_load(s + (r + i) * from.stride, 0);
                transpose_8x8_words(v);
                AVX2_UNROLL
                for (size_t i = 0; i < 8; i++)
                    avx2_store(lines + (i * TRANSPOSE_ROWS + r) * 4, 0, v[i], false);
            }
            tmi_lines eight = {to.bytes + c * to.stride + at * 4, to.stride};
            store_eight_lines(eight, (tmi_const_lines){lines, (size_t)TRANSPOSE_ROWS * 4}, r * 4,
                              stream);
        }
    transpose_edges(to, from, rows, columns, 4);
}

/* Interleaves bytes of the first eight vectors with those of the last eight, in 128-bit halves. */
AVX2_INLINE void interleave_bytes(__m256i *to, const __m256i *from) {
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i++) {
        to[2 * i] = _mm256_unpacklo_epi8(from[i], from[i + 8]);
        to[2 * i + 1] = _mm256_unpackhi_epi8(from[i], from[i + 8]);
    }
}

/* Transposes sixteen vectors of bytes: byte i of each becomes vector i, in each 128-bit half. */
AVX2_INLINE void transpose_16x16_bytes(__m256i *v) {
    __m256i other[16];
    interleave_bytes(other, v);
    interleave_bytes(v, other);
    interleave_bytes(other, v);
    interleave_bytes(v, other);
}

/*
 * Takes eight words of 32 rows and transposes the low or the high codes of their bytes, with the
 * codes of two rows packed into one byte.
 */
AVX2_INLINE void transpose_nibbles(tmi_lines to, tmi_const_lines rows, bool high, bool awq_order) {
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i v[16];
    AVX2_UNROLL_16
    for (size_t i = 0; i < 16; i++) {
        __m256i first = avx2_load(rows.bytes + 2 * i * rows.stride, 0);
        __m256i second = avx2_load(rows.bytes + (2 * i + 1) * rows.stride, 0);
        if (high)
            first = _mm256_srli_epi16(first, 4);
        else
            second = _mm256_slli_epi16(second, 4);
        v[i] =
            _mm256_or_si256(_mm256_and_si256(first, nibble), _mm256_andnot_si256(nibble, second));
    }
    transpose_16x16_bytes(v);
    AVX2_UNROLL_16
    for (size_t i = 0; i < 16; i++) {
        /* Where the codes of byte i of four words go: fields 0, 2, 4, 6 or 1, 3, 5, 7 of a word. */
        static const unsigned char row[2][4] = {{0, 4, 1, 5}, {2, 6, 3, 7}};
        size_t field = awq_order ? row[high][i % 4] : i % 4 * 2 + high;
        unsigned char *at = to.bytes + (i / 4 * 8 + field) * to.stride;
        _mm_storeu_si128((__m128i *)(void *)at, _mm256_castsi256_si128(v[i]));
        _mm_storeu_si128((__m128i *)(void *)(at + 32 * to.stride),
                         _mm256_extracti128_si256(v[i], 1));
    }
}

AVX2_INLINE void split_columns_avx2(tmi_lines to, tmi_const_lines rows, size_t count, size_t words,
                                    bool awq_order) {
    size_t whole = words & ~(size_t)7, i = count & ~(size_t)31;
    for (size_t w = 0; w < whole; w += 8)
        for (size_t k = 0; k < i; k += 32) {
            tmi_lines at = {to.bytes + w * 8 * to.stride + k / 2, to.stride};
            tmi_const_lines from = {rows.bytes + k * rows.stride + w * 4, rows.stride};
            transpose_nibbles(at, from, false, awq_order);
            transpose_nibbles(at, from, true, awq_order);
        }
    tmi_lines last = {to.bytes + i / 2, to.stride};
    tmi_lines below = {to.bytes + whole * 8 * to.stride, to.stride};
    if (i < count)
        tmi_scalar_split_columns(last, (tmi_const_lines){rows.bytes + i * rows.stride, rows.stride},
                                 count - i, whole, awq_order);
    if (whole < words)
        tmi_scalar_split_columns(below, (tmi_const_lines){rows.bytes + whole * 4, rows.stride},
                                 count, words - whole, awq_order);
}

AVX2_TARGET void tmi_avx2_split_columns(tmi_lines to, tmi_const_lines rows, size_t count,
                                        size_t words, bool awq_order) {
    if (awq_order)
        split_columns_avx2(to, rows, count, words, true);
    else
        split_columns_avx2(to, rows, count, words, false);
}

/*
 * Splits 16 bytes into 32 codes, one per byte, with codes 8 to 15 and 16 to 23 swapped, so that
 * unpacking the looked-up bytes leaves them in order.
 */
AVX2_INLINE __m256i split_32_codes(const unsigned char *s) {
    __m128i bytes = _mm_shuffle_epi32(avx2_load_half(s, 0), _MM_SHUFFLE(3, 1, 2, 0));
    __m256i both = _mm256_cvtepu8_epi16(bytes);
    both = _mm256_or_si256(both, _mm256_slli_epi16(both, 4));
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

AVX2_INLINE __m256i broadcast_half(__m128i half) {
    return _mm256_broadcastsi128_si256(half);
}

/*
 * 32 values as BF16: the table holds their bits relative to 1.0, and the bits of the power of two
 * are added, except for zeros.
 */
AVX2_INLINE void scale_to_bf16(unsigned char *d, const unsigned char *s,
                               const unsigned char *powers, bool stream) {
    const __m256i low =
        broadcast_half(_mm_setr_epi8(0, (char)0x80, 0, 0x40, (char)0x80, (char)0xc0, 0, 0x40, 0,
                                     (char)0x80, 0, 0x40, (char)0x80, (char)0xc0, 0, 0x40));
    const __m256i high =
        broadcast_half(_mm_setr_epi8(0, -1, 0, 0, 0, 0, 1, 1, (char)0x80, 0x7f, (char)0x80,
                                     (char)0x80, (char)0x80, (char)0x80, (char)0x81, (char)0x81));
    const __m256i counts =
        broadcast_half(_mm_setr_epi8(0, -1, -1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1));
    __m256i codes = split_32_codes(s), mask = _mm256_shuffle_epi8(counts, codes);
    __m256i x = _mm256_shuffle_epi8(low, codes), y = _mm256_shuffle_epi8(high, codes);
    __m256i a = _mm256_and_si256(_mm256_unpacklo_epi8(mask, mask), avx2_load(powers, 0));
    __m256i b = _mm256_and_si256(_mm256_unpackhi_epi8(mask, mask), avx2_load(powers, 1));
    avx2_store(d, 0, _mm256_add_epi16(a, _mm256_unpacklo_epi8(x, y)), stream);
    avx2_store(d, 1, _mm256_add_epi16(b, _mm256_unpackhi_epi8(x, y)), stream);
}

/* Eight values, whose codes are in the low bits of the lanes; the top bit of a code is the sign. */
AVX2_INLINE __m256i scale_eight(__m256i codes, __m128i powers) {
    const __m256 magnitudes = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
    __m256i scale = _mm256_slli_epi32(_mm256_cvtepu16_epi32(powers), 16);
    __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(codes, 3), 31);
    __m256 v = _mm256_permutevar8x32_ps(magnitudes, codes);
    v = _mm256_mul_ps(v, _mm256_castsi256_ps(scale));
    return _mm256_or_si256(_mm256_castps_si256(v), sign);
}

/* 32 values as F32 or F16. */
AVX2_INLINE void scale_to_floats(unsigned char *d, const unsigned char *s,
                                 const unsigned char *powers, avx2_form form) {
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i both = avx2_load_half(s, 0), low = _mm_and_si128(both, nibble);
    __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), nibble);
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m128i codes = i ? _mm_unpackhi_epi8(low, high) : _mm_unpacklo_epi8(low, high);
        __m256i a = scale_eight(_mm256_cvtepu8_epi32(codes), avx2_load_half(powers, 2 * i));
        __m256i b = scale_eight(_mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8)),
                                avx2_load_half(powers, 2 * i + 1));
        if (form.as == TENMAP_F32) {
            avx2_store(d, 2 * i, a, form.stream);
            avx2_store(d, 2 * i + 1, b, form.stream);
        } else {
            __m128i first = f16_from_f32_avx2(a, form.saturate);
            __m128i second = f16_from_f32_avx2(b, form.saturate);
            avx2_store(d, i, _mm256_set_m128i(second, first), form.stream);
        }
    }
}

AVX2_INLINE void scale_run_by_powers(unsigned char *d, const unsigned char *s,
                                     const unsigned char *powers, size_t count, avx2_form form) {
    const size_t width = form.as == TENMAP_F32 ? 4 : 2;
    unsigned char in[16] = {0}, by[64] = {0}, out[128];
    for (; count >= 32; count -= 32, s += 16, powers += 64, d += 32 * width)
        if (form.as == TENMAP_BF16)
            scale_to_bf16(d, s, powers, form.stream);
        else
            scale_to_floats(d, s, powers, form);
    if (!count)
        return;
    memcpy(in, s, (count + 1) / 2);
    memcpy(by, powers, count * 2);
    form.stream = false;
    if (form.as == TENMAP_BF16)
        scale_to_bf16(out, in, by, form.stream);
    else
        scale_to_floats(out, in, by, form);
    memcpy(d, out, count * width);
}

AVX2_TARGET void tmi_avx2_scale_by_powers(void *dst, tenmap_dtype as, const unsigned char *codes,
                                          const unsigned char *powers, size_t count,
                                          uint32_t flags) {
    bool stream = (flags & TENMAP_CONVERT_STREAM) && (uintptr_t)dst % 32 == 0;
    if (as == TENMAP_BF16 && stream)
        scale_run_by_powers(dst, codes, powers, count, (avx2_form){TENMAP_BF16, true, false});
    else if (as == TENMAP_BF16)
        scale_run_by_powers(dst, codes, powers, count, (avx2_form){TENMAP_BF16, false, false});
    else if (as == TENMAP_F32 && stream)
        scale_run_by_powers(dst, codes, powers, count, (avx2_form){TENMAP_F32, true, false});
    else if (as == TENMAP_F32)
        scale_run_by_powers(dst, codes, powers, count, (avx2_form){TENMAP_F32, false, false});
    else
        scale_run_by_powers(
            dst, codes, powers, count,
            (avx2_form){TENMAP_F16, stream, (flags & TENMAP_CONVERT_SATURATE) != 0});
}

#endif
