/*
 * Sorts tensors into file order: by begin, then end, then header order. While headers are parsed,
 * nbytes is the end (SafeTensors) or the size (GGUF); for tensors that begin at the same offset,
 * both give the same order.
 */
#include "format.h"

static bool goes_before(const tmi_sort_key *a, const tmi_sort_key *b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
}

/* Merges keys[first, middle) and keys[middle, end) into out; equal keys keep their order. */
static void merge(const tmi_sort_key *keys, tmi_sort_key *out, size_t first, size_t middle,
                  size_t end) {
    size_t a = first, b = middle;
    for (size_t i = first; i < end; i++) {
        bool take_b = a == middle || (b < end && goes_before(&keys[b], &keys[a]));
        out[i] = take_b ? keys[b++] : keys[a++];
    }
}

tmi_sort_key *tmi_sort_keys(tmi_sort_key *keys, tmi_sort_key *scratch, size_t count) {
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t first = 0; first < count; first += 2 * width) {
            size_t middle = first + width < count ? first + width : count;
            size_t end = middle + width < count ? middle + width : count;
            merge(keys, scratch, first, middle, end);
        }
        tmi_sort_key *done = scratch;
        scratch = keys;
        keys = done;
    }
    return keys;
}

bool tmi_order_tensors(tmi_block *tensors, size_t count) {
    tmi_block keys_block, sorted_block;
    if (count > SIZE_MAX / 2 / sizeof(tmi_sort_key) ||
        !tmi_block_alloc(&keys_block, 2 * count * sizeof(tmi_sort_key)))
        return false;
    if (!tmi_block_alloc(&sorted_block, count * sizeof(tenmap_tensor))) {
        tmi_block_free(&keys_block);
        return false;
    }
    tmi_sort_key *keys = keys_block.bytes;
    const tenmap_tensor *given = tensors->bytes;
    tenmap_tensor *sorted = sorted_block.bytes;
    for (size_t i = 0; i < count; i++)
        keys[i] = (tmi_sort_key){given[i].file_offset, given[i].nbytes, i};
    keys = tmi_sort_keys(keys, keys + count, count);
    for (size_t i = 0; i < count; i++)
        sorted[i] = given[keys[i].from];
    tmi_block_free(&keys_block);
    tmi_block_free(tensors);
    *tensors = sorted_block;
    return true;
}
