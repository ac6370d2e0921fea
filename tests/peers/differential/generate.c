/*
 * Files for the differential tests: generate SEED FIRST COUNT writes cases FIRST to FIRST+COUNT-1
 * of a seed to standard output, each as four bytes of length (little-endian) and the file's bytes.
 * A case depends only on the seed and its number, so each can be generated again by itself.
 *
 * Every case starts as a file that follows the rules, written in one of the many ways that they
 * allow (build_*), sometimes with one of the four things that only tenmap refuses; most are then
 * damaged one to four times (mutate_*).
 */
#include "../../../include/tenmap.h"

#include "../../../src/base/dtype_table.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1 << 20, MOST_DATA = 1 << 12, MOST_TENSORS = 64, MOST_TOKENS = 1 << 14 };
enum { MOST_RANK = 10000 };

/* A number of choices from one seed. */

static uint64_t random_state;

static uint64_t random_u64(void) {
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static unsigned below(unsigned limit) {
    return (unsigned)(random_u64() >> 32) % limit;
}

/* Once in `n` times. */
static bool once_in(unsigned n) {
    return below(n) == 0;
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define PICK(array) (array)[below((unsigned)COUNT(array))]

/* The current case. */

static char text[MOST_TEXT];
static size_t text_len;
static size_t data_len;
static uint64_t length_field;
static bool length_is_set; /* by a mutation; else it is the text's length */
static size_t cut_at;      /* bytes of the file to keep */

static struct {
    unsigned spaces;  /* 0: none, 1: one after ',' and ':', 2: any, anywhere */
    unsigned escapes; /* percent of characters that are escaped needlessly */
} style;

static void put(char c) {
    if (text_len < MOST_TEXT)
        text[text_len++] = c;
}

static void put_text(const char *s) {
    while (*s)
        put(*s++);
}

static void put_u64(uint64_t n) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    put_text(digits);
}

static void put_space(void) {
    while (style.spaces == 2 && once_in(4))
        put(" \t\n\r"[below(4)]);
}

static void put_mark(char c) {
    put_space();
    put(c);
    if (style.spaces == 1 && (c == ',' || c == ':'))
        put(' ');
    put_space();
}

/* Strings. */

static void put_escape(unsigned c) {
    char escape[16];
    const char *format = once_in(2) ? "\\u%04x" : "\\u%04X";
    if (c > 0xffff) {
        c -= 0x10000;
        snprintf(escape, sizeof escape, format, 0xd800 + (c >> 10));
        put_text(escape);
        c = 0xdc00 + (c & 0x3ff);
    }
    snprintf(escape, sizeof escape, format, c);
    put_text(escape);
}

/* One character of valid UTF-8; returns its length. */
static size_t decode(const unsigned char *s, unsigned *c) {
    if (s[0] < 0x80)
        return *c = s[0], 1;
    if (s[0] < 0xe0)
        return *c = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu), 2;
    if (s[0] < 0xf0)
        return *c = (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu), 3;
    *c = (s[0] & 7u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
    return 4;
}

static void put_string(const char *s, size_t len) {
    static const char plain[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
    put('"');
    for (size_t i = 0, size; i < len; i += size) {
        unsigned c;
        size = decode((const unsigned char *)s + i, &c);
        const char *found = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
        bool must = c < 0x20 || c == '"' || c == '\\';
        if (!must && below(100) >= style.escapes) {
            for (size_t k = 0; k < size; k++)
                put(s[i + k]);
        } else if (found && once_in(2)) {
            put('\\');
            put(letters[found - plain]);
        } else {
            put_escape(c);
        }
    }
    put('"');
}

/* A text that any reader should accept: a name, a key, a value. */
static size_t choose_text(char *out, size_t room) {
    static const char *const texts[] = {"",
                                        "a",
                                        "__x__",
                                        "weight",
                                        "\x7f",
                                        "\xc3\xa9",
                                        "\xf0\x9f\x98\x80",
                                        "\xe2\x80\xa8",
                                        "\xef\xbb\xbf",
                                        "\"",
                                        "\\",
                                        "a/b",
                                        "\t\n\r\b\f",
                                        "dtype",
                                        "shape",
                                        "data_offsets",
                                        "__metadata_",
                                        "\x01\x1f",
                                        "\xef\xbf\xbf",
                                        "\xf4\x8f\xbf\xbf",
                                        "format",
                                        "pt",
                                        " ",
                                        "null"};
    size_t len = 0;
    unsigned parts = once_in(3) ? 1 : 1 + below(4);
    if (once_in(8)) { /* runs that cross the widths that readers load at once */
        len = below(70);
        memset(out, 'n', len);
    }
    for (unsigned i = 0; i < parts; i++) {
        const char *part = PICK(texts);
        if (len + strlen(part) + 1 > room)
            break;
        memcpy(out + len, part, strlen(part));
        len += strlen(part);
        if (once_in(12))
            out[len++] = '\0';
    }
    return len;
}

/* Values of unknown fields. */

static void put_digits(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        put((char)(i == 0 && count > 1 ? '1' + below(9) : '0' + below(10)));
}

/* Any number that JSON allows, most often near where a double or 64 bits end. */
static void put_number(void) {
    static const char *const edges[] = {"0",
                                        "-0",
                                        "-0.0",
                                        "0e999999999",
                                        "1e308",
                                        "1e309",
                                        "-1e309",
                                        "1.7976931348623157e308",
                                        "1.7976931348623158e308",
                                        "1.7976931348623159e308",
                                        "17976931348623157e292",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "-9223372036854775808",
                                        "-9223372036854775809",
                                        "9223372036854775808",
                                        "1e-999999999999",
                                        "5e-324",
                                        "1e+2",
                                        "1E-2",
                                        "184467440737095516150",
                                        "184467440737095516160e288",
                                        "18446744073709551615e289",
                                        "18446744073709551616e289",
                                        "1e2147483648",
                                        "1e-2147483649",
                                        "0e2147483648",
                                        "0.00000000000000000000000000000000000001e340",
                                        "123456789012345678901234567890"};
    static const unsigned widths[] = {1,  1,  1,  2,  7,  8,  9,   15, 16,
                                      17, 18, 19, 20, 21, 40, 290, 310};
    if (once_in(2)) {
        put_text(PICK(edges));
        return;
    }
    if (once_in(3))
        put('-');
    put_digits(PICK(widths));
    if (once_in(2)) {
        put('.');
        for (unsigned zeros = once_in(3) ? below(330) : 0; zeros > 0; zeros--)
            put('0');
        put_digits(PICK(widths));
    }
    if (once_in(2)) {
        static const unsigned exponents[] = {0,   1,   5,   200, 280, 288, 289, 290, 291,
                                             300, 306, 307, 308, 309, 320, 330, 400, 4000000000u};
        put("eE"[below(2)]);
        put_text(once_in(3) ? "-" : once_in(2) ? "+" : "");
        put_u64(PICK(exponents));
    }
}

static void put_value(unsigned depth) {
    char string[256];
    unsigned kind = below(depth > 4 ? 5 : 7);
    if (kind < 2) {
        put_number();
    } else if (kind == 2) {
        size_t len = choose_text(string, sizeof string);
        put_string(string, len);
    } else if (kind < 5) {
        static const char *const words[] = {"null", "true", "false"};
        put_text(PICK(words));
    } else {
        bool object = kind == 6;
        put_mark(object ? '{' : '[');
        for (unsigned i = 0, n = below(4); i < n; i++) {
            if (i > 0)
                put_mark(',');
            if (object) {
                put_string("k", once_in(2));
                put_mark(':');
            }
            put_value(depth + 1);
        }
        put_mark(object ? '}' : ']');
    }
}

/* `levels` containers inside each other. */
static void put_nested(unsigned levels) {
    char *close = malloc(levels + 1);
    for (unsigned i = 0; i < levels; i++) {
        bool object = once_in(2);
        put_text(object && i + 1 < levels ? "{\"\":" : object ? "{" : "[");
        close[i] = object ? '}' : ']';
    }
    for (unsigned i = levels; i-- > 0;)
        put(close[i]);
    free(close);
}

/* Tensors. */

#define DTYPE(id, bits, align, kind, infinity) {#id, bits},
/* The first row is TENMAP_AS_STORED. */
static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {TMI_DTYPES(DTYPE)};

static unsigned choose_dtype(void) {
    return 1 + below((unsigned)COUNT(dtypes) - 1);
}

typedef struct tensor {
    char name[256];
    size_t name_len;
    unsigned dtype;
    uint64_t shape[8];
    unsigned rank;
    bool many_dims; /* MOST_RANK ones in front of the shape */
    uint64_t begin, end;
} tensor;

static tensor tensors[MOST_TENSORS];
static unsigned tensor_count;

static void choose_shape(tensor *t) {
    static const uint64_t empty[][4] = {{UINT64_MAX, 1, 0, 1},
                                        {0, UINT64_MAX, UINT64_MAX, 2},
                                        {UINT64_C(1) << 63, 1, 0, 0},
                                        {1, 0, 5, UINT64_MAX},
                                        {UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, 0, 3}};
    unsigned bits = dtypes[t->dtype].bits;
    uint64_t size = bits;
    t->many_dims = once_in(1500);
    t->rank = 0;
    if (once_in(20)) {
        const uint64_t *dims = PICK(empty);
        memcpy(t->shape, dims, sizeof empty[0]);
        t->rank = 4;
        size = 0;
    }
    for (unsigned n = t->rank ? 0 : below(5); n > 0; n--) {
        uint64_t dim = once_in(12) ? 0 : 1 + below(once_in(6) ? 40 : 4);
        if (size * dim > 1024)
            dim = 1;
        t->shape[t->rank++] = dim;
        size *= dim;
    }
    if (size % 8 != 0) {
        t->shape[t->rank++] = 4;
        size *= 4;
    }
    t->end = size / 8; /* for now, the size */
}

static void choose_tensors(void) {
    unsigned order[MOST_TENSORS];
    tensor_count = once_in(60) ? below(MOST_TENSORS) : below(6);
    for (unsigned i = 0; i < tensor_count; i++) {
        tensor *t = &tensors[i];
        t->dtype = choose_dtype();
        t->name_len = choose_text(t->name, sizeof t->name - 8);
        if (i > 0 && once_in(100)) { /* refused by tenmap alone */
            t->name_len = tensors[i - 1].name_len;
            memcpy(t->name, tensors[i - 1].name, t->name_len);
        } else if (!once_in(30))
            t->name_len += (size_t)snprintf(t->name + t->name_len, 8, ".%u", i);
        choose_shape(t);
        order[i] = i;
    }
    if (tensor_count > 1 && once_in(3)) /* the data in another order than the header */
        for (unsigned i = tensor_count - 1; i > 0; i--) {
            unsigned k = below(i + 1), kept = order[i];
            order[i] = order[k];
            order[k] = kept;
        }
    uint64_t at = 0;
    for (unsigned i = 0; i < tensor_count; i++) {
        tensor *t = &tensors[order[i]];
        t->begin = at;
        at = t->end += at;
    }
    data_len = (size_t)at;
}

/* The text of the header. */

static void put_shape(const tensor *t) {
    put_mark('[');
    for (unsigned i = 0; t->many_dims && i < MOST_RANK; i++)
        put_text(i + 1 < MOST_RANK || t->rank > 0 ? "1," : "1");
    for (unsigned i = 0; i < t->rank; i++) {
        if (i > 0)
            put_mark(',');
        put_u64(t->shape[i]);
    }
    put_mark(']');
}

static void put_offsets(const tensor *t) {
    put_mark('[');
    put_u64(t->begin);
    put_mark(',');
    put_u64(t->end);
    put_mark(']');
}

static void put_dtype(const tensor *t) {
    const char *name = dtypes[t->dtype].name;
    bool object = once_in(150); /* refused by tenmap alone */
    if (object)
        put_mark('{');
    put_string(name, strlen(name));
    if (!object)
        return;
    put_mark(':');
    put_text(once_in(2) ? "null" : once_in(2) ? "{}" : "0");
    put_mark('}');
}

static void put_field(const tensor *t, unsigned field) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    static void (*const puts_field[])(const tensor *) = {put_dtype, put_shape, put_offsets};
    if (field < 3) {
        put_string(keys[field], strlen(keys[field]));
        put_mark(':');
        puts_field[field](t);
        return;
    }
    char key[256];
    size_t len = choose_text(key, sizeof key - 1);
    key[len++] = '?'; /* never one of the three */
    put_string(key, len);
    put_mark(':');
    if (once_in(12))
        put_nested(once_in(3) ? 123 + below(5) : below(40)); /* two levels are around it */
    else
        put_value(0);
}

static void put_entry(const tensor *t) {
    unsigned fields[6] = {0, 1, 2, 3, 3, 3}, count = 3;
    if (once_in(150)) { /* refused by tenmap alone */
        put_mark('[');
        put_dtype(t);
        put_mark(',');
        put_shape(t);
        put_mark(',');
        put_offsets(t);
        put_mark(']');
        return;
    }
    while (count < 6 && once_in(6))
        count++;
    if (once_in(3) || count > 3)
        for (unsigned i = count - 1; i > 0; i--) {
            unsigned k = below(i + 1), kept = fields[i];
            fields[i] = fields[k];
            fields[k] = kept;
        }
    put_mark('{');
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            put_mark(',');
        put_field(t, fields[i]);
    }
    put_mark('}');
}

static void put_metadata(void) {
    put_string("__metadata__", 12);
    put_mark(':');
    if (once_in(5)) {
        put_text("null");
        return;
    }
    put_mark('{');
    for (unsigned i = 0, n = once_in(40) ? below(100) : below(4); i < n; i++) {
        char string[256];
        size_t len = choose_text(string, sizeof string - 8);
        if (once_in(40)) /* refused by tenmap alone, if it is there twice */
            len = (size_t)snprintf(string, 8, "format");
        else if (!once_in(20))
            len += (size_t)snprintf(string + len, 8, "%u", i);
        if (i > 0)
            put_mark(',');
        put_string(string, len);
        put_mark(':');
        len = choose_text(string, sizeof string);
        put_string(string, len);
    }
    put_mark('}');
}

static void build_header(void) {
    static const unsigned escapes[] = {0, 0, 0, 0, 3, 30, 100};
    style.spaces = once_in(2) ? 0 : 1 + below(2);
    style.escapes = PICK(escapes);
    text_len = 0;
    choose_tensors();
    unsigned metadata_at = once_in(2) ? 0 : below(tensor_count + 1);
    bool has_metadata = once_in(2), first = true;
    put_mark('{');
    for (unsigned i = 0; i <= tensor_count; i++) {
        if (has_metadata && i == metadata_at) {
            if (!first)
                put_mark(',');
            put_metadata();
            first = false;
        }
        if (i == tensor_count)
            break;
        if (!first)
            put_mark(',');
        first = false;
        put_string(tensors[i].name, tensors[i].name_len);
        put_mark(':');
        put_entry(&tensors[i]);
    }
    put_mark('}');
    while (style.spaces < 2 && text_len % 8 != 0)
        put(' ');
}

/* Mutations. */

typedef struct token {
    size_t at, len;
    char kind; /* '"' string, '0' number, 'a' word, or the mark itself */
} token;

static token tokens[MOST_TOKENS];
static size_t token_count;

static void tokenise(void) {
    token_count = 0;
    for (size_t at = 0; at < text_len && token_count < MOST_TOKENS;) {
        size_t end = at + 1;
        char c = text[at], kind = c;
        if (c == '"') {
            while (end < text_len && text[end] != '"')
                end += text[end] == '\\' && end + 1 < text_len ? 2 : 1;
            end += end < text_len;
        } else if ((c >= '0' && c <= '9') || c == '-') {
            kind = '0';
            while (end < text_len && text[end] && strchr("0123456789.eE+-", text[end]))
                end++;
        } else if (c >= 'a' && c <= 'z') {
            kind = 'a';
            while (end < text_len && text[end] >= 'a' && text[end] <= 'z')
                end++;
        }
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            tokens[token_count++] = (token){at, end - at, kind};
        at = end;
    }
}

/* Replaces [at, at + len) of the text. */
static void splice(size_t at, size_t len, const char *with, size_t with_len) {
    if (text_len - len + with_len > MOST_TEXT)
        return;
    memmove(text + at + with_len, text + at + len, text_len - at - len);
    memcpy(text + at, with, with_len);
    text_len += with_len - len;
}

/* A token of this kind (0: any), or NULL. */
static const token *choose_token(char kind) {
    tokenise();
    for (unsigned tries = 0; token_count > 0 && tries < 30; tries++) {
        const token *t = &tokens[below((unsigned)token_count)];
        if (!kind || t->kind == kind)
            return t;
    }
    return NULL;
}

static void mutate_byte(void) {
    static const char bytes[] =
        "\0\x01\x1f \t\n\"\\/{}[]:,0129-+.eEu\x7f\x80\xbf\xc0\xc2\xe0\xed\xf4\xff";
    size_t at = text_len ? below((unsigned)text_len) : 0;
    char c = bytes[below(sizeof bytes - 1)];
    switch (below(4)) {
    case 0:
        splice(at, 0, &c, 1);
        break;
    case 1:
        splice(at, text_len > at, &c, 1);
        break;
    case 2:
        if (text_len)
            text[at] = (char)(text[at] ^ 1 << below(8));
        break;
    default: {
        size_t len = 1 + below(4);
        splice(at, len < text_len - at ? len : text_len - at, "", 0);
    }
    }
}

static void mutate_token(void) {
    static const char *const others[] = {"null",
                                         "true",
                                         "false",
                                         "{}",
                                         "[]",
                                         "0",
                                         "-1",
                                         "\"\"",
                                         "\"U8\"",
                                         "\"dtype\"",
                                         "\"shape\"",
                                         "\"data_offsets\"",
                                         "\"__metadata__\"",
                                         ",",
                                         ":",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "\"a\":",
                                         "nul",
                                         "NaN",
                                         "Infinity",
                                         "/**/",
                                         "\"dt\\u0079pe\"",
                                         "{\"U8\":null}",
                                         "[\"U8\",[1],[0,1]]",
                                         "1 2"};
    const token *a = choose_token(0);
    if (!a)
        return;
    token one = *a, two = tokens[below((unsigned)token_count)];
    char kept[512];
    size_t len = two.len < sizeof kept ? two.len : sizeof kept;
    memcpy(kept, text + two.at, len);
    const char *other = PICK(others);
    switch (below(5)) {
    case 0:
        splice(one.at, one.len, "", 0);
        break;
    case 1:
        splice(one.at, 0, kept, len);
        break;
    case 2:
        splice(one.at, one.len, kept, len);
        break;
    case 3:
        splice(one.at, one.len, other, strlen(other));
        break;
    default:
        splice(one.at, 0, other, strlen(other));
    }
}

static void mutate_number(void) {
    static const char *const others[] = {"0",
                                         "1",
                                         "2",
                                         "-0",
                                         "-1",
                                         "00",
                                         "02",
                                         "+2",
                                         "2.0",
                                         "2e0",
                                         "1E1",
                                         ".5",
                                         "1.",
                                         "1e",
                                         "1e+",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "9223372036854775808",
                                         "9223372036854775807",
                                         "4294967296",
                                         "99999999999999999999",
                                         "2305843009213693952",
                                         "0x1",
                                         "1_0",
                                         "-",
                                         "100000000000000000000"};
    const token *t = choose_token('0');
    char number[32];
    if (!t)
        return;
    if (once_in(2)) { /* a little more or less than it is */
        uint64_t value = strtoull(text + t->at, NULL, 10);
        static const int64_t steps[] = {1, -1, 2, -2, 4, -4, 8, -8};
        value += (uint64_t)PICK(steps);
        int len = snprintf(number, sizeof number, "%llu", (unsigned long long)value);
        splice(t->at, t->len, number, (size_t)len);
        return;
    }
    const char *other = PICK(others);
    splice(t->at, t->len, other, strlen(other));
}

/* Two numbers change places: offsets out of order, overlaps, shapes that do not fit. */
static void mutate_order(void) {
    const token *t = choose_token('0');
    if (!t)
        return;
    token a = *t, b = a;
    for (unsigned tries = 0; tries < 20 && (b.kind != '0' || b.at == a.at); tries++)
        b = tokens[below((unsigned)token_count)];
    if (b.kind != '0' || b.at == a.at || a.len > 64 || b.len > 64)
        return;
    if (a.at > b.at) {
        token kept = a;
        a = b;
        b = kept;
    }
    char first[64], second[64];
    memcpy(first, text + a.at, a.len);
    memcpy(second, text + b.at, b.len);
    splice(b.at, b.len, first, a.len);
    splice(a.at, a.len, second, b.len);
}

/* Something inside a string, good or bad. */
static void mutate_string(void) {
    static const struct {
        const char *bytes;
        size_t len;
    } parts[] = {
#define PART(s) {s, sizeof(s) - 1}
        PART("\\u0000"),
        PART("\\ud83d\\ude00"),
        PART("\\ud800"),
        PART("\\udc00"),
        PART("\\udbff\\udfff"),
        PART("\\ud800\\u0041"),
        PART("\\ud800\\ud800"),
        PART("\\uDC00\\uD800"),
        PART("\\x41"),
        PART("\\u12"),
        PART("\\u12g4"),
        PART("\\"),
        PART("\\'"),
        PART("\\/"),
        PART("\\n"),
        PART("\n"),
        PART("\x1f"),
        PART("\x7f"),
        PART("\0"),
        PART("\xc3\xa9"),
        PART("\xc3"),
        PART("\xa9"),
        PART("\xc0\x80"),
        PART("\xe0\x80\x80"),
        PART("\xed\xa0\x80"),
        PART("\xed\x9f\xbf"),
        PART("\xf4\x8f\xbf\xbf"),
        PART("\xf4\x90\x80\x80"),
        PART("\xf0\x80\x80\x80"),
        PART("\xf0\x9f\x98"),
        PART("\xff"),
        PART("\\u00e9"),
        PART("\\u0022"),
        PART("\\u005c"),
        PART("\\U0041"),
        PART("\\ud83d\\"),
        PART("\\ud83d\\n"),
        PART("\\ud83d"),
        PART("\xe2\x80\xa8"),
        PART("\xef\xbf\xbe")};
#undef PART
    const token *t = choose_token('"');
    if (!t || t->len < 2)
        return;
    size_t i = below((unsigned)COUNT(parts)), at = t->at + 1 + below((unsigned)t->len - 1);
    splice(at, 0, parts[i].bytes, parts[i].len);
}

static void mutate_dtype(void) {
    static const char *const others[] = {
        "\"f32\"", "\"F32 \"", "\"\"",        "\"F128\"", "\"BF16\\u0000\"", "\"F\\u0033\\u0032\"",
        "\"U8\"",  "\"F4\"",   "\"F6_E2M3\"", "\"C64\"",  "\"F8_E4M3FN\"",   "\"I4\"",
        "null",    "5",        "[\"U8\"]"};
    static const char key[] = "\"dtype\"";
    tokenise();
    unsigned start = token_count ? below((unsigned)token_count) : 0;
    for (size_t k = 0; k + 2 < token_count; k++) {
        const token *t = &tokens[(start + k) % (token_count - 2)];
        if (t->len != sizeof key - 1 || memcmp(text + t->at, key, t->len) != 0)
            continue;
        const token *value = t + 2;
        const char *other = once_in(2) ? PICK(others) : NULL;
        char name[32];
        if (!other) {
            snprintf(name, sizeof name, "\"%s\"", dtypes[choose_dtype()].name);
            other = name;
        }
        splice(value->at, value->len, other, strlen(other));
        return;
    }
}

/* Adds text before or after, or cuts the end off. */
static void mutate_ends(void) {
    static const char *const more[] = {" ",    "\n\n", "{}",           "\"\"", "1",
                                       ",",    "}",    "\xef\xbb\xbf", "//",   "\t",
                                       "null", "\x0b", "\xc2\xa0"};
    const char *extra = PICK(more);
    switch (below(4)) {
    case 0:
        text_len -= text_len ? below((unsigned)text_len) : 0;
        break;
    case 1:
        text_len -= text_len > 0;
        break;
    case 2:
        splice(0, 0, extra, strlen(extra));
        break;
    default:
        splice(text_len, 0, extra, strlen(extra));
    }
}

static void mutate_data(void) {
    unsigned step = once_in(2) ? 1 : 1 + below(64);
    data_len = once_in(2) ? data_len + step : data_len > step ? data_len - step : 0;
}

static void mutate_length(void) {
    static const uint64_t others[] = {0,
                                      1,
                                      2,
                                      8,
                                      100000000,
                                      100000001,
                                      UINT64_MAX,
                                      UINT64_MAX - 7,
                                      UINT64_MAX - 8,
                                      UINT64_C(1) << 63,
                                      UINT64_C(1) << 32,
                                      0x46554747,
                                      0x7b7b7b7b7b7b7b7b};
    static const int64_t steps[] = {1, -1, 2, -2, 8, -8};
    length_is_set = true;
    length_field = once_in(2) ? PICK(others) : text_len + (uint64_t)PICK(steps);
}

static void mutate_file(void) {
    cut_at = below(once_in(2) ? 17 : (unsigned)(8 + text_len + data_len + 1));
}

/* Makes the data as long as the offsets now say, if that can be determined. */
static void refit_data(void) {
    uint64_t largest = 0;
    tokenise();
    for (size_t i = 0; i + 1 < token_count; i++) {
        if (tokens[i].kind != '0' || tokens[i + 1].kind != ']' || tokens[i].len > 5)
            continue;
        uint64_t value = strtoull(text + tokens[i].at, NULL, 10);
        if (value > largest && value <= MOST_DATA)
            largest = value;
    }
    data_len = (size_t)largest;
}

static void mutate(void) {
    static void (*const ways[])(void) = {
        mutate_byte,   mutate_byte,   mutate_token,  mutate_token,  mutate_token, mutate_number,
        mutate_number, mutate_number, mutate_string, mutate_string, mutate_order, mutate_order,
        mutate_dtype,  mutate_ends,   mutate_data,   mutate_length};
    for (unsigned n = once_in(2) ? 1 : 1 + below(4); n > 0; n--)
        PICK(ways)();
    if (once_in(40))
        mutate_file();
    if (once_in(3))
        refit_data();
}

/* Output. */

static void write_case(void) {
    static unsigned char file[8 + MOST_TEXT + MOST_DATA * MOST_TENSORS];
    size_t size = 8 + text_len + data_len;
    uint64_t length = length_is_set ? length_field : text_len;
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(length >> 8 * i);
    memcpy(file + 8, text, text_len);
    for (size_t i = 0; i < data_len; i++)
        file[8 + text_len + i] = (unsigned char)(i * 37);
    if (size > cut_at)
        size = cut_at;
    unsigned char frame[4] = {(unsigned char)size, (unsigned char)(size >> 8),
                              (unsigned char)(size >> 16), (unsigned char)(size >> 24)};
    fwrite(frame, 1, sizeof frame, stdout);
    fwrite(file, 1, size, stdout);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: generate SEED FIRST COUNT\n");
        return 2;
    }
    uint64_t seed = strtoull(argv[1], NULL, 10), first = strtoull(argv[2], NULL, 10);
    uint64_t count = strtoull(argv[3], NULL, 10);
    for (uint64_t i = first; i < first + count; i++) {
        random_state = seed * UINT64_C(0xd1342543de82ef95) + i;
        random_state = random_u64();
        length_is_set = false;
        cut_at = SIZE_MAX;
        build_header();
        if (!once_in(3))
            mutate();
        write_case();
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
