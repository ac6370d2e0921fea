/*
 * A hash index over names, open addressing, at most half full.
 *
 * Names come from untrusted files, so the hash is keyed with random bytes per model: without the
 * key nobody can choose names that collide, and opening stays linear.
 */
#include "internal.h"

#include <string.h>

static uint64_t load64(const char *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static uint64_t load32(const char *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* The 128-bit product of two words, its halves folded together. */
static uint64_t fold(uint64_t a, uint64_t b) {
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

tmi_hash_key tmi_hash_key_new(void) {
    tmi_hash_key key = {{0, 0}}; /* MemorySanitizer does not see getentropy write */
    tmi_random(&key, sizeof key);
    return key;
}

/*
 * Sixteen bytes per multiplication; the last ones may overlap those before. Byte order changes the
 * value but nothing that a caller can see.
 */
uint64_t tmi_hash(const tmi_hash_key *key, const char *name, size_t len) {
    uint64_t state = key->k[0], a = 0, b = 0;
    size_t left = len;
    for (; left > 16; left -= 16, name += 16)
        state = fold(load64(name) ^ key->k[1], load64(name + 8) ^ state);
    if (len >= 16) {
        a = load64(name + left - 16);
        b = load64(name + left - 8);
    } else if (left >= 8) {
        a = load64(name);
        b = load64(name + left - 8);
    } else if (left >= 4) {
        a = load32(name);
        b = load32(name + left - 4);
    } else if (left > 0) {
        a = (uint64_t)(unsigned char)name[0] << 16 | (uint64_t)(unsigned char)name[left >> 1] << 8 |
            (unsigned char)name[left - 1];
    }
    state = fold(a ^ key->k[1], b ^ state);
    return fold(state ^ key->k[0], (uint64_t)len ^ key->k[1]);
}

bool tmi_names_init(tmi_names *names, const tmi_hash_key *key, const void *records, size_t stride,
                    size_t count) {
    size_t capacity = 8;
    if (count >= UINT32_MAX - 1 || count > SIZE_MAX / 64)
        return false;
    while (capacity < count * 2)
        capacity *= 2;
    *names = (tmi_names){.records = records, .stride = stride, .key = *key, .mask = capacity - 1};
    if (!tmi_block_take(&names->block, capacity * sizeof *names->slots))
        return false;
    names->slots = names->block.bytes;
    return true;
}

void tmi_names_free(tmi_names *names) {
    tmi_block_free(&names->block);
    names->slots = NULL;
}

void tmi_names_prefetch(const tmi_names *names, uint64_t hash) {
#if defined(__GNUC__)
    __builtin_prefetch(&names->slots[hash & names->mask], 1);
#else
    (void)names, (void)hash;
#endif
}

/* How every record begins. Copied out: the records are of other types, so no pointer may alias. */
typedef struct name_record {
    const char *name;
    size_t len;
} name_record;

static name_record record_at(const tmi_names *names, size_t i) {
    name_record record;
    memcpy(&record, names->records + i * names->stride, sizeof record);
    return record;
}

static bool has_name(const tmi_names *names, size_t i, const char *name, size_t len) {
    name_record record = record_at(names, i);
    return record.len == len && memcmp(record.name, name, len) == 0;
}

/* The slot where the name is, or the free one where it would go. */
static size_t probe(const tmi_names *names, const char *name, size_t len, uint64_t hash) {
    size_t at = (size_t)hash & names->mask;
    for (; names->slots[at]; at = (at + 1) & names->mask)
        if (names->slots[at] >> 32 == hash >> 32 &&
            has_name(names, (size_t)(uint32_t)names->slots[at] - 1, name, len))
            break;
    return at;
}

size_t tmi_names_put(tmi_names *names, size_t i, uint64_t hash) {
    name_record record = record_at(names, i);
    size_t at = probe(names, record.name, record.len, hash);
    if (names->slots[at])
        return (size_t)(uint32_t)names->slots[at] - 1;
    names->slots[at] = (hash >> 32 << 32) | (uint32_t)(i + 1);
    return TMI_NONE;
}

size_t tmi_names_find(const tmi_names *names, const char *name, size_t len, uint64_t hash) {
    if (!names->slots)
        return TMI_NONE;
    size_t at = probe(names, name, len, hash);
    return names->slots[at] ? (size_t)(uint32_t)names->slots[at] - 1 : TMI_NONE;
}
