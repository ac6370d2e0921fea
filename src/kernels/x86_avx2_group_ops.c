/*
 * AVX2 versions of group_ops.c, and of unpacking 4-bit codes. The target has no fused multiply-add,
 * so no product and sum can be fused.
 */
#include "x86_avx2.h"

#if TMI_AVX2

typedef __m256 avx2_operation(__m256 values, __m256 by);

AVX2_INLINE __m256 avx2_times(__m256 values, __m256 by) {
    return _mm256_mul_ps(values, by);
}

AVX2_INLINE __m256 avx2_minus(__m256 values, __m256 by) {
    return _mm256_sub_ps(values, by);
}

AVX2_INLINE __m256 avx2_plus(__m256 values, __m256 by) {
    return _mm256_add_ps(values, by);
}

/* Processes whole vectors of values that share one number; the rest is left to plain C. */
AVX2_INLINE size_t group_vectors(float *values, size_t count, float shared,
                                 avx2_operation *operation) {
    const __m256 by = _mm256_set1_ps(shared);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        _mm256_storeu_ps(values + i, operation(_mm256_loadu_ps(values + i), by));
        _mm256_storeu_ps(values + i + 8, operation(_mm256_loadu_ps(values + i + 8), by));
    }
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(values + i, operation(_mm256_loadu_ps(values + i), by));
    return i;
}

/* The numbers of groups: the first group has `first` values, each other one `group`. */
typedef struct group_numbers {
    const float *by;
    size_t first, group;
} group_numbers;

AVX2_INLINE void run_groups(float *values, size_t count, group_numbers numbers,
                            avx2_operation *operation, tmi_group_op *plain) {
    const float *by = numbers.by;
    if (numbers.group == 1 && numbers.first == 1) { /* each value has its own number */
        size_t i = 0;
        for (; i + 8 <= count; i += 8)
            _mm256_storeu_ps(values + i,
                             operation(_mm256_loadu_ps(values + i), _mm256_loadu_ps(by + i)));
        if (i < count)
            plain(values + i, count - i, by + i, 1, 1);
        return;
    }
    for (size_t end = numbers.first; count > 0; by++, end = numbers.group) {
        size_t n = end < count ? end : count;
        size_t done = group_vectors(values, n, *by, operation);
        if (done < n)
            plain(values + done, n - done, by, n - done, n - done);
        values += n;
        count -= n;
    }
}

AVX2_TARGET void tmi_avx2_group_times(float *values, size_t count, const float *by, size_t first,
                                      size_t group) {
    run_groups(values, count, (group_numbers){by, first, group}, avx2_times, tmi_group_times);
}

AVX2_TARGET void tmi_avx2_group_minus(float *values, size_t count, const float *by, size_t first,
                                      size_t group) {
    run_groups(values, count, (group_numbers){by, first, group}, avx2_minus, tmi_group_minus);
}

AVX2_TARGET void tmi_avx2_group_plus(float *values, size_t count, const float *by, size_t first,
                                     size_t group) {
    run_groups(values, count, (group_numbers){by, first, group}, avx2_plus, tmi_group_plus);
}

/* 16 bytes hold 32 codes, the low half of a byte first. */
AVX2_TARGET void tmi_avx2_nibbles(float *values, const unsigned char *bytes, size_t count,
                                  int32_t bias) {
    const __m128i low = _mm_set1_epi8(15);
    const __m256i by = _mm256_set1_epi32(bias);
    size_t i = 0;
    for (; i + 32 <= count; i += 32, bytes += 16) {
        __m128i both = avx2_load_half(bytes, 0), a = _mm_and_si128(both, low);
        __m128i b = _mm_and_si128(_mm_srli_epi16(both, 4), low);
        __m128i halves[2] = {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
        AVX2_UNROLL
        for (size_t k = 0; k < 2; k++) {
            __m256i x = _mm256_cvtepu8_epi32(halves[k]);
            __m256i y = _mm256_cvtepu8_epi32(_mm_srli_si128(halves[k], 8));
            float *out = values + i + 16 * k;
            _mm256_storeu_ps(out, _mm256_cvtepi32_ps(_mm256_sub_epi32(x, by)));
            _mm256_storeu_ps(out + 8, _mm256_cvtepi32_ps(_mm256_sub_epi32(y, by)));
        }
    }
    if (i < count)
        tmi_scalar_nibbles(values + i, bytes, count - i, bias);
}

#endif
