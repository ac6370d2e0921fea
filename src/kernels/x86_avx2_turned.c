/* AVX2 kernels for matrices that are stored the other way round. */
#include "x86_avx2.h"

#if TMI_AVX2

/* Eight vectors of eight words: word i of each becomes vector i. */
AVX2_INLINE void turn_eight(__m256i *v) {
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

/* The same for eight vectors of eight halves. */
AVX2_INLINE void turn_eight_halves(__m128i *v) {
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

/* What is left of a matrix after whole squares of eight: columns on the right, then rows below. */
AVX2_INLINE void turn_rest(unsigned char *to, size_t to_stride, const unsigned char *from,
                           size_t from_stride, size_t rows, size_t columns, size_t width) {
    size_t whole_rows = rows & ~(size_t)7, whole = columns & ~(size_t)7;
    void (*plain)(unsigned char *, size_t, const unsigned char *, size_t, size_t, size_t, bool) =
        width == 2 ? tmi_plain_turn16 : tmi_plain_turn32;
    if (whole < columns)
        plain(to + whole * to_stride, to_stride, from + whole * width, from_stride, rows,
              columns - whole, false);
    if (whole_rows < rows)
        plain(to + whole_rows * width, to_stride, from + whole_rows * from_stride, from_stride,
              rows - whole_rows, whole, false);
}

/* How many rows are turned at once: eight columns of them stay in the cache. */
enum { TURNED_ROWS = 256 };

/* Eight lines to where they go, each in one piece: those that are written in turns leave no whole ones. */
AVX2_INLINE void place_eight(unsigned char *to, size_t to_stride, const unsigned char *from,
                             size_t from_stride, size_t bytes, bool stream) {
    bool around = stream && (uintptr_t)to % 32 == 0 && to_stride % 32 == 0;
    for (size_t k = 0; k < 8; k++, to += to_stride, from += from_stride) {
        size_t i = 0;
        for (; around && i + 32 <= bytes; i += 32)
            avx2_store(to + i, 0, avx2_load(from + i, 0), true);
        memcpy(to + i, from + i, bytes - i);
    }
}

AVX2_TARGET void tmi_avx2_turn16(unsigned char *to, size_t to_stride, const unsigned char *from,
                                 size_t from_stride, size_t rows, size_t columns, bool stream) {
    unsigned char lines[8 * TURNED_ROWS * 2];
    for (size_t at = 0; at < (rows & ~(size_t)7); at += TURNED_ROWS)
        for (size_t c = 0; c + 8 <= columns; c += 8) {
            const unsigned char *s = from + at * from_stride + c * 2;
            size_t r = 0;
            for (; r < TURNED_ROWS && at + r + 8 <= rows; r += 8) {
                __m128i v[8];
                AVX2_UNROLL
                for (size_t i = 0; i < 8; i++)
                    v[i] = avx2_load_half(s + (r + i) * from_stride, 0);
                turn_eight_halves(v);
                AVX2_UNROLL
                for (size_t i = 0; i < 8; i++)
                    _mm_storeu_si128((__m128i *)(void *)(lines + (i * TURNED_ROWS + r) * 2), v[i]);
            }
            place_eight(to + c * to_stride + at * 2, to_stride, lines, (size_t)TURNED_ROWS * 2,
                        r * 2, stream);
        }
    turn_rest(to, to_stride, from, from_stride, rows, columns, 2);
}

AVX2_TARGET void tmi_avx2_turn32(unsigned char *to, size_t to_stride, const unsigned char *from,
                                 size_t from_stride, size_t rows, size_t columns, bool stream) {
    unsigned char lines[8 * TURNED_ROWS * 4];
    for (size_t at = 0; at < (rows & ~(size_t)7); at += TURNED_ROWS)
        for (size_t c = 0; c + 8 <= columns; c += 8) {
            const unsigned char *s = from + at * from_stride + c * 4;
            size_t r = 0;
            for (; r < TURNED_ROWS && at + r + 8 <= rows; r += 8) {
                __m256i v[8];
                AVX2_UNROLL
                for (size_t i = 0; i < 8; i++)
                    v[i] = avx2_load(s + (r + i) * from_stride, 0);
                turn_eight(v);
                AVX2_UNROLL
                for (size_t i = 0; i < 8; i++)
                    avx2_store(lines + (i * TURNED_ROWS + r) * 4, 0, v[i], false);
            }
            place_eight(to + c * to_stride + at * 4, to_stride, lines, (size_t)TURNED_ROWS * 4,
                        r * 4, stream);
        }
    turn_rest(to, to_stride, from, from_stride, rows, columns, 4);
}

/* Eight words, each with codes of eight rows: the eight codes of each row, in the rows' order. */
AVX2_INLINE void unmix_eight(unsigned char *to, size_t line, __m256i words) {
    const __m256i nibble = _mm256_set1_epi8(15), two = _mm256_set1_epi16(0x1001);
    const __m256i by_byte = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m256i by_half = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    /* Which row each word of the result belongs to: fields 0 2 1 3 4 6 5 7, see tmi_mixed_order. */
    static const unsigned char row[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    uint32_t out[8];
    __m256i low = _mm256_and_si256(words, nibble);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(words, 4), nibble);
    low = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(low, by_byte), by_half);
    high = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(high, by_byte), by_half);
    __m256i packed =
        _mm256_packus_epi16(_mm256_maddubs_epi16(low, two), _mm256_maddubs_epi16(high, two));
    avx2_store((unsigned char *)out, 0, packed, false);
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i++)
        memcpy(to + row[i] * line, &out[i], 4);
}

AVX2_TARGET void tmi_avx2_unmix(unsigned char *to, size_t line, const unsigned char *rows,
                                size_t stride, size_t words) {
    size_t w = 0;
    for (; w + 8 <= words; w += 8) {
        __m256i v[8];
        AVX2_UNROLL
        for (size_t i = 0; i < 8; i++)
            v[i] = avx2_load(rows + i * stride + w * 4, 0);
        turn_eight(v);
        AVX2_UNROLL
        for (size_t i = 0; i < 8; i++)
            unmix_eight(to + (w + i) * 8 * line, line, v[i]);
    }
    if (w < words)
        tmi_plain_unmix(to + w * 8 * line, line, rows + w * 4, stride, words - w);
}

#endif
