/*
 * XXH3's loop for long inputs. A block is 16 stripes of 64 bytes. Each stripe is added to eight
 * 64-bit sums, with a part of the secret that moves by 8 bytes from stripe to stripe; the end of a
 * block mixes the bits of each sum. src/values/xxh3.c is the rest of the algorithm.
 */
#ifndef TENMAP_XXH3_BLOCKS_H
#define TENMAP_XXH3_BLOCKS_H

#include "kernels.h"
#include "../base/hash.h"

enum {
    TMI_XXH3_SECRET = 192,
    TMI_XXH3_STRIPE = 64,
    TMI_XXH3_BLOCK = 1024,
    TMI_XXH3_SCRAMBLE_AT = TMI_XXH3_SECRET - TMI_XXH3_STRIPE /* in the secret */
};
#define TMI_XXH3_MULTIPLIER 0x9e3779b1u

extern const uint8_t tmi_xxh3_secret[TMI_XXH3_SECRET];

/* Reads eight bytes as a little-endian number: one load, if that is the host's byte order. */
static inline uint64_t tmi_xxh3_load(const unsigned char *bytes) {
    return TMI_BIG_ENDIAN ? tmi_file_u64(bytes) : tmi_load64((const char *)bytes);
}

/* Adds one stripe, with these 64 bytes of the secret. */
void tmi_xxh3_stripe(uint64_t sums[8], const unsigned char *bytes, const unsigned char *secret);

tmi_xxh3_blocks tmi_scalar_xxh3_blocks;
#if TMI_AVX2
tmi_xxh3_blocks tmi_avx2_xxh3_blocks;
#endif
#if TMI_NEON
tmi_xxh3_blocks tmi_neon_xxh3_blocks;
#endif

#endif
