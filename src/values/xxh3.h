/*
 * XXH3 with 128 bits and without a seed, as its specification defines it: a fast hash that is not
 * cryptographic. Digests are in the canonical form: 16 bytes, the high half first, big-endian.
 */
#ifndef TENMAP_XXH3_H
#define TENMAP_XXH3_H

#include "../kernels/xxh3_blocks.h"

enum { TMI_XXH3_BYTES = 16 };

/* A stream. Its fields are private to xxh3.c. */
typedef struct tmi_xxh3 {
    uint64_t sums[8];
    uint64_t total; /* bytes so far */
    /* The last 64 bytes before those that are held, and up to one block that is held. */
    unsigned char bytes[TMI_XXH3_STRIPE + TMI_XXH3_BLOCK];
    size_t held;
} tmi_xxh3;

void tmi_xxh3_begin(tmi_xxh3 *stream);
/* Adds bytes. How they are cut into pieces does not change the digest. */
void tmi_xxh3_add(tmi_xxh3 *stream, const void *bytes, size_t size);
/* Writes the digest of all bytes so far. The stream may go on. */
void tmi_xxh3_end(const tmi_xxh3 *stream, uint8_t out[TMI_XXH3_BYTES]);
/* Adds a number as `width` bytes, up to 8, the lowest first. */
void tmi_xxh3_add_number(tmi_xxh3 *stream, uint64_t number, size_t width);

#endif
