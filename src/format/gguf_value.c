/* The values of GGUF metadata: their extent, their elements and their text. */
#include "format.h"
#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of each value type; 0 for types that store their own length. */
static const uint8_t value_widths[] = {
    [TENMAP_VALUE_U8] = 1,  [TENMAP_VALUE_I8] = 1,  [TENMAP_VALUE_U16] = 2, [TENMAP_VALUE_I16] = 2,
    [TENMAP_VALUE_U32] = 4, [TENMAP_VALUE_I32] = 4, [TENMAP_VALUE_F32] = 4, [TENMAP_VALUE_BOOL] = 1,
    [TENMAP_VALUE_U64] = 8, [TENMAP_VALUE_I64] = 8, [TENMAP_VALUE_F64] = 8};
enum { VALUE_TYPES = TENMAP_VALUE_F64 + 1 };
enum { STRING_HEAD = 8, ARRAY_HEAD = 12 };

/* The least number of bytes that a value of a type takes. */
static uint64_t least_bytes(uint32_t type) {
    return type == TENMAP_VALUE_STRING  ? STRING_HEAD
           : type == TENMAP_VALUE_ARRAY ? ARRAY_HEAD
                                        : value_widths[type];
}

static uint64_t little_number(const unsigned char *bytes, unsigned width) {
    uint64_t value = 0;
    for (unsigned i = width; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

static bool stop_walk(tmi_gguf_walk *w, int problem, uint64_t number) {
    w->problem = problem;
    w->number = number;
    return false;
}

bool tmi_gguf_want(tmi_gguf_walk *w, uint64_t count) {
    if (TMI_LIKELY(count <= w->have - w->at))
        return true;
    if (count > w->size - w->at)
        return stop_walk(w, TMI_GGUF_ENDS, count);
    return stop_walk(w, TMI_GGUF_MORE, w->at + count);
}

bool tmi_gguf_u32(tmi_gguf_walk *w, uint32_t *out) {
    if (!tmi_gguf_want(w, 4))
        return false;
    *out = (uint32_t)little_number(w->bytes + w->at, 4);
    w->at += 4;
    return true;
}

bool tmi_gguf_u64(tmi_gguf_walk *w, uint64_t *out) {
    if (!tmi_gguf_want(w, 8))
        return false;
    *out = tmi_file_u64(w->bytes + w->at);
    w->at += 8;
    return true;
}

bool tmi_gguf_string(tmi_gguf_walk *w, const char **text, uint64_t *len) {
    if (!tmi_gguf_want(w, STRING_HEAD))
        return false;
    uint64_t length = tmi_file_u64(w->bytes + w->at);
    if (length > w->size - w->at - STRING_HEAD)
        return stop_walk(w, TMI_GGUF_STRING, length);
    if (!tmi_gguf_want(w, STRING_HEAD + length))
        return false;
    *text = (const char *)w->bytes + w->at + STRING_HEAD;
    *len = length;
    w->at += STRING_HEAD + length;
    return true;
}

/*
 * Reads the head of an array: its element type must be known, and its elements must fit the file.
 */
static bool take_array(tmi_gguf_walk *w, uint32_t *type, uint64_t *count) {
    if (!tmi_gguf_want(w, ARRAY_HEAD))
        return false;
    *type = (uint32_t)little_number(w->bytes + w->at, 4);
    *count = tmi_file_u64(w->bytes + w->at + 4);
    if (*type >= VALUE_TYPES)
        return stop_walk(w, TMI_GGUF_TYPE, *type);
    if (*count > (w->size - w->at - ARRAY_HEAD) / least_bytes(*type))
        return stop_walk(w, TMI_GGUF_COUNT, *count);
    w->at += ARRAY_HEAD;
    return true;
}

static bool skip_strings(tmi_gguf_walk *w, uint64_t count) {
    const char *text;
    uint64_t len;
    while (count-- > 0)
        if (!tmi_gguf_string(w, &text, &len))
            return false;
    return true;
}

/* Skips `count` values of one width; BOOL values must be 0 or 1. */
static bool skip_numbers(tmi_gguf_walk *w, uint32_t type, uint64_t count) {
    uint64_t bytes = count * value_widths[type];
    if (!tmi_gguf_want(w, bytes))
        return false;
    for (uint64_t i = 0; type == TENMAP_VALUE_BOOL && i < bytes; i++)
        if (w->bytes[w->at + i] > 1) {
            w->at += i;
            return stop_walk(w, TMI_GGUF_BOOL, w->bytes[w->at]);
        }
    w->at += bytes;
    return true;
}

/* Skips `count` values of a known type, nested arrays included. */
static bool skip_values(tmi_gguf_walk *w, uint32_t type, uint64_t count) {
    struct {
        uint32_t type;
        uint64_t left;
    } open[TMI_GGUF_DEPTH] = {{type, count}};
    unsigned depth = 0;
    for (;;) {
        bool good = true;
        type = open[depth].type;
        if (type == TENMAP_VALUE_ARRAY && open[depth].left > 0) {
            open[depth].left--;
            if (depth + 1 == TMI_GGUF_DEPTH)
                return stop_walk(w, TMI_GGUF_NESTED, 0);
            depth++;
            if (!take_array(w, &open[depth].type, &open[depth].left))
                return false;
            continue;
        }
        if (type == TENMAP_VALUE_STRING)
            good = skip_strings(w, open[depth].left);
        else if (type != TENMAP_VALUE_ARRAY)
            good = skip_numbers(w, type, open[depth].left);
        if (!good || depth-- == 0)
            return good;
    }
}

bool tmi_gguf_value(tmi_gguf_walk *w, uint32_t type, tenmap_value *out) {
    *out = (tenmap_value){.type = type, .element_type = type, .count = 1};
    if (type >= VALUE_TYPES)
        return stop_walk(w, TMI_GGUF_TYPE, type);
    uint64_t begin = w->at;
    if (type == TENMAP_VALUE_STRING) {
        const char *text;
        if (!tmi_gguf_string(w, &text, &out->raw_bytes))
            return false;
        out->raw = text;
        return true;
    }
    if (type == TENMAP_VALUE_ARRAY) {
        if (!take_array(w, &out->element_type, &out->count))
            return false;
        begin = w->at;
    }
    if (!skip_values(w, out->element_type, out->count))
        return false;
    out->raw = w->bytes + begin;
    out->raw_bytes = w->at - begin;
    return true;
}

bool tmi_gguf_is_whole(const tenmap_value *value) {
    tmi_gguf_walk w = {.bytes = value->raw, .have = value->raw_bytes, .size = value->raw_bytes};
    if (value->type >= VALUE_TYPES)
        return false;
    if (value->type == TENMAP_VALUE_STRING)
        return value->element_type == TENMAP_VALUE_STRING && value->count == 1;
    if (value->type != TENMAP_VALUE_ARRAY)
        return value->element_type == value->type && value->count == 1 &&
               skip_values(&w, value->type, 1) && w.at == w.size;
    return value->element_type < VALUE_TYPES &&
           value->count <= value->raw_bytes / least_bytes(value->element_type) &&
           skip_values(&w, value->element_type, value->count) && w.at == w.size;
}

/* The public functions for values. */

void tenmap_metadata_value(const tenmap_metadata *m, tenmap_value *out) {
    *out = (tenmap_value){m->type, m->element_type, m->count, m->raw, m->raw_bytes};
}

int tenmap_value_next(tenmap_value *array, tenmap_value *element) {
    if (array->type != TENMAP_VALUE_ARRAY || array->count == 0)
        return 0;
    tmi_gguf_walk w = {.bytes = array->raw, .have = array->raw_bytes, .size = array->raw_bytes};
    if (!tmi_gguf_value(&w, array->element_type, element))
        return 0; /* never happens for a value of an open model */
    array->raw = w.bytes + w.at;
    array->raw_bytes -= w.at;
    array->count--;
    return 1;
}

/* Replaces the locale's decimal separator with a point. */
static void make_point(char *text) {
    char *to = text;
    bool inside = false;
    for (const char *at = text; *at; at++) {
        if (strchr("0123456789+-einfa", *at)) {
            *to++ = *at;
            inside = false;
        } else if (!inside) {
            *to++ = '.';
            inside = true;
        }
    }
    *to = '\0';
}

/* Writes the fewest digits that read back as the same number, within the range that is tried. */
static void float_text(char *out, double value, bool is_f32) {
    int digits = is_f32 ? 6 : 15, most = is_f32 ? 9 : 17;
    for (;; digits++) {
        snprintf(out, TMI_NUMBER_ROOM, "%.*g", digits, value);
        double back = strtod(out, NULL);
        if (digits == most || (is_f32 ? (float)back == (float)value : back == value))
            break;
    }
    if (strstr(out, "nan")) /* of either sign */
        memcpy(out, "nan", 4);
    make_point(out);
}

size_t tmi_number_text(char out[TMI_NUMBER_ROOM], uint32_t type, const void *raw) {
    unsigned width = value_widths[type];
    uint64_t bits = little_number(raw, width);
    uint64_t sign = width ? UINT64_C(0x80) << (8 * width - 8) : 0;
    uint32_t low = (uint32_t)bits;
    double wide;
    float narrow;
    switch (type) {
    case TENMAP_VALUE_BOOL:
        snprintf(out, TMI_NUMBER_ROOM, "%s", bits ? "true" : "false");
        break;
    case TENMAP_VALUE_F32:
        memcpy(&narrow, &low, sizeof narrow);
        float_text(out, (double)narrow, true);
        break;
    case TENMAP_VALUE_F64:
        memcpy(&wide, &bits, sizeof wide);
        float_text(out, wide, false);
        break;
    case TENMAP_VALUE_I8:
    case TENMAP_VALUE_I16:
    case TENMAP_VALUE_I32:
    case TENMAP_VALUE_I64:
        if (bits & sign) /* negative: print its two's-complement magnitude */
            snprintf(out, TMI_NUMBER_ROOM, "-%llu", (ull)sign + (ull)(sign - bits));
        else
            snprintf(out, TMI_NUMBER_ROOM, "%llu", (ull)bits);
        break;
    default:
        snprintf(out, TMI_NUMBER_ROOM, "%llu", (ull)bits);
    }
    return strlen(out);
}

size_t tenmap_value_text(const tenmap_value *value, char *out, size_t room) {
    char number[TMI_NUMBER_ROOM] = "";
    const char *text = number;
    size_t len = 0;
    if (value->type == TENMAP_VALUE_STRING) {
        text = value->raw;
        len = (size_t)value->raw_bytes;
    } else if (value->type != TENMAP_VALUE_ARRAY && value->type < VALUE_TYPES) {
        len = tmi_number_text(number, value->type, value->raw);
    }
    if (room > 0) {
        size_t shown = len < room - 1 ? len : room - 1;
        memcpy(out, text, shown);
        out[shown] = '\0';
    }
    return len;
}
