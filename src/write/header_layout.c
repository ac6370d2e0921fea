/* Builds the text of a header as the reference implementation writes it. No I/O. */
#include "../format/json.h"
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool buffer_room(tmi_buffer *buffer, size_t more) {
    if (buffer->failed || more > SIZE_MAX / 4 - buffer->len) {
        buffer->failed = true;
        return false;
    }
    if (buffer->len + more > buffer->capacity) {
        size_t wanted = buffer->capacity ? buffer->capacity : 256;
        while (wanted < buffer->len + more)
            wanted *= 2;
        char *moved = realloc(buffer->bytes, wanted);
        if (!moved) {
            buffer->failed = true;
            return false;
        }
        buffer->bytes = moved;
        buffer->capacity = wanted;
    }
    return true;
}

void tmi_buffer_add(tmi_buffer *buffer, const char *bytes, size_t len) {
    if (len == 0 || !buffer_room(buffer, len))
        return;
    memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
}

void tmi_buffer_text(tmi_buffer *buffer, const char *text) {
    tmi_buffer_add(buffer, text, strlen(text));
}

void tmi_buffer_number(tmi_buffer *buffer, uint64_t n) {
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", (ull)n);
    tmi_buffer_add(buffer, digits, (size_t)len);
}

void tmi_buffer_pad(tmi_buffer *buffer, size_t len) {
    if (len <= buffer->len || !buffer_room(buffer, len - buffer->len))
        return;
    memset(buffer->bytes + buffer->len, ' ', len - buffer->len);
    buffer->len = len;
}

/* The escape character for one byte, or 0 for none; 'u' stands for \u00XX. */
static char json_escape(unsigned char c) {
    static const char short_ones[] = "btnufr"; /* 8 to 13 */
    if (c == '"' || c == '\\')
        return (char)c;
    if (c >= 0x20)
        return 0;
    return c >= 8 && c <= 13 ? short_ones[c - 8] : 'u';
}

void tmi_buffer_json(tmi_buffer *buffer, const char *bytes, size_t len) {
    size_t plain = 0; /* start of the current run of bytes that need no escape */
    tmi_buffer_add(buffer, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        char escape = json_escape((unsigned char)bytes[i]);
        if (!escape)
            continue;
        char text[8];
        int size = escape == 'u' ? snprintf(text, sizeof text, "\\u%04x", (unsigned)bytes[i])
                                 : snprintf(text, sizeof text, "\\%c", escape);
        tmi_buffer_add(buffer, bytes + plain, i - plain);
        tmi_buffer_add(buffer, text, (size_t)size);
        plain = i + 1;
    }
    tmi_buffer_add(buffer, bytes + plain, len - plain);
    tmi_buffer_add(buffer, "\"", 1);
}

void tmi_layout_metadata(tmi_buffer *text, const tmi_pair *pairs, size_t count) {
    tmi_buffer_text(text, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            tmi_buffer_add(text, ",", 1);
        tmi_buffer_json(text, pairs[i].key, pairs[i].key_len);
        tmi_buffer_add(text, ":", 1);
        tmi_buffer_json(text, pairs[i].value, pairs[i].value_len);
    }
    tmi_buffer_add(text, "}", 1);
}

/* Appends the new text of a key, in quotes; returns false if the key keeps its text. */
static bool layout_key(tmi_buffer *text, const tmi_renames *renames, const tmi_text *key) {
    if (!renames)
        return false;
    if (renames->empty_keys) {
        tmi_buffer_add(text, "\"\"", 2);
        return true;
    }
    size_t at = tmi_names_find(&renames->names, key->bytes, key->len,
                               tmi_hash(&renames->names.key, key->bytes, key->len));
    const tmi_rename *found = at == TMI_NONE ? NULL : &renames->items[at];
    if (!found || (found->to_len == key->len && memcmp(found->to, key->bytes, key->len) == 0))
        return false;
    tmi_buffer_json(text, found->to, found->to_len);
    return true;
}

/* The reader unescapes in place, so it parses a copy; the members are copied from the original. */
bool tmi_layout_others(tmi_buffer *text, const char *header, size_t length,
                       const tmi_renames *renames) {
    tmi_block copy;
    tmi_text key = {NULL, 0};
    if (length > SIZE_MAX - TMI_JSON_PAD || !tmi_block_alloc(&copy, length + TMI_JSON_PAD)) {
        text->failed = true;
        return false;
    }
    char *start = memcpy(copy.bytes, header, length);
    tmi_json json = {start, start, start + length, NULL, false};
    bool good = tmi_json_expect(&json, '{', "expected an object");
    if (good && !tmi_json_take(&json, '}'))
        do {
            (void)tmi_json_peek(&json);
            size_t from = (size_t)(json.at - start), behind = from;
            good = tmi_json_string(&json, &key, "expected a key");
            if (good)
                behind = (size_t)(json.at - start);
            good = good && tmi_json_expect(&json, ':', "expected ':'") && tmi_json_skip(&json, 1);
            if (!good || (key.len == 12 && memcmp(key.bytes, "__metadata__", 12) == 0))
                continue;
            if (text->len > 1)
                tmi_buffer_add(text, ",", 1);
            if (layout_key(text, renames, &key))
                from = behind;
            tmi_buffer_add(text, header + from, (size_t)(json.at - start) - from);
        } while (good && tmi_json_take(&json, ','));
    tmi_block_free(&copy);
    return good && !text->failed;
}

static void layout_entry(tmi_buffer *text, const tmi_planned *tensor) {
    tmi_buffer_json(text, tensor->name, tensor->name_len);
    tmi_buffer_text(text, ":{\"dtype\":\"");
    tmi_buffer_text(text, tmi_dtypes[tensor->dtype].name);
    tmi_buffer_text(text, "\",\"shape\":[");
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (d > 0)
            tmi_buffer_add(text, ",", 1);
        tmi_buffer_number(text, tensor->shape[d]);
    }
    tmi_buffer_text(text, "],\"data_offsets\":[");
    tmi_buffer_number(text, tensor->begin);
    tmi_buffer_add(text, ",", 1);
    tmi_buffer_number(text, tensor->begin + tensor->nbytes);
    tmi_buffer_text(text, "]}");
}

/*
 * Wide elements first, so that all tensors are aligned if the first one is; then by name, bytewise.
 */
static int by_dtype_and_name(const void *a, const void *b) {
    const tmi_planned *x = *(tmi_planned *const *)a, *y = *(tmi_planned *const *)b;
    if (x->dtype != y->dtype)
        return x->dtype < y->dtype ? 1 : -1;
    size_t shorter = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, shorter);
    return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

void tmi_layout_length(unsigned char *field, uint64_t n) {
    for (int i = 0; i < 8; i++)
        field[i] = (unsigned char)(n >> (8 * i));
}

bool tmi_layout_build(tmi_layout *layout, tmi_buffer *head) {
    size_t count = layout->tensor_count;
    tmi_planned **sorted = tmi_calloc(count, sizeof(tmi_planned *));
    if (!sorted)
        return false;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &layout->tensors[i];
    if (!layout->keep_order)
        qsort(sorted, count, sizeof(tmi_planned *), by_dtype_and_name);
    *head = (tmi_buffer){NULL, 0, 0, false};
    tmi_buffer_add(head, "\0\0\0\0\0\0\0\0{", 9);
    if (layout->pair_count > 0)
        tmi_layout_metadata(head, layout->pairs, layout->pair_count);
    layout->data_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        sorted[i]->begin = layout->data_bytes;
        layout->data_bytes += sorted[i]->nbytes;
        if (i > 0 || layout->pair_count > 0)
            tmi_buffer_add(head, ",", 1);
        layout_entry(head, sorted[i]);
    }
    tmi_buffer_add(head, "}", 1);
    free(sorted);
    size_t mask = layout->alignment - 1;
    tmi_buffer_pad(head, (head->len + layout->slack + mask) & ~mask);
    if (head->failed) {
        free(head->bytes);
        *head = (tmi_buffer){NULL, 0, 0, false};
        return false;
    }
    tmi_layout_length((unsigned char *)head->bytes, head->len - 8);
    return true;
}

#endif
