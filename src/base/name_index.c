/*
 * A hash index over names, with open addressing and at most half full.
 *
 * Names come from untrusted files, so the hash is keyed with random bytes per model: without the
 * key nobody can choose names that collide, so opening takes linear time.
 */
#include "base.h"
#include "hash.h"

#include <string.h>

tmi_hash_key tmi_hash_key_new(void) {
    tmi_hash_key key = {{0, 0}}; /* MemorySanitizer does not see getentropy write */
    tmi_random(&key, sizeof key);
    return key;
}

uint64_t tmi_hash(const tmi_hash_key *key, const char *name, size_t len) {
    return tmi_hash_inline(key, name, len);
}

/*
 * The leading fields of every record. They are copied out because records have other types, so a
 * pointer cast would violate the aliasing rules.
 */
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
    if (!tmi_block_alloc(&names->block, capacity * sizeof *names->slots))
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

/* The slot where the name is, or the free one where it would go. */
static tmi_slot *probe(const tmi_names *names, const char *name, size_t len, uint64_t hash) {
    size_t at = (size_t)hash & names->mask;
    tmi_slot wanted = tmi_slot_of(0, hash, name, len);
    for (;; at = (at + 1) & names->mask) {
        tmi_slot *slot = &names->slots[at];
        if (!slot->record)
            return slot;
        if (slot->tag == wanted.tag && slot->len == wanted.len) {
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
    *slot = tmi_slot_of((uint32_t)(i + 1), hash, record.name, record.len);
    return TMI_NONE;
}

size_t tmi_names_find(const tmi_names *names, const char *name, size_t len, uint64_t hash) {
    if (!names->slots)
        return TMI_NONE;
    const tmi_slot *slot = probe(names, name, len, hash);
    return slot->record ? slot->record - 1u : TMI_NONE;
}
