/* XXH3's loop over whole blocks with NEON. The eight sums stay in four registers. */
#include "xxh3_blocks.h"

#if TMI_NEON

#include <arm_neon.h>

static inline uint64x2_t xxh3_load_neon(const unsigned char *bytes) {
    return vreinterpretq_u64_u8(vld1q_u8(bytes));
}

static inline uint64x2_t xxh3_add_neon(uint64x2_t sums, const unsigned char *bytes,
                                       const unsigned char *secret) {
    uint64x2_t values = xxh3_load_neon(bytes);
    uint64x2_t keyed = veorq_u64(values, xxh3_load_neon(secret));
    uint64x2_t neighbors = vextq_u64(values, values, 1);
    return vmlal_u32(vaddq_u64(sums, neighbors), vmovn_u64(keyed), vshrn_n_u64(keyed, 32));
}

static inline uint64x2_t xxh3_scramble_neon(uint64x2_t sums, const unsigned char *secret) {
    const uint32x2_t by = vdup_n_u32(TMI_XXH3_MULTIPLIER);
    uint64x2_t mixed = veorq_u64(sums, vshrq_n_u64(sums, 47));
    mixed = veorq_u64(mixed, xxh3_load_neon(secret));
    uint64x2_t high = vshlq_n_u64(vmull_u32(vshrn_n_u64(mixed, 32), by), 32);
    return vmlal_u32(high, vmovn_u64(mixed), by);
}

void tmi_neon_xxh3_blocks(uint64_t sums[8], const unsigned char *bytes, size_t blocks) {
    uint64x2_t s[4];
    for (size_t k = 0; k < 4; k++)
        s[k] = vld1q_u64(sums + 2 * k);
    for (; blocks > 0; blocks--) {
        const unsigned char *secret = tmi_xxh3_secret;
        for (size_t i = 0; i < TMI_XXH3_BLOCK / TMI_XXH3_STRIPE; i++) {
            for (size_t k = 0; k < 4; k++)
                s[k] = xxh3_add_neon(s[k], bytes + 16 * k, secret + 16 * k);
            bytes += TMI_XXH3_STRIPE;
            secret += 8;
        }
        for (size_t k = 0; k < 4; k++)
            s[k] = xxh3_scramble_neon(s[k], tmi_xxh3_secret + TMI_XXH3_SCRAMBLE_AT + 16 * k);
    }
    for (size_t k = 0; k < 4; k++)
        vst1q_u64(sums + 2 * k, s[k]);
}

#endif
