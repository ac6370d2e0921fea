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
    tmi_hash_key key;
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

/* How every record begins. Copied out: the records are of other types, so no pointer may alias. */
typedef struct named {
    const char *name;
    size_t len;
} named;

static named record_at(const tmi_names *names, size_t i) {
    named record;
    memcpy(&record, names->records + i * names->stride, sizeof record);
    return record;
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

bool tmi_names_double(tmi_names *names, size_t count) {
    tmi_names wider;
    if (names->mask > SIZE_MAX / 4 ||
        !tmi_names_init(&wider, &names->key, names->records, names->stride, names->mask + 1))
        return false;
    for (size_t i = 0; i < count; i++) {
        named record = record_at(names, i);
        (void)tmi_names_put(&wider, i, tmi_hash(&names->key, record.name, record.len));
    }
    tmi_names_free(names);
    *names = wider;
    return true;
}

void tmi_names_free(tmi_names *names) {
    tmi_block_free(&names->block);
    names->slots = NULL;
}

static uint16_t slot_tag(uint64_t hash) {
    return (uint16_t)(hash >> 48);
}

static uint16_t slot_len(size_t len) {
    return len < UINT16_MAX ? (uint16_t)len : UINT16_MAX;
}

/* The slot where the name is, or the free one where it would go. */
static tmi_slot *probe(const tmi_names *names, const char *name, size_t len, uint64_t hash) {
    size_t at = (size_t)hash & names->mask;
    for (;; at = (at + 1) & names->mask) {
        tmi_slot *slot = &names->slots[at];
        if (!slot->record)
            return slot;
        if (slot->tag == slot_tag(hash) && slot->len == slot_len(len)) {
            size_t i = slot->record - 1u;
#if defined(__GNUC__)
            __builtin_prefetch(names->records + i * names->stride); /* most callers want it next */
#endif
            bool same_len = len < UINT16_MAX || record_at(names, i).len == len;
            if (same_len && memcmp(slot->name, name, len) == 0)
                return slot;
        }
    }
}

size_t tmi_names_put(tmi_names *names, size_t i, uint64_t hash) {
    named record = record_at(names, i);
    tmi_slot *slot = probe(names, record.name, record.len, hash);
    if (slot->record)
        return slot->record - 1u;
    *slot = (tmi_slot){(uint32_t)(i + 1), slot_tag(hash), slot_len(record.len), record.name};
    return TMI_NONE;
}

size_t tmi_names_find(const tmi_names *names, const char *name, size_t len, uint64_t hash) {
    if (!names->slots)
        return TMI_NONE;
    const tmi_slot *slot = probe(names, name, len, hash);
    return slot->record ? slot->record - 1u : TMI_NONE;
}
