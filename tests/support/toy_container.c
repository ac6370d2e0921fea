/*
 * A second container, for tests only, so that nothing above container.c can count on SafeTensors:
 *
 *     8  "TOYTENS1"     4  number of tensors     then for each of them
 *     1  length of the name     the name     1  dtype     1  rank     8  per dimension
 *
 * and the tensors' bytes, one after the other. The header does not state its own length. A tensor
 * whose dtype has its highest bit set has no bytes of its own. It sees a storage: its entry ends in
 *
 *     8  where the storage begins in the tensors' bytes     8  bytes of the storage
 *     8  offset of the first element, in elements     8  stride per dimension, in elements
 */
#include "format/format.h"

#include <stdlib.h>
#include <string.h>

enum { TOY_FIXED = 12, TOY_FIRST_READ = 64, TOY_STRIDED = 0x80 };
static const char toy_magic[8] = {'T', 'O', 'Y', 'T', 'E', 'N', 'S', '1'};

static bool is_toy(const unsigned char *start, size_t len, uint64_t size, uint64_t limit) {
    (void)size, (void)limit;
    return len >= 8 && memcmp(start, toy_magic, 8) == 0;
}

static uint32_t toy_count(const unsigned char *bytes) {
    return bytes[8] | (uint32_t)bytes[9] << 8 | (uint32_t)bytes[10] << 16 |
           (uint32_t)bytes[11] << 24;
}

/* Where the entry that begins at `at` ends; 0 if that is beyond `len` bytes. */
static size_t toy_entry_end(const unsigned char *bytes, size_t at, size_t len) {
    size_t rank_at = at < len ? at + 1 + bytes[at] + 1 : len;
    if (rank_at >= len)
        return 0;
    size_t words = bytes[rank_at];
    if (bytes[rank_at - 1] & TOY_STRIDED)
        words = 2 * words + 3;
    size_t end = rank_at + 1 + 8 * words;
    return end <= len ? end : 0;
}

static tenmap_status find_toy_text(const tmi_place *place, const unsigned char *start, size_t len,
                                   uint64_t limit, tmi_extent *text, tenmap_error *error) {
    size_t at = TOY_FIXED, wanted = len < TOY_FIRST_READ ? TOY_FIRST_READ : 2 * len;
    bool whole = len >= TOY_FIXED;
    for (uint32_t i = 0; whole && i < toy_count(start); i++) {
        at = toy_entry_end(start, at, len);
        whole = at != 0;
    }
    if (whole) {
        *text = (tmi_extent){.at = 0, .length = at};
        return TENMAP_OK;
    }
    if (len >= place->size || len >= limit)
        return tmi_fail_at(error, TENMAP_ERR_FORMAT, place->shard, place->offset + len,
                           "%s: the toy's header does not end", tmi_quote_path(place->path).text);
    text->more = wanted;
    return TENMAP_OK;
}

static bool take_toy_tables(tmi_header *header, const tmi_place *place, uint32_t count,
                            size_t length) {
    header->dim_blocks = 1;
    return tmi_block_alloc(&header->tensors, (count + 1) * sizeof(tenmap_tensor)) &&
           tmi_block_alloc(&header->dims[0], length) &&
           tmi_names_init(&header->names, &place->key, header->tensors.bytes, sizeof(tenmap_tensor),
                          count);
}

/* Copies words of the header, which may lie at any address. */
static const uint64_t *take_toy_words(const unsigned char *bytes, size_t count, uint64_t **room) {
    const uint64_t *words = *room;
    for (size_t i = 0; i < count; i++)
        *(*room)++ = tmi_file_u64(bytes + 8 * i);
    return words;
}

/* Shapes of plain tensors are small here, so no product overflows. */
static tenmap_status place_toy(tmi_header *header, const tmi_place *place, tenmap_tensor *t,
                               const uint64_t *storage, uint64_t *begin, tenmap_error *error) {
    if (storage) {
        tmi_storage seen = {.at = storage[0] > UINT64_MAX - header->data_at
                                      ? UINT64_MAX
                                      : header->data_at + storage[0],
                            .bytes = storage[1],
                            .offset = storage[2],
                            .strides = storage + 3};
        return tmi_declare_strided(header, place, t, &seen, error);
    }
    for (uint32_t d = 0; d < t->rank; d++)
        t->nelems *= t->shape[d];
    (void)tmi_dtype_bytes(t->dtype, t->nelems, &t->nbytes);
    tmi_tensor_set_location(t, place, *begin, true, tmi_dtype_align(t->dtype) - 1u);
    *begin += t->nbytes;
    return TENMAP_OK;
}

static tenmap_status parse_toy(tmi_header *header, const tmi_place *place, tmi_block text,
                               size_t length, tenmap_error *error) {
    unsigned char *bytes = text.bytes;
    uint32_t count = toy_count(bytes);
    *header = (tmi_header){.text = text, .count = count, .data_at = length};
    if (!take_toy_tables(header, place, count, length)) {
        tmi_header_free(header);
        return tmi_fail_memory(error, length, "the toy's tables");
    }
    uint64_t begin = length, *dim = header->dims[0].bytes;
    size_t at = TOY_FIXED;
    for (uint32_t i = 0; i < count; i++) {
        tenmap_tensor *t = (tenmap_tensor *)header->tensors.bytes + i;
        size_t name_len = bytes[at], end = toy_entry_end(bytes, at, length);
        const unsigned char *entry = bytes + at + 1 + name_len;
        bool strided = entry[0] & TOY_STRIDED;
        *t = (tenmap_tensor){.name = (char *)bytes + at + 1, .name_len = name_len, .nelems = 1};
        t->header_position = i;
        t->dtype = entry[0] & (TOY_STRIDED - 1);
        t->rank = entry[1];
        t->shape = take_toy_words(entry + 2, t->rank, &dim);
        const uint64_t *storage =
            strided ? take_toy_words(entry + 2 + (size_t)8 * t->rank, 3 + t->rank, &dim) : NULL;
        bytes[at + 1 + name_len] = '\0'; /* after the name, where the dtype was */
        tenmap_status status = place_toy(header, place, t, storage, &begin, error);
        if (status != TENMAP_OK) {
            tmi_header_free(header);
            return status;
        }
        (void)tmi_names_put(&header->names, i, tmi_hash(&place->key, t->name, t->name_len));
        at = end;
    }
    return TENMAP_OK;
}

extern const tmi_container tmi_toy_container;
const tmi_container tmi_toy_container = {
    .name = "toy", .recognize = is_toy, .find_text = find_toy_text, .parse = parse_toy};
