/*
 * A container for tests only, so that nothing above container.c can count on SafeTensors and GGUF.
 * Its directory is at the end of the file, in pieces that may lie anywhere:
 *
 *     8  "TOYTENS1"     the tensors' bytes, one after the other
 *     the table of the pieces: 8  where a piece begins in the file     8  its bytes
 *     8  where the table begins     8  number of pieces     8  "TOYENDS1"
 *
 * The pieces together are the directory:
 *
 *     4  number of tensors     then for each of them
 *     1  length of the name     the name     1  dtype     1  rank     8  per dimension
 *
 * A number of tensors with its highest bit set is followed by what the file says about the model
 * that it is a part of: 8  its number     8  number of parts     8  tensors in all of them
 *
 * A tensor whose dtype has its highest bit set has no bytes of its own. It sees a storage: its
 * entry ends in
 *
 *     8  where the storage begins after the magic     8  bytes of the storage
 *     8  offset of the first element, in elements     8  stride per dimension, in elements
 */
#include "format/format.h"

#include <stdlib.h>
#include <string.h>

enum { TOY_MAGIC = 8, TOY_COUNT = 4, TOY_PART = 24, TOY_FOOTER = 24, TOY_LEAST_ENTRY = 3 };
enum { TOY_STRIDED = 0x80 };
static const char toy_magic[] = "TOYTENS1", toy_end_magic[] = "TOYENDS1";

static bool is_toy(const unsigned char *start, size_t len, uint64_t size, uint64_t limit) {
    (void)size, (void)limit;
    return len >= TOY_MAGIC && memcmp(start, toy_magic, TOY_MAGIC) == 0;
}

static tenmap_status fail_toy(const tmi_place *place, const char *why, tenmap_error *error) {
    return tmi_fail_at(error, TENMAP_ERR_FORMAT, place->shard, place->offset, "%s: %s",
                       tmi_quote_path(place->path).text, why);
}

/* Where the table of pieces lies. */
static tenmap_status read_toy_footer(tmi_header_reader *reader, uint64_t *at, uint64_t *bytes,
                                     tenmap_error *error) {
    const tmi_place *place = reader->place;
    unsigned char footer[TOY_FOOTER];
    if (place->size < TOY_MAGIC + TOY_FOOTER)
        return fail_toy(place, "the toy has no footer", error);
    tenmap_status status = tmi_header_read(reader, place->size - TOY_FOOTER, footer, sizeof footer,
                                           "the footer", error);
    if (status != TENMAP_OK)
        return status;
    uint64_t pieces = tmi_file_u64(footer + 8);
    *at = tmi_file_u64(footer);
    *bytes = pieces > UINT64_MAX / 16 ? UINT64_MAX : 16 * pieces;
    if (memcmp(footer + 16, toy_end_magic, TOY_MAGIC) != 0)
        return fail_toy(place, "the toy does not end in TOYENDS1", error);
    return TENMAP_OK;
}

static tenmap_status find_toy_text(tmi_header_reader *reader, tmi_header_text *text,
                                   tenmap_error *error) {
    uint64_t at = 0, bytes = 0;
    tmi_header_text table = {.length = 0};
    tenmap_status status = read_toy_footer(reader, &at, &bytes, error);
    if (status == TENMAP_OK)
        status = tmi_text_append(reader, &table, at, bytes, "the table", error);
    const unsigned char *piece = table.block.bytes;
    for (uint64_t i = 0; status == TENMAP_OK && i < bytes / 16; i++, piece += 16)
        status = tmi_text_append(reader, text, tmi_file_u64(piece), tmi_file_u64(piece + 8),
                                 "a piece of the directory", error);
    tmi_block_free(&table.block);
    if (status == TENMAP_OK && text->length < TOY_COUNT)
        status = fail_toy(reader->place, "the toy has no directory", error);
    return status;
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

/* Plain tensors lie one after the other, from *begin on. */
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
    for (uint32_t d = 0; d < t->rank; d++) {
        if (t->shape[d] && t->nelems > place->size / t->shape[d])
            return fail_toy(place, "a tensor is larger than the toy", error);
        t->nelems *= t->shape[d];
    }
    if (!tmi_dtype_bytes(t->dtype, t->nelems, &t->nbytes) || t->nbytes > place->size - *begin)
        return fail_toy(place, "a tensor does not fit into the toy", error);
    tmi_tensor_set_location(t, place, *begin, true, tmi_dtype_align(t->dtype) - 1u);
    *begin += t->nbytes;
    return TENMAP_OK;
}

/* The number of tensors, and where the first entry begins; SIZE_MAX: not that many fit. */
static size_t begin_toy(tmi_header *header, const unsigned char *bytes, size_t length, size_t *at) {
    uint32_t count = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                     (uint32_t)(bytes[3] & 0x7f) << 24;
    bool is_part = bytes[3] & 0x80;
    *at = TOY_COUNT + (is_part ? TOY_PART : 0);
    if (*at > length || count > (length - *at) / TOY_LEAST_ENTRY)
        return SIZE_MAX;
    if (is_part)
        header->split = (tmi_split){.number = tmi_file_u64(bytes + 4),
                                    .count = tmi_file_u64(bytes + 12),
                                    .counts_tensors = true,
                                    .tensors = tmi_file_u64(bytes + 20)};
    return count;
}

/* Takes the entry at *at as tensor `i`. */
static tenmap_status take_toy_entry(tmi_header *header, const tmi_place *place, size_t i,
                                    size_t *at, size_t length, uint64_t **dim, uint64_t *begin,
                                    tenmap_error *error) {
    unsigned char *bytes = header->text.bytes;
    tenmap_tensor *t = (tenmap_tensor *)header->tensors.bytes + i;
    size_t end = toy_entry_end(bytes, *at, length);
    if (end == 0)
        return fail_toy(place, "the toy's directory ends inside an entry", error);
    size_t name_len = bytes[*at];
    const unsigned char *entry = bytes + *at + 1 + name_len;
    bool strided = entry[0] & TOY_STRIDED;
    *t = (tenmap_tensor){.name = (char *)bytes + *at + 1, .name_len = name_len, .nelems = 1};
    t->header_position = i;
    t->dtype = entry[0] & (TOY_STRIDED - 1);
    t->rank = entry[1];
    t->shape = take_toy_words(entry + 2, t->rank, dim);
    const uint64_t *storage =
        strided ? take_toy_words(entry + 2 + (size_t)8 * t->rank, 3 + t->rank, dim) : NULL;
    bytes[*at + 1 + name_len] = '\0'; /* after the name, where the dtype was */
    *at = end;
    return place_toy(header, place, t, storage, begin, error);
}

static tenmap_status parse_toy(tmi_header *header, const tmi_place *place, tmi_block text,
                               size_t length, tenmap_error *error) {
    *header = (tmi_header){.text = text, .data_at = TOY_MAGIC};
    size_t at, count = begin_toy(header, text.bytes, length, &at);
    tenmap_status status = TENMAP_OK;
    if (count == SIZE_MAX)
        status = fail_toy(place, "the toy's directory is too short for its tensors", error);
    else if (!take_toy_tables(header, place, (uint32_t)count, length))
        status = tmi_fail_memory(error, length, "the toy's tables");
    uint64_t begin = TOY_MAGIC, *dim = header->dims[0].bytes;
    for (size_t i = 0; i < count && status == TENMAP_OK; i++) {
        status = take_toy_entry(header, place, i, &at, length, &dim, &begin, error);
        const tenmap_tensor *t = (const tenmap_tensor *)header->tensors.bytes + i;
        if (status == TENMAP_OK)
            (void)tmi_names_put(&header->names, i, tmi_hash(&place->key, t->name, t->name_len));
        header->count = i + 1;
    }
    if (status != TENMAP_OK)
        tmi_header_free(header);
    return status;
}

static const char *const toy_endings[] = {".toy", NULL};
static const char *const toy_first[] = {"best.toy", NULL};
static const char *const toy_last[] = {"helper", NULL};
static const tmi_folder_names toy_folder = {
    .endings = toy_endings, .has_index = true, .first = toy_first, .last = toy_last};
static const tmi_split_names toy_split = {
    .ending = ".toy", .number = "part", .count = "parts", .tensors = "all"};

extern const tmi_container tmi_toy_container;
const tmi_container tmi_toy_container = {.name = "toy",
                                         .recognize = is_toy,
                                         .find_text = find_toy_text,
                                         .parse = parse_toy,
                                         .folder = &toy_folder,
                                         .split = &toy_split};
