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

/* Bytes of the first eight vectors between those of the last eight, in each half of 128 bits. */
AVX2_INLINE void mingle(__m256i *to, const __m256i *from) {
    AVX2_UNROLL
    for (size_t i = 0; i < 8; i++) {
        to[2 * i] = _mm256_unpacklo_epi8(from[i], from[i + 8]);
        to[2 * i + 1] = _mm256_unpackhi_epi8(from[i], from[i + 8]);
    }
}

/* Sixteen vectors of bytes: byte i of each becomes vector i, in each half. */
AVX2_INLINE void turn_bytes(__m256i *v) {
    __m256i other[16];
    mingle(other, v);
    mingle(v, other);
    mingle(other, v);
    mingle(v, other);
}

/*
 * Eight words of 32 rows: the lower or the higher codes of their bytes, those of two rows in a byte, turned.
 */
AVX2_INLINE void unmix_part(unsigned char *to, size_t line, const unsigned char *rows,
                            size_t stride, bool high) {
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i v[16];
    AVX2_UNROLL
    for (size_t i = 0; i < 16; i++) {
        __m256i first = avx2_load(rows + 2 * i * stride, 0);
        __m256i second = avx2_load(rows + (2 * i + 1) * stride, 0);
        if (high)
            first = _mm256_srli_epi16(first, 4);
        else
            second = _mm256_slli_epi16(second, 4);
        v[i] =
            _mm256_or_si256(_mm256_and_si256(first, nibble), _mm256_andnot_si256(nibble, second));
    }
    turn_bytes(v);
    AVX2_UNROLL
    for (size_t i = 0; i < 16; i++) {
        /* Where the codes of byte i of four words go: fields 0, 2, 4, 6, or 1, 3, 5, 7 of a word. */
        static const unsigned char row[2][4] = {{0, 4, 1, 5}, {2, 6, 3, 7}};
        unsigned char *at = to + (i / 4 * 8 + row[high][i % 4]) * line;
        _mm_storeu_si128((__m128i *)(void *)at, _mm256_castsi256_si128(v[i]));
        _mm_storeu_si128((__m128i *)(void *)(at + 32 * line), _mm256_extracti128_si256(v[i], 1));
    }
}

AVX2_TARGET void tmi_avx2_unmix(unsigned char *to, size_t line, const unsigned char *rows,
                                size_t stride, size_t count, size_t words) {
    size_t whole = words & ~(size_t)7, i = 0;
    for (; i + 32 <= count; i += 32)
        for (size_t w = 0; w < whole; w += 8) {
            unmix_part(to + w * 8 * line + i / 2, line, rows + i * stride + w * 4, stride, false);
            unmix_part(to + w * 8 * line + i / 2, line, rows + i * stride + w * 4, stride, true);
        }
    if (i < count)
        tmi_plain_unmix(to + i / 2, line, rows + i * stride, stride, count - i, whole);
    if (whole < words)
        tmi_plain_unmix(to + whole * 8 * line, line, rows + whole * 4, stride, count,
                        words - whole);
}

#endif
