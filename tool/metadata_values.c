#include "metadata_values.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whole numbers have the range of their bits; the others none. */
static const struct value_kind {
    const char *name;
    uint8_t bytes;
    bool is_signed, is_float;
} kinds[] = {
    [TENMAP_VALUE_U8] = {"u8", 1, false, false},
    [TENMAP_VALUE_I8] = {"i8", 1, true, false},
    [TENMAP_VALUE_U16] = {"u16", 2, false, false},
    [TENMAP_VALUE_I16] = {"i16", 2, true, false},
    [TENMAP_VALUE_U32] = {"u32", 4, false, false},
    [TENMAP_VALUE_I32] = {"i32", 4, true, false},
    [TENMAP_VALUE_F32] = {"f32", 4, true, true},
    [TENMAP_VALUE_BOOL] = {"bool", 1, false, false},
    [TENMAP_VALUE_STRING] = {"string", 0, false, false},
    [TENMAP_VALUE_ARRAY] = {"array", 0, false, false},
    [TENMAP_VALUE_U64] = {"u64", 8, false, false},
    [TENMAP_VALUE_I64] = {"i64", 8, true, false},
    [TENMAP_VALUE_F64] = {"f64", 8, true, true},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

const char *value_type_name(uint32_t type) {
    return type < KINDS ? kinds[type].name : "unknown";
}

bool value_type_from_name(const char *name, uint32_t *type) {
    for (uint32_t i = 0; i < KINDS; i++)
        if (i != TENMAP_VALUE_ARRAY && strcmp(kinds[i].name, name) == 0) {
            *type = i;
            return true;
        }
    return false;
}

static bool parse_whole(const char *text, const struct value_kind *kind, uint64_t *bits) {
    bool negative = *text == '-';
    unsigned width = 8u * kind->bytes;
    uint64_t most = UINT64_MAX >> (64 - width) >> kind->is_signed;
    char *end;
    if (text[negative] < '0' || text[negative] > '9' || (negative && !kind->is_signed))
        return false;
    errno = 0;
    unsigned long long size = strtoull(text + negative, &end, 10);
    if (errno || *end || size > most + negative)
        return false;
    *bits = negative ? 0 - (uint64_t)size : size;
    return true;
}

static bool parse_float(const char *text, uint32_t type, uint64_t *bits) {
    char *end;
    errno = 0;
    double wide = strtod(text, &end);
    bool overflows = errno == ERANGE && isinf(wide);
    if (end == text || *end || strchr(" \t\n\v\f\r", *text) || overflows)
        return false;
    if (type == TENMAP_VALUE_F64) {
        memcpy(bits, &wide, sizeof wide);
        return true;
    }
    float narrow = strtof(text, NULL);
    uint32_t low;
    if (isinf(narrow) && !isinf(wide))
        return false;
    memcpy(&low, &narrow, sizeof low);
    *bits = low;
    return true;
}

bool parse_number_value(const char *given, size_t len, uint32_t type, number_value *out) {
    char text[64];
    uint64_t bits = 0;
    bool good;
    if (len == 0 || len >= sizeof text || memchr(given, '\0', len))
        return false;
    snprintf(text, sizeof text, "%.*s", (int)len, given);
    if (type == TENMAP_VALUE_BOOL) {
        good = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
        bits = *text == 't';
    } else {
        good = kinds[type].is_float ? parse_float(text, type, &bits)
                                    : parse_whole(text, &kinds[type], &bits);
    }
    for (unsigned i = 0; i < sizeof out->raw; i++)
        out->raw[i] = (unsigned char)(bits >> (8 * i));
    out->value = (tenmap_value){type, type, 1, out->raw, kinds[type].bytes};
    return good;
}
