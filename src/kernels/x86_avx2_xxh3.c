/* XXH3's loop over whole blocks with AVX2. The eight sums stay in two registers. */
#include "xxh3_blocks.h"
#include "x86_avx2.h"

#if TMI_AVX2

enum { XXH3_AHEAD = 512 }; /* bytes that are prefetched ahead */

/* The high half of each 64-bit number, in place of the low half. */
AVX2_INLINE __m256i xxh3_high_avx2(__m256i numbers) {
    return _mm256_shuffle_epi32(numbers, 0xf5);
}

AVX2_INLINE __m256i xxh3_add_avx2(__m256i sums, __m256i values, __m256i secret) {
    __m256i keyed = _mm256_xor_si256(values, secret);
    __m256i product = _mm256_mul_epu32(keyed, xxh3_high_avx2(keyed));
    __m256i neighbors = _mm256_shuffle_epi32(values, 0x4e);
    return _mm256_add_epi64(product, _mm256_add_epi64(sums, neighbors));
}

AVX2_INLINE __m256i xxh3_scramble_avx2(__m256i sums, __m256i secret) {
    const __m256i by = _mm256_set1_epi64x(TMI_XXH3_MULTIPLIER);
    __m256i mixed = _mm256_xor_si256(sums, _mm256_srli_epi64(sums, 47));
    mixed = _mm256_xor_si256(mixed, secret);
    __m256i high = _mm256_mul_epu32(xxh3_high_avx2(mixed), by);
    return _mm256_add_epi64(_mm256_mul_epu32(mixed, by), _mm256_slli_epi64(high, 32));
}

AVX2_TARGET void tmi_avx2_xxh3_blocks(uint64_t sums[8], const unsigned char *bytes, size_t blocks) {
    __m256i low = avx2_load((const unsigned char *)sums, 0);
    __m256i high = avx2_load((const unsigned char *)sums, 1);
    for (; blocks > 0; blocks--) {
        const unsigned char *secret = tmi_xxh3_secret;
        for (size_t i = 0; i < TMI_XXH3_BLOCK / TMI_XXH3_STRIPE; i++) {
            _mm_prefetch((const char *)(uintptr_t)((uintptr_t)bytes + XXH3_AHEAD), _MM_HINT_T0);
            low = xxh3_add_avx2(low, avx2_load(bytes, 0), avx2_load(secret, 0));
            high = xxh3_add_avx2(high, avx2_load(bytes, 1), avx2_load(secret, 1));
            bytes += TMI_XXH3_STRIPE;
            secret += 8;
        }
        secret = tmi_xxh3_secret + TMI_XXH3_SCRAMBLE_AT;
        low = xxh3_scramble_avx2(low, avx2_load(secret, 0));
        high = xxh3_scramble_avx2(high, avx2_load(secret, 1));
    }
    avx2_store((unsigned char *)sums, 0, low, false);
    avx2_store((unsigned char *)sums, 1, high, false);
}

#endif
