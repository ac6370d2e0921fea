/* Metadata that is declared to a writer: strings, and typed values for GGUF. */
#include "../format/gguf.h"
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {
    [TENMAP_VALUE_U8] = "U8",       [TENMAP_VALUE_I8] = "I8",     [TENMAP_VALUE_U16] = "U16",
    [TENMAP_VALUE_I16] = "I16",     [TENMAP_VALUE_U32] = "U32",   [TENMAP_VALUE_I32] = "I32",
    [TENMAP_VALUE_F32] = "F32",     [TENMAP_VALUE_BOOL] = "BOOL", [TENMAP_VALUE_STRING] = "STRING",
    [TENMAP_VALUE_ARRAY] = "ARRAY", [TENMAP_VALUE_U64] = "U64",   [TENMAP_VALUE_I64] = "I64",
    [TENMAP_VALUE_F64] = "F64"};

static const char *type_name(uint32_t type) {
    return type < sizeof type_names / sizeof *type_names ? type_names[type] : "unknown";
}

/* "path": metadata key "key": ... */
#define FAIL_PAIR(error, status, shown, pair, format, ...)                                         \
    tmi_fail(error, status, "%s: metadata key %s: " format, (shown).text,                          \
             tmi_quote((pair)->key, (pair)->key_len).text, __VA_ARGS__)

tenmap_status tmi_pair_check(const tmi_pair *pair, uint32_t format, tmi_quoted shown,
                             tenmap_error *error) {
    tenmap_value value = {pair->type, pair->element_type, pair->count, pair->value,
                          pair->value_len};
    if (!tmi_gguf_is_whole(&value))
        return FAIL_PAIR(error, TENMAP_ERR_ARGUMENT, shown, pair,
                         "its %llu bytes are not a value of type %u (%s), element type %u and "
                         "count %llu",
                         (ull)pair->value_len, (unsigned)pair->type, type_name(pair->type),
                         (unsigned)pair->element_type, (ull)pair->count);
    if (format != TENMAP_FORMAT_GGUF && pair->type != TENMAP_VALUE_STRING)
        return FAIL_PAIR(error, TENMAP_ERR_UNSUPPORTED, shown, pair,
                         "its type is %s; SafeTensors files hold only strings",
                         type_name(pair->type));
    if (format == TENMAP_FORMAT_GGUF && tmi_gguf_key_is(pair->key, pair->key_len, TMI_GGUF_PADDING))
        return FAIL_PAIR(error, TENMAP_ERR_ARGUMENT, shown, pair, "%s",
                         "the library sets it, for the room that options.header_slack asks for");
    return TENMAP_OK;
}

/* Whether readers count the parts of a split set with this key. */
static bool counts_parts(const tmi_pair *pair) {
    return tmi_gguf_key_is(pair->key, pair->key_len, "split.no") ||
           tmi_gguf_key_is(pair->key, pair->key_len, "split.count") ||
           tmi_gguf_key_is(pair->key, pair->key_len, "split.tensors.count");
}

/* Whether a whole value is an integer that is not negative. */
static bool is_whole_number(const tmi_pair *pair) {
    switch (pair->type) {
    case TENMAP_VALUE_U8:
    case TENMAP_VALUE_U16:
    case TENMAP_VALUE_U32:
    case TENMAP_VALUE_U64:
        return true;
    case TENMAP_VALUE_I8:
    case TENMAP_VALUE_I16:
    case TENMAP_VALUE_I32:
    case TENMAP_VALUE_I64:
        return !((unsigned char)pair->value[pair->value_len - 1] & 0x80);
    default:
        return false;
    }
}

/* Checks a pair whose bytes are the writer's own already, so nobody else can change them. */
static tenmap_status check_declared_pair(const tenmap_writer *writer, const tmi_pair *pair,
                                         tenmap_error *error) {
    const tenmap_writer_options *options = tmi_writer_options(writer);
    unsigned char alignment[8];
    tenmap_status status = tmi_pair_check(pair, options->format, tmi_writer_shown(writer), error);
    if (status != TENMAP_OK || options->format != TENMAP_FORMAT_GGUF)
        return status;
    if (counts_parts(pair) && !is_whole_number(pair))
        return FAIL_PAIR(error, TENMAP_ERR_ARGUMENT, tmi_writer_shown(writer), pair, "%s",
                         "readers want a whole number that is not negative");
    if (!tmi_gguf_key_is(pair->key, pair->key_len, TMI_GGUF_ALIGNMENT))
        return status;
    tmi_layout_length(alignment, options->data_alignment);
    if (pair->type == TENMAP_VALUE_U32 && memcmp(pair->value, alignment, 4) == 0)
        return TENMAP_OK;
    return FAIL_PAIR(error, TENMAP_ERR_ARGUMENT, tmi_writer_shown(writer), pair,
                     "it must be the U32 %u, which is options.data_alignment",
                     (unsigned)options->data_alignment);
}

/* Takes the pair's key and value, or frees them. */
static tenmap_status take_pair(tenmap_writer *writer, tmi_pair *pair, tenmap_error *error) {
    tenmap_status status = pair->key && pair->value
                               ? check_declared_pair(writer, pair, error)
                               : tmi_fail_memory(error, pair->value_len, "the metadata");
    if (status == TENMAP_OK)
        status = tmi_writer_add_pair(writer, pair, error);
    if (status != TENMAP_OK) {
        free(pair->key);
        free(pair->value);
    }
    return status;
}

tenmap_status tenmap_writer_metadata(tenmap_writer *writer, const char *key, size_t key_len,
                                     const char *value, size_t value_len, tenmap_error *error) {
    if (!writer)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the writer is NULL");
    tenmap_status status = tmi_writer_check_text(writer, "metadata key", key, &key_len, error);
    if (status == TENMAP_OK)
        status = tmi_writer_check_text(writer, "metadata value", value, &value_len, error);
    if (status != TENMAP_OK)
        return status;
    tmi_pair pair = {tmi_copy_text(key, key_len),
                     key_len,
                     tmi_copy_text(value, value_len),
                     value_len,
                     TENMAP_VALUE_STRING,
                     TENMAP_VALUE_STRING,
                     1};
    return take_pair(writer, &pair, error);
}

tenmap_status tenmap_writer_value(tenmap_writer *writer, const char *key, size_t key_len,
                                  const tenmap_value *value, tenmap_error *error) {
    if (!writer || !value)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s is NULL", writer ? "value" : "writer");
    tenmap_status status = tmi_writer_check_text(writer, "metadata key", key, &key_len, error);
    if (status != TENMAP_OK)
        return status;
    if ((!value->raw && value->raw_bytes) || value->raw_bytes > TMI_WRITTEN_HEADER_LIMIT)
        return tmi_fail(error, value->raw ? TENMAP_ERR_LIMIT : TENMAP_ERR_ARGUMENT,
                        "%s: metadata key %s: value.raw %s", tmi_writer_shown(writer).text,
                        tmi_quote(key, key_len).text,
                        value->raw ? "is longer than a header may be" : "is NULL");
    size_t len = (size_t)value->raw_bytes;
    if (value->type == TENMAP_VALUE_STRING &&
        tmi_writer_options(writer)->format != TENMAP_FORMAT_GGUF)
        return tenmap_writer_metadata(writer, key, key_len, len ? value->raw : "", len, error);
    tmi_pair pair = {tmi_copy_text(key, key_len),
                     key_len,
                     tmi_copy_text(len ? value->raw : "", len),
                     len,
                     value->type,
                     value->element_type,
                     value->count};
    return take_pair(writer, &pair, error);
}

/* Appends a string with its length, as arrays of strings have them. */
static void add_element(tmi_buffer *raw, const char *text, size_t len) {
    unsigned char field[8];
    tmi_layout_length(field, len);
    tmi_buffer_add(raw, (const char *)field, sizeof field);
    tmi_buffer_add(raw, text, len);
}

tenmap_status tenmap_writer_strings(tenmap_writer *writer, const char *key, size_t key_len,
                                    const char *const *strings, const size_t *lengths, uint64_t n,
                                    tenmap_error *error) {
    tmi_buffer raw = {NULL, 0, 0, false};
    if (!writer || (n && !strings))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s NULL",
                        writer ? "strings are" : "writer is");
    tenmap_status status = tmi_writer_check_text(writer, "metadata key", key, &key_len, error);
    for (uint64_t i = 0; status == TENMAP_OK && i < n && !raw.failed; i++) {
        size_t len = lengths ? lengths[i] : TENMAP_CSTR;
        if (!strings[i])
            status =
                tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s: metadata key %s: string %llu is NULL",
                         tmi_writer_shown(writer).text, tmi_quote(key, key_len).text, (ull)i);
        else
            add_element(&raw, strings[i], len == TENMAP_CSTR ? strlen(strings[i]) : len);
        if (status == TENMAP_OK && raw.len > TMI_WRITTEN_HEADER_LIMIT)
            status = tmi_fail(error, TENMAP_ERR_LIMIT,
                              "%s: metadata key %s: its strings are longer than a header may be",
                              tmi_writer_shown(writer).text, tmi_quote(key, key_len).text);
    }
    if (status == TENMAP_OK && raw.failed)
        status = tmi_fail_memory(error, raw.len, "the metadata");
    if (status != TENMAP_OK) {
        free(raw.bytes);
        return status;
    }
    tmi_pair pair = {tmi_copy_text(key, key_len),
                     key_len,
                     raw.bytes ? raw.bytes : tmi_copy_text("", 0),
                     raw.len,
                     TENMAP_VALUE_ARRAY,
                     TENMAP_VALUE_STRING,
                     n};
    return take_pair(writer, &pair, error);
}

#endif
