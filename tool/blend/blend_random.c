/*
 * Random numbers as a function of a position, so that any part of a tensor can be computed in any
 * order: number i of a sequence of SplitMix64. docs/blend.md states it.
 */
#include "blend/blend.h"

static const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);

/* The output function of SplitMix64. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* FNV-1a */
static uint64_t hash_name(const char *name, size_t len) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t random_key(uint64_t seed, const char *name, size_t name_len, uint64_t model) {
    return mix(mix(mix(seed + golden) ^ hash_name(name, name_len)) ^ model);
}

uint64_t random_number(uint64_t key, uint64_t index) {
    return mix(key + (index + 1) * golden) >> 11;
}
