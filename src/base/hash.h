/*
 * The hash function for names. Names come from untrusted files, so the hash is keyed with random
 * bytes per model: without the key nobody can choose names that collide. It is inline for the one
 * loop whose time it dominates; everything else calls tmi_hash.
 */
#ifndef TENMAP_HASH_H
#define TENMAP_HASH_H

#include "base.h"

#include <string.h>

static inline uint64_t tmi_load64(const char *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static inline uint64_t tmi_load32(const char *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* The XOR of the two halves of the 128-bit product. */
static inline uint64_t tmi_fold(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t ll = al * bl, lh = al * bh, hl = ah * bl, hh = ah * bh;
    uint64_t middle = (ll >> 32) + (uint32_t)lh + (uint32_t)hl;
    uint64_t high = hh + (lh >> 32) + (hl >> 32) + (middle >> 32);
    return (middle << 32 | (uint32_t)ll) ^ high;
#endif
}

/*
 * Hashes sixteen bytes per multiplication; the last sixteen may overlap earlier ones. The host's
 * byte order changes the value, but callers cannot observe that.
 */
static TMI_INLINE uint64_t tmi_hash_inline(const tmi_hash_key *key, const char *name, size_t len) {
    uint64_t state = key->k[0], a = 0, b = 0;
    size_t left = len;
    for (; left > 16; left -= 16, name += 16)
        state = tmi_fold(tmi_load64(name) ^ key->k[1], tmi_load64(name + 8) ^ state);
    if (len >= 16) {
        a = tmi_load64(name + left - 16);
        b = tmi_load64(name + left - 8);
    } else if (left >= 8) {
        a = tmi_load64(name);
        b = tmi_load64(name + left - 8);
    } else if (left >= 4) {
        a = tmi_load32(name);
        b = tmi_load32(name + left - 4);
    } else if (left > 0) {
        a = (uint64_t)(unsigned char)name[0] << 16 | (uint64_t)(unsigned char)name[left >> 1] << 8 |
            (unsigned char)name[left - 1];
    }
    state = tmi_fold(a ^ key->k[1], b ^ state);
    return tmi_fold(state ^ key->k[0], (uint64_t)len ^ key->k[1]);
}

#endif
