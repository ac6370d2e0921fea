/* Allocation with checked sizes. */
#include "base.h"

#include <stdlib.h>
#include <string.h>

/*
 * Blocks of this size or more come directly from the system, whose huge pages make fresh memory
 * cheap.
 */
enum { BLOCK_MAP_FROM = 2 << 20 };

void *tmi_calloc(size_t count, size_t size) {
    if (size && count > SIZE_MAX / size)
        return NULL;
    return calloc(count ? count : 1, size ? size : 1);
}

void *tmi_grow(void *array, size_t used, size_t *capacity, size_t size) {
    if (used < *capacity)
        return array;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    if (wanted < *capacity || wanted > SIZE_MAX / size)
        return NULL;
    void *moved = realloc(array, wanted * size);
    if (moved)
        *capacity = wanted;
    return moved;
}

char *tmi_copy_text(const char *text, size_t len) {
    if (len == SIZE_MAX)
        return NULL;
    char *copy = malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

static bool alloc_block(tmi_block *block, size_t size, bool zeroed) {
    *block = (tmi_block){NULL, 0};
    if (size < BLOCK_MAP_FROM) {
        block->bytes = zeroed ? calloc(1, size ? size : 1) : malloc(size ? size : 1);
    } else {
        block->bytes = tmi_pages_alloc(size);
        if (block->bytes)
            block->mapped = size;
    }
    return block->bytes != NULL;
}

bool tmi_block_alloc(tmi_block *block, size_t size) {
    return alloc_block(block, size, true);
}

bool tmi_block_alloc_dirty(tmi_block *block, size_t size) {
    return alloc_block(block, size, false);
}

void tmi_block_trim_pages(tmi_block *block, size_t used) {
    if (block->mapped)
        tmi_pages_trim(block->bytes, &block->mapped, used);
}

void tmi_block_trim(tmi_block *block, size_t used) {
    if (block->mapped) {
        tmi_pages_trim(block->bytes, &block->mapped, used);
    } else if (block->bytes) {
        void *kept = realloc(block->bytes, used ? used : 1);
        if (kept)
            block->bytes = kept;
    }
}

void tmi_block_free(tmi_block *block) {
    if (block->mapped)
        tmi_pages_free(block->bytes, block->mapped);
    else
        free(block->bytes);
    *block = (tmi_block){NULL, 0};
}

void *tenmap_alloc(size_t bytes) {
    return tmi_aligned_alloc(bytes);
}

void tenmap_free(void *memory) {
    if (memory)
        tmi_aligned_free(memory);
}
