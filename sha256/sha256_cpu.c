/*
 * SHA-256 with the instructions that x86 and ARM processors have for it. Functions are compiled for
 * them one by one, so no -m flag is needed.
 */
#include "sha256.h"

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#include <cpuid.h>
#include <immintrin.h>

/*
 * Four rounds, with the words a of the message schedule, and then the four words that follow d, in
 * place of a. `feba` and `hgdc` hold half of the state each, in the order of the instructions.
 */
#define FOUR_ROUNDS(a, b, c, d, at)                                                                \
    do {                                                                                           \
        const __m128i *k = (const __m128i *)(tmi_sha256_constants + (at));                         \
        __m128i sum = _mm_add_epi32(a, _mm_loadu_si128(k));                                        \
        hgdc = _mm_sha256rnds2_epu32(hgdc, feba, sum);                                             \
        feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(sum, 0x0e));                    \
        (a) = _mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4));                 \
        (a) = _mm_sha256msg2_epu32(a, d);                                                          \
    } while (0)

__attribute__((target("sha,sse4.1,ssse3"))) static void
compress_sha_ni(uint32_t words[8], const unsigned char *blocks, size_t count) {
    const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)words), 0x1b);
    __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(words + 4)), 0x1b);
    __m128i feba = _mm_unpackhi_epi64(efgh, abcd), hgdc = _mm_unpacklo_epi64(efgh, abcd);
    for (; count > 0; count--, blocks += TMI_SHA256_BLOCK) {
        const __m128i *from = (const __m128i *)blocks;
        __m128i old_feba = feba, old_hgdc = hgdc;
        __m128i w0 = _mm_shuffle_epi8(_mm_loadu_si128(from), swap);
        __m128i w1 = _mm_shuffle_epi8(_mm_loadu_si128(from + 1), swap);
        __m128i w2 = _mm_shuffle_epi8(_mm_loadu_si128(from + 2), swap);
        __m128i w3 = _mm_shuffle_epi8(_mm_loadu_si128(from + 3), swap);
        for (size_t i = 0; i < 64; i += 16) { /* the last words of the schedule are not used */
            FOUR_ROUNDS(w0, w1, w2, w3, i);
            FOUR_ROUNDS(w1, w2, w3, w0, i + 4);
            FOUR_ROUNDS(w2, w3, w0, w1, i + 8);
            FOUR_ROUNDS(w3, w0, w1, w2, i + 12);
        }
        feba = _mm_add_epi32(feba, old_feba);
        hgdc = _mm_add_epi32(hgdc, old_hgdc);
    }
    abcd = _mm_shuffle_epi32(_mm_unpackhi_epi64(hgdc, feba), 0x1b);
    efgh = _mm_shuffle_epi32(_mm_unpacklo_epi64(hgdc, feba), 0x1b);
    _mm_storeu_si128((__m128i *)words, abcd);
    _mm_storeu_si128((__m128i *)(words + 4), efgh);
}

tmi_sha256_compress tmi_sha256_instructions(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 9 & 1) || !(c >> 19 & 1)) /* SSSE3, SSE4.1 */
        return NULL;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1 ? compress_sha_ni : NULL;
}

#elif defined(__aarch64__) && !defined(__ARM_BIG_ENDIAN) &&                                        \
    (defined(__APPLE__) || defined(__linux__)) &&                                                  \
    (defined(__ARM_FEATURE_SHA2) || (defined(__GNUC__) && !defined(__clang__)) ||                  \
     (defined(__clang_major__) && __clang_major__ >= 16))
#include <arm_neon.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

#if defined(__ARM_FEATURE_SHA2)
#define WITH_SHA2
#elif defined(__clang__)
#define WITH_SHA2 __attribute__((target("sha2")))
#else
#define WITH_SHA2 __attribute__((target("+crypto")))
#endif

/* Four rounds, with the words a of the message schedule, and then the words that follow d, in a. */
#define FOUR_ROUNDS(a, b, c, d, at)                                                                \
    do {                                                                                           \
        uint32x4_t sum = vaddq_u32(a, vld1q_u32(tmi_sha256_constants + (at))), before = abcd;      \
        abcd = vsha256hq_u32(abcd, efgh, sum);                                                     \
        efgh = vsha256h2q_u32(efgh, before, sum);                                                  \
        (a) = vsha256su1q_u32(vsha256su0q_u32(a, b), c, d);                                        \
    } while (0)

WITH_SHA2 static void compress_sha2(uint32_t words[8], const unsigned char *blocks, size_t count) {
    uint32x4_t abcd = vld1q_u32(words), efgh = vld1q_u32(words + 4);
    for (; count > 0; count--, blocks += TMI_SHA256_BLOCK) {
        uint32x4_t old_abcd = abcd, old_efgh = efgh;
        uint32x4_t w0 = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks)));
        uint32x4_t w1 = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 16)));
        uint32x4_t w2 = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 32)));
        uint32x4_t w3 = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 48)));
        for (size_t i = 0; i < 64; i += 16) { /* the last words of the schedule are not used */
            FOUR_ROUNDS(w0, w1, w2, w3, i);
            FOUR_ROUNDS(w1, w2, w3, w0, i + 4);
            FOUR_ROUNDS(w2, w3, w0, w1, i + 8);
            FOUR_ROUNDS(w3, w0, w1, w2, i + 12);
        }
        abcd = vaddq_u32(abcd, old_abcd);
        efgh = vaddq_u32(efgh, old_efgh);
    }
    vst1q_u32(words, abcd);
    vst1q_u32(words + 4, efgh);
}

tmi_sha256_compress tmi_sha256_instructions(void) {
#ifdef __linux__
    enum { HAS_SHA2 = 1 << 6 }; /* HWCAP_SHA2 */
    return getauxval(AT_HWCAP) & HAS_SHA2 ? compress_sha2 : NULL;
#else
    return compress_sha2; /* every 64-bit processor of Apple has them */
#endif
}

#else

tmi_sha256_compress tmi_sha256_instructions(void) {
    return NULL;
}

#endif
