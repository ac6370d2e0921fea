/* Builds the header of a GGUF file. No I/O. */
#include "../format/gguf.h"
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_GGUF_ALIGNMENT = 32, LONGEST_GGUF_NAME = 63, HIGHEST_GGUF_RANK = 4 };
/* Bytes of the pair tenmap.padding without its elements: key, type, element type, count. */
enum { PADDING_HEAD = 8 + sizeof TMI_GGUF_PADDING - 1 + 4 + 4 + 8 };
/* The bytes before the pairs: magic, version, and two counts. */
enum { HEAD_BEFORE_PAIRS = 24 };

bool tmi_gguf_key_is(const char *key, size_t len, const char *known) {
    return len == strlen(known) && memcmp(key, known, len) == 0;
}

const char *tmi_gguf_refuses(const tmi_planned *t, char text[TMI_REFUSAL_ROOM]) {
    uint64_t innermost = t->rank ? t->shape[t->rank - 1] : 1, longest = 0;
    uint32_t elements = 1;
    (void)tenmap_dtype_block(t->dtype, &elements, NULL);
    for (uint32_t d = 0; d < t->rank; d++)
        longest = t->shape[d] > longest ? t->shape[d] : longest;
    if (t->name_len > LONGEST_GGUF_NAME)
        snprintf(text, TMI_REFUSAL_ROOM,
                 "its name has %llu bytes; GGUF files hold names of up to %d, so rename it",
                 (ull)t->name_len, LONGEST_GGUF_NAME);
    else if (t->rank > HIGHEST_GGUF_RANK)
        snprintf(text, TMI_REFUSAL_ROOM, "it has %u dimensions; GGUF files hold up to %d",
                 (unsigned)t->rank, HIGHEST_GGUF_RANK);
    else if (longest > INT64_MAX)
        snprintf(text, TMI_REFUSAL_ROOM,
                 "it has a dimension of %llu elements; GGUF files hold up to %llu", (ull)longest,
                 (ull)INT64_MAX);
    else if (!tenmap_dtype_to_ggml(t->dtype, NULL))
        snprintf(text, TMI_REFUSAL_ROOM,
                 "its dtype is %s, which ggml does not have: write it as F32, F16 or BF16",
                 tenmap_dtype_name(t->dtype));
    else if (tmi_dtype_blocks(t->dtype) && innermost % elements)
        snprintf(text, TMI_REFUSAL_ROOM,
                 "its rows of %llu elements are not whole blocks: a block of %s has %u",
                 (ull)innermost, tenmap_dtype_name(t->dtype), (unsigned)elements);
    else
        return NULL;
    return text;
}

static void add_u32(tmi_buffer *out, uint32_t n) {
    unsigned char field[8];
    tmi_layout_length(field, n);
    tmi_buffer_add(out, (const char *)field, 4);
}

static void add_u64(tmi_buffer *out, uint64_t n) {
    unsigned char field[8];
    tmi_layout_length(field, n);
    tmi_buffer_add(out, (const char *)field, 8);
}

static void add_string(tmi_buffer *out, const char *text, size_t len) {
    add_u64(out, len);
    tmi_buffer_add(out, text, len);
}

static void add_zeros(tmi_buffer *out, uint64_t count) {
    static const char zeros[256];
    while (count > 0 && !out->failed) {
        size_t part = count < sizeof zeros ? (size_t)count : sizeof zeros;
        tmi_buffer_add(out, zeros, part);
        count -= part;
    }
}

void tmi_gguf_add_pair(tmi_gguf_text *text, const tmi_pair *pair) {
    tmi_buffer *out = &text->pairs;
    text->pair_count++;
    add_string(out, pair->key, pair->key_len);
    add_u32(out, pair->type);
    if (pair->type == TENMAP_VALUE_ARRAY) {
        add_u32(out, pair->element_type);
        add_u64(out, pair->count);
    } else if (pair->type == TENMAP_VALUE_STRING) {
        add_u64(out, pair->value_len);
    }
    tmi_buffer_add(out, pair->value, pair->value_len);
}

static void add_row(tmi_gguf_text *text, const tmi_gguf_row *row) {
    tmi_buffer *out = &text->rows;
    text->row_count++;
    add_string(out, row->name, row->name_len);
    add_u32(out, row->rank);
    for (uint32_t d = 0; d < row->rank; d++)
        add_u64(out, row->dims[d]);
    add_u32(out, row->type);
    add_u64(out, row->offset);
}

/* Gives the row of a tensor its new name, or none at all. */
static void rename_row(tmi_gguf_row *row, const tmi_renames *renames) {
    if (renames->empty_keys) {
        row->name_len = 0;
        return;
    }
    size_t at = tmi_names_find(&renames->names, row->name, row->name_len,
                               tmi_hash(&renames->names.key, row->name, row->name_len));
    if (at == TMI_NONE)
        return;
    row->name = renames->items[at].to;
    row->name_len = renames->items[at].to_len;
}

bool tmi_gguf_add_rows_of(tmi_gguf_text *text, const void *head, size_t len,
                          const tmi_renames *renames, uint64_t *end) {
    const tmi_place place = {.path = "", .size = len};
    tmi_gguf_reader r = {.walk = {.bytes = head, .have = len, .size = len}, .place = &place};
    bool good = tmi_gguf_begin(&r);
    for (uint64_t i = 0; good && i < r.pairs; i++) {
        const char *key;
        size_t key_len;
        tenmap_value value;
        good = tmi_gguf_pair(&r, &key, &key_len, &value);
    }
    for (uint64_t i = 0; good && i < r.tensors; i++) {
        tmi_gguf_row row;
        good = tmi_gguf_take_row(&r, &row);
        if (good && renames)
            rename_row(&row, renames);
        if (good)
            add_row(text, &row);
    }
    *end = r.walk.at;
    return good && !text->rows.failed;
}

uint64_t tmi_gguf_least(const tmi_gguf_text *text) {
    return HEAD_BEFORE_PAIRS + (uint64_t)text->pairs.len + text->rows.len;
}

uint64_t tmi_gguf_align(uint64_t n, uint32_t alignment) {
    return (n + alignment - 1) & ~(uint64_t)(alignment - 1);
}

bool tmi_gguf_can_end_at(const tmi_gguf_text *text, uint64_t start, uint32_t alignment) {
    uint64_t least = tmi_gguf_least(text);
    return start >= least && start % alignment == 0 &&
           (start - least < alignment || start - least >= PADDING_HEAD);
}

void tmi_gguf_assemble(const tmi_gguf_text *text, uint64_t start, uint32_t alignment,
                       tmi_buffer *out) {
    uint64_t gap = start - tmi_gguf_least(text);
    bool padding = gap >= alignment;
    add_u64(out, text->row_count);
    add_u64(out, text->pair_count + padding);
    tmi_buffer_add(out, text->pairs.bytes, text->pairs.len);
    if (padding) {
        gap -= PADDING_HEAD;
        add_string(out, TMI_GGUF_PADDING, sizeof TMI_GGUF_PADDING - 1);
        add_u32(out, TENMAP_VALUE_ARRAY);
        add_u32(out, TENMAP_VALUE_U8);
        add_u64(out, gap);
        add_zeros(out, gap);
        gap = 0;
    }
    tmi_buffer_add(out, text->rows.bytes, text->rows.len);
    add_zeros(out, gap);
    out->failed = out->failed || text->pairs.failed || text->rows.failed;
}

void tmi_gguf_text_free(tmi_gguf_text *text) {
    free(text->pairs.bytes);
    free(text->rows.bytes);
    *text = (tmi_gguf_text){.row_count = 0};
}

/* The layout of a new file. */

/* The table of tensors, in the order given, each at the next aligned offset. */
static void add_planned_rows(tmi_gguf_text *text, tmi_layout *layout) {
    layout->data_bytes = 0;
    for (size_t i = 0; i < layout->tensor_count; i++) {
        tmi_planned *t = &layout->tensors[i];
        tmi_gguf_row row = {.name = t->name, .name_len = t->name_len, .rank = t->rank};
        (void)tenmap_dtype_to_ggml(t->dtype, &row.type);
        for (uint32_t d = 0; d < t->rank && d < HIGHEST_GGUF_RANK; d++)
            row.dims[d] = t->shape[t->rank - 1 - d];
        row.offset = t->begin = layout->data_bytes;
        add_row(text, &row);
        layout->data_bytes = tmi_gguf_align(t->begin + t->nbytes, layout->alignment);
    }
}

static void add_planned_pairs(tmi_gguf_text *text, const tmi_layout *layout) {
    bool needs_alignment = layout->alignment != USUAL_GGUF_ALIGNMENT;
    unsigned char value[8];
    tmi_pair alignment = {(char[]){TMI_GGUF_ALIGNMENT},
                          sizeof TMI_GGUF_ALIGNMENT - 1,
                          (char *)value,
                          4,
                          TENMAP_VALUE_U32,
                          TENMAP_VALUE_U32,
                          1};
    tmi_layout_length(value, layout->alignment);
    for (size_t i = 0; i < layout->pair_count; i++) {
        const tmi_pair *pair = &layout->pairs[i];
        if (tmi_gguf_key_is(pair->key, pair->key_len, TMI_GGUF_ALIGNMENT))
            needs_alignment = false;
        tmi_gguf_add_pair(text, pair);
    }
    if (needs_alignment)
        tmi_gguf_add_pair(text, &alignment);
}

bool tmi_gguf_layout_build(tmi_layout *layout, tmi_buffer *head) {
    tmi_gguf_text text = {.row_count = 0};
    add_planned_pairs(&text, layout);
    add_planned_rows(&text, layout);
    uint64_t least = tmi_gguf_least(&text);
    if (layout->slack)
        least += PADDING_HEAD + layout->slack;
    *head = (tmi_buffer){NULL, 0, 0, false};
    tmi_buffer_add(head, "GGUF\3\0\0\0", 8);
    tmi_gguf_assemble(&text, tmi_gguf_align(least, layout->alignment), layout->alignment, head);
    tmi_gguf_text_free(&text);
    if (!head->failed)
        return true;
    free(head->bytes);
    *head = (tmi_buffer){NULL, 0, 0, false};
    return false;
}

#endif
