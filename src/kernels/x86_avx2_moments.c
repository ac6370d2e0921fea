/*
 * Sums BF16, F16 and F32 with AVX2: four vectors of four doubles hold the sixteen lanes of
 * moments.h. Zeros, subnormals, extremes, infinities and NaN are found by comparing the bits as
 * integers. A block with an infinity, a NaN or a number that is subnormal in F32 is left to plain
 * C, so this code need not handle them correctly.
 *
 * If requested, 16-bit elements are counted by their codes in the same loop that adds them:
 * counting is bound by stores, one per clock, and adding is bound by arithmetic, so the two
 * overlap.
 */
#include "moments.h"
#include "x86_avx2.h"

#if TMI_AVX2 && !defined(TENMAP_NO_MEASURE)

typedef struct avx2_sums {
    __m256d sum[4], square[4];
} avx2_sums;

/* Adds four elements. The multiplication must not be fused with the addition after it. */
AVX2_INLINE void avx2_add(avx2_sums *s, size_t lane, __m256d x) {
    __m256d square = _mm256_mul_pd(x, x);
    __asm__("" : "+x"(square));
    s->sum[lane] = _mm256_add_pd(s->sum[lane], x);
    s->square[lane] = _mm256_add_pd(s->square[lane], square);
}

/*
 * 16-bit elements have at most 11 significant bits, so their squares are exact in double, and a
 * fused multiply-add rounds like two separate steps. Only here may the compiler use one.
 */
#define AVX2_FMA __attribute__((target("avx2,f16c,fma")))

AVX2_FMA static inline __attribute__((always_inline)) void avx2_add_exact(avx2_sums *s, size_t lane,
                                                                          __m128 v) {
    __m256d x = _mm256_cvtps_pd(v);
    s->sum[lane] = _mm256_add_pd(s->sum[lane], x);
    s->square[lane] = _mm256_fmadd_pd(x, x, s->square[lane]);
}

AVX2_FMA static inline __attribute__((always_inline)) void avx2_add_both(avx2_sums *s, size_t low,
                                                                         size_t high, __m256i x) {
    __m256 v = _mm256_castsi256_ps(x);
    avx2_add_exact(s, low, _mm256_castps256_ps128(v));
    avx2_add_exact(s, high, _mm256_extractf128_ps(v, 1));
}

AVX2_INLINE avx2_sums avx2_sums_begin(void) {
    avx2_sums s;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++)
        s.sum[i] = s.square[i] = _mm256_setzero_pd();
    return s;
}

AVX2_INLINE void avx2_sums_end(const avx2_sums *s, tmi_lanes *lanes, size_t count) {
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_pd(lanes->sum + 4 * i, s->sum[i]);
        _mm256_storeu_pd(lanes->square + 4 * i, s->square[i]);
    }
    lanes->finite = count;
}

/*
 * The extremes of a block of codes. Compared as signed integers, the codes of positive numbers are
 * in order; compared as unsigned integers, those of negative numbers are in reverse order. The
 * least unsigned code is the other extreme of a block whose numbers all have one sign. A NaN or an
 * infinity is beyond all finite numbers in one of the two orders.
 */
typedef struct avx2_range {
    uint32_t most_positive, most_negative, least_unsigned; /* codes of 16 or of 32 bits */
    uint32_t small;                                        /* how many are zero or subnormal */
} avx2_range;

/*
 * Finding the extremes and adding are separate loops, because one loop for both would need more
 * registers than there are. The second loop finds the block in the L1 cache and prefetches the next
 * one.
 */
AVX2_TARGET static avx2_range avx2_look_16(const unsigned char *at, size_t count,
                                           int least_normal) {
    const __m256i mask = _mm256_set1_epi16(0x7fff), normal = _mm256_set1_epi16((short)least_normal);
    __m256i positive = _mm256_set1_epi16(INT16_MIN), negative = _mm256_setzero_si256();
    __m256i least = _mm256_set1_epi16(-1), small = negative;
    for (size_t i = 0; i < count; i += 16, at += 32) {
        __m256i v = avx2_load(at, 0), magnitude = _mm256_and_si256(v, mask);
        positive = _mm256_max_epi16(positive, v);
        negative = _mm256_max_epu16(negative, v);
        least = _mm256_min_epu16(least, v);
        small = _mm256_sub_epi16(small, _mm256_cmpgt_epi16(normal, magnitude));
    }
    uint16_t v[4][16];
    avx2_range r = {0x8000, 0, 0xffff, 0};
    _mm256_storeu_si256((__m256i *)(void *)v[0], positive);
    _mm256_storeu_si256((__m256i *)(void *)v[1], negative);
    _mm256_storeu_si256((__m256i *)(void *)v[2], least);
    _mm256_storeu_si256((__m256i *)(void *)v[3], small);
    for (size_t i = 0; i < 16; i++) {
        r.most_positive = (int16_t)v[0][i] > (int16_t)r.most_positive ? v[0][i] : r.most_positive;
        r.most_negative = v[1][i] > r.most_negative ? v[1][i] : r.most_negative;
        r.least_unsigned = v[2][i] < r.least_unsigned ? v[2][i] : r.least_unsigned;
        r.small += v[3][i];
    }
    return r;
}

AVX2_TARGET static avx2_range avx2_look_32(const unsigned char *at, size_t count) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff), normal = _mm256_set1_epi32(0x00800000);
    __m256i positive = _mm256_set1_epi32(INT32_MIN), negative = _mm256_setzero_si256();
    __m256i least = _mm256_set1_epi32(-1), small = negative;
    for (size_t i = 0; i < count; i += 8, at += 32) {
        __m256i v = avx2_load(at, 0), magnitude = _mm256_and_si256(v, mask);
        positive = _mm256_max_epi32(positive, v);
        negative = _mm256_max_epu32(negative, v);
        least = _mm256_min_epu32(least, v);
        small = _mm256_sub_epi32(small, _mm256_cmpgt_epi32(normal, magnitude));
    }
    uint32_t v[4][8];
    avx2_range r = {0x80000000u, 0, UINT32_MAX, 0};
    _mm256_storeu_si256((__m256i *)(void *)v[0], positive);
    _mm256_storeu_si256((__m256i *)(void *)v[1], negative);
    _mm256_storeu_si256((__m256i *)(void *)v[2], least);
    _mm256_storeu_si256((__m256i *)(void *)v[3], small);
    for (size_t i = 0; i < 8; i++) {
        r.most_positive = (int32_t)v[0][i] > (int32_t)r.most_positive ? v[0][i] : r.most_positive;
        r.most_negative = v[1][i] > r.most_negative ? v[1][i] : r.most_negative;
        r.least_unsigned = v[2][i] < r.least_unsigned ? v[2][i] : r.least_unsigned;
        r.small += v[3][i];
    }
    return r;
}

AVX2_TARGET static uint32_t avx2_zeros_16(const unsigned char *at, size_t count) {
    const __m256i mask = _mm256_set1_epi16(0x7fff), none = _mm256_setzero_si256();
    __m256i zeros = none;
    uint16_t v[16];
    uint32_t all = 0;
    for (size_t i = 0; i < count; i += 16, at += 32) {
        __m256i magnitude = _mm256_and_si256(avx2_load(at, 0), mask);
        zeros = _mm256_sub_epi16(zeros, _mm256_cmpeq_epi16(magnitude, none));
    }
    _mm256_storeu_si256((__m256i *)(void *)v, zeros);
    for (size_t i = 0; i < 16; i++)
        all += v[i];
    return all;
}

AVX2_TARGET static uint32_t avx2_zeros_32(const unsigned char *at, size_t count) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff), none = _mm256_setzero_si256();
    __m256i zeros = none;
    uint32_t v[8], all = 0;
    for (size_t i = 0; i < count; i += 8, at += 32) {
        __m256i magnitude = _mm256_and_si256(avx2_load(at, 0), mask);
        zeros = _mm256_sub_epi32(zeros, _mm256_cmpeq_epi32(magnitude, none));
    }
    _mm256_storeu_si256((__m256i *)(void *)v, zeros);
    for (size_t i = 0; i < 8; i++)
        all += v[i];
    return all;
}

/* The codes of the least and the greatest number. */
static uint32_t avx2_least(const avx2_range *r, uint32_t sign) {
    return r->most_negative & sign ? r->most_negative : r->least_unsigned;
}

static uint32_t avx2_greatest(const avx2_range *r, uint32_t sign) {
    return r->most_positive & sign ? r->least_unsigned : r->most_positive;
}

static bool avx2_is_finite(const avx2_range *r, uint32_t sign, uint32_t infinity) {
    return avx2_greatest(r, sign) < infinity + (r->most_positive & sign) &&
           (avx2_least(r, sign) & ~sign) < infinity;
}

/* Counts sixteen codes, in two halves so that neither waits for the other's shifts. */
static inline __attribute__((always_inline)) void avx2_count_codes(uint32_t *codes,
                                                                   const unsigned char *at) {
    AVX2_UNROLL
    for (size_t half = 0; half < 2; half++) {
        uint64_t a, b;
        memcpy(&a, at + 16 * half, sizeof a);
        memcpy(&b, at + 16 * half + 8, sizeof b);
        AVX2_UNROLL
        for (unsigned k = 0; k < 4; k++) {
            codes[a & 0xffff]++;
            codes[b & 0xffff]++;
            a >>= 16;
            b >>= 16;
        }
    }
}

/* Whether `codes` is NULL is a compile-time constant wherever this is inlined. */
AVX2_FMA static inline __attribute__((always_inline)) avx2_sums
avx2_sums_bf16(const unsigned char *at, size_t count, uint32_t *codes) {
    const __m256i zero = _mm256_setzero_si256();
    avx2_sums s = avx2_sums_begin();
    for (size_t i = 0; i < count; i += TMI_LANES, at += (size_t)2 * TMI_LANES) {
        __m256i v = avx2_load(at, 0);
        _mm_prefetch((const char *)at + (size_t)2 * TMI_MEASURE_BLOCK, _MM_HINT_T0);
        /* Unpacking works within 128-bit halves: elements 0-3 and 8-11, then 4-7 and 12-15. */
        avx2_add_both(&s, 0, 2, _mm256_unpacklo_epi16(zero, v));
        avx2_add_both(&s, 1, 3, _mm256_unpackhi_epi16(zero, v));
        if (codes)
            avx2_count_codes(codes, at);
    }
    return s;
}

AVX2_FMA bool tmi_avx2_moments_bf16(tmi_lanes *lanes, const void *src, size_t count,
                                    uint32_t *codes) {
    const unsigned char *at = src;
    avx2_range r = avx2_look_16(at, count, 0x0080);
    uint32_t zeros = r.small ? avx2_zeros_16(at, count) : 0;
    if (!avx2_is_finite(&r, 0x8000, 0x7f80) || r.small != zeros)
        return false;
    avx2_sums s = codes ? avx2_sums_bf16(at, count, codes) : avx2_sums_bf16(at, count, NULL);
    avx2_sums_end(&s, lanes, count);
    lanes->zeros = zeros;
    lanes->least = tmi_key_of_f32(avx2_least(&r, 0x8000) << 16);
    lanes->greatest = tmi_key_of_f32(avx2_greatest(&r, 0x8000) << 16);
    return true;
}

AVX2_TARGET static uint32_t avx2_widen_f16(uint32_t code) {
    __m128 f32 = _mm_cvtph_ps(_mm_cvtsi32_si128((int)code));
    return (uint32_t)_mm_cvtsi128_si32(_mm_castps_si128(f32));
}

AVX2_FMA static inline __attribute__((always_inline)) avx2_sums
avx2_sums_f16(const unsigned char *at, size_t count, uint32_t *codes) {
    avx2_sums s = avx2_sums_begin();
    for (size_t i = 0; i < count; i += TMI_LANES, at += (size_t)2 * TMI_LANES) {
        _mm_prefetch((const char *)at + (size_t)2 * TMI_MEASURE_BLOCK, _MM_HINT_T0);
        avx2_add_both(&s, 0, 1, _mm256_castps_si256(_mm256_cvtph_ps(avx2_load_half(at, 0))));
        avx2_add_both(&s, 2, 3, _mm256_castps_si256(_mm256_cvtph_ps(avx2_load_half(at, 1))));
        if (codes)
            avx2_count_codes(codes, at);
    }
    return s;
}

AVX2_FMA bool tmi_avx2_moments_f16(tmi_lanes *lanes, const void *src, size_t count,
                                   uint32_t *codes) {
    const unsigned char *at = src;
    avx2_range r = avx2_look_16(at, count, 0x0400);
    uint32_t zeros = r.small ? avx2_zeros_16(at, count) : 0;
    if (!avx2_is_finite(&r, 0x8000, 0x7c00))
        return false;
    avx2_sums s = codes ? avx2_sums_f16(at, count, codes) : avx2_sums_f16(at, count, NULL);
    avx2_sums_end(&s, lanes, count);
    lanes->zeros = zeros;
    lanes->subnormals = r.small - zeros;
    lanes->least = tmi_key_of_f32(avx2_widen_f16(avx2_least(&r, 0x8000)));
    lanes->greatest = tmi_key_of_f32(avx2_widen_f16(avx2_greatest(&r, 0x8000)));
    return true;
}

AVX2_TARGET bool tmi_avx2_moments_f32(tmi_lanes *lanes, const void *src, size_t count,
                                      uint32_t *codes) {
    const unsigned char *at = src;
    (void)codes;
    const uint32_t sign = 0x80000000u;
    avx2_range r = avx2_look_32(at, count);
    uint32_t zeros = r.small ? avx2_zeros_32(at, count) : 0;
    if (!avx2_is_finite(&r, sign, 0x7f800000) || r.small != zeros)
        return false;
    uint32_t first;
    memcpy(&first, at, sizeof first);
    if (lanes->shifts)
        lanes->shift = tmi_widen_f32(first);
    const __m256d shift = _mm256_set1_pd(lanes->shift);
    avx2_sums s = avx2_sums_begin();
    for (size_t i = 0; i < count; i += TMI_LANES, at += (size_t)4 * TMI_LANES) {
        _mm_prefetch((const char *)at + (size_t)4 * TMI_MEASURE_BLOCK, _MM_HINT_T0);
        AVX2_UNROLL
        for (size_t k = 0; k < 4; k++) {
            __m128 x = _mm_castsi128_ps(avx2_load_half(at, k));
            avx2_add(&s, k, _mm256_sub_pd(_mm256_cvtps_pd(x), shift));
        }
    }
    avx2_sums_end(&s, lanes, count);
    lanes->zeros = zeros;
    lanes->least = tmi_key_of_f32(avx2_least(&r, sign));
    lanes->greatest = tmi_key_of_f32(avx2_greatest(&r, sign));
    return true;
}

AVX2_TARGET void tmi_avx2_f32_find_bins(uint32_t *places, const void *src, size_t count,
                                        const tmi_f32_bins *bins) {
    const unsigned char *at = src;
    const __m256 scale = _mm256_set1_ps(bins->scale), offset = _mm256_set1_ps(bins->offset);
    const __m256 near_next = _mm256_set1_ps(bins->near_next);
    const __m256i low = _mm256_set1_epi32(bins->low), high = _mm256_set1_epi32(bins->high);
    const __m256i none = _mm256_set1_epi32((int)bins->bins);
    for (size_t i = 0; i < count; i += 8, at += 32) {
        __m256i v = avx2_load(at, 0);
        __m256i key = _mm256_xor_si256(v, _mm256_srli_epi32(_mm256_srai_epi32(v, 31), 1));
        __m256i outside =
            _mm256_or_si256(_mm256_cmpgt_epi32(low, key), _mm256_cmpgt_epi32(key, high));
        __m256 place = _mm256_sub_ps(_mm256_mul_ps(_mm256_castsi256_ps(v), scale), offset);
        __m256i bin = _mm256_andnot_si256(outside, _mm256_cvttps_epi32(place));
        __m256 fraction = _mm256_sub_ps(place, _mm256_cvtepi32_ps(bin));
        __m256i next = _mm256_castps_si256(_mm256_cmp_ps(fraction, near_next, _CMP_GE_OQ));
        if (!_mm256_testc_si256(outside, next)) { /* at least one value inside is near an edge */
            __m256i edge = _mm256_i32gather_epi32(bins->edges + 1, bin, 4);
            bin = _mm256_add_epi32(bin, _mm256_set1_epi32(1));
            bin = _mm256_add_epi32(bin, _mm256_cmpgt_epi32(edge, key));
        }
        bin = _mm256_blendv_epi8(bin, none, outside);
        avx2_store((unsigned char *)(places + i), 0, bin, false);
    }
}

#endif
