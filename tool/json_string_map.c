/* Parses a JSON object of strings, as the user's editor leaves it. */
#include "json_string_map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "output/output_plan.h"

typedef struct json_reader {
    const char *at, *end, *begin;
    text *why;
} json_reader;

static bool refuse(json_reader *r, const char *message) {
    size_t line = 1;
    for (const char *p = r->begin; p < r->at && p < r->end; p++)
        line += *p == '\n';
    text_addf(r->why, "line %zu: %s", line, message);
    return false;
}

static void skip_space(json_reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

static bool take(json_reader *r, char c) {
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_hex(json_reader *r, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        static const char digits[] = "0123456789abcdef";
        char c = r->at < r->end ? *r->at : '\0';
        const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
        if (!digit)
            return refuse(r, "\\u takes four hexadecimal digits");
        *out = *out << 4 | (uint32_t)(digit - digits);
    }
    return true;
}

static void add_point(text *t, uint32_t point) {
    static const uint32_t limits[] = {0x80, 0x800, 0x10000, 0x110000};
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    size_t more = 0;
    while (point >= limits[more])
        more++;
    char lead = (char)(leads[more] | point >> (6 * more));
    text_add(t, &lead, 1);
    while (more--) {
        char next = (char)(0x80 | (point >> (6 * more) & 0x3f));
        text_add(t, &next, 1);
    }
}

/* Decodes what follows "\u": one code unit, or a surrogate pair. */
static bool take_unicode(json_reader *r, text *out) {
    uint32_t point, low;
    if (!take_hex(r, &point))
        return false;
    if (point >= 0xd800 && point < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return refuse(r, "half of a \\u pair is missing");
        r->at += 2;
        if (!take_hex(r, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse(r, "half of a \\u pair is missing");
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (point >= 0xdc00 && point < 0xe000) {
        return refuse(r, "half of a \\u pair is missing");
    }
    add_point(out, point);
    return true;
}

static bool take_escape(json_reader *r, text *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : '\0';
    const char *known = c ? strchr(from, c) : NULL;
    if (c == 'u')
        return take_unicode(r, out);
    if (!known)
        return refuse(r, "a backslash must be written \\\\, or begin one of \\\" \\n \\t \\u");
    text_add(out, &to[known - from], 1);
    return true;
}

static bool take_string(json_reader *r, text *out, const char *what) {
    text_clear(out);
    text_add(out, "", 0);
    if (!take(r, '"'))
        return refuse(r, what);
    while (r->at < r->end && *r->at != '"') {
        uint32_t point;
        size_t n = decode_point((const unsigned char *)r->at, (size_t)(r->end - r->at), &point);
        if (!n)
            return refuse(r, "this is not UTF-8");
        if (point < 0x20)
            return refuse(r, point == '\n' ? "a quote is missing at the end of the line"
                                           : "a control character must be written as \\u0000");
        r->at += n;
        if (point != '\\')
            text_add(out, r->at - n, n);
        else if (!take_escape(r, out))
            return false;
    }
    return take(r, '"') || refuse(r, "a quote is missing at the end");
}

static char *copied(const text *t) {
    char *copy = need(t->len + 1, 1);
    memcpy(copy, t->bytes, t->len);
    return copy;
}

static bool take_pair(json_reader *r, json_pairs *out, text *key, text *value) {
    if (!take_string(r, key, "a key in quotes is missing here"))
        return false;
    size_t key_end = (size_t)(r->at - r->begin);
    if (!take(r, ':'))
        return refuse(r, "a colon is missing after the key");
    if (!take_string(r, value, "values are strings: put it in quotes"))
        return false;
    out->items = need_next(out->items, out->count, sizeof *out->items);
    out->items[out->count++] =
        (json_pair){copied(key), copied(value), key->len, value->len, key_end};
    return true;
}

/* Reports the first repeated key, in the order of the text. */
static bool check_duplicate_keys(json_reader *r, const json_pairs *pairs) {
    named *keys = need(pairs->count, sizeof *keys);
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < pairs->count; i++)
        keys[i] = (named){pairs->items[i].key, pairs->items[i].key_len, i};
    sort_named(keys, pairs->count);
    for (size_t i = 1; i < pairs->count; i++)
        if (same_named(&keys[i - 1], &keys[i]) && keys[i].at < first)
            first = keys[i].at;
    free(keys);
    if (first == SIZE_MAX)
        return true;
    r->at = r->begin + pairs->items[first].key_end;
    return refuse(r, "this key appears twice");
}

bool json_read_pairs(const char *bytes, size_t len, json_pairs *out, text *why) {
    json_reader r = {bytes, bytes + len, bytes, why};
    text key = {0}, value = {0};
    *out = (json_pairs){0};
    bool good = take(&r, '{') || refuse(&r, "an object begins with {");
    if (good && !take(&r, '}')) {
        do
            good = take_pair(&r, out, &key, &value);
        while (good && take(&r, ','));
        good = good && (take(&r, '}') || refuse(&r, "a comma or } is missing here"));
    }
    skip_space(&r);
    if (good && r.at < r.end)
        good = refuse(&r, "there is more text after the object");
    good = good && check_duplicate_keys(&r, out);
    text_free(&key);
    text_free(&value);
    return good;
}

void json_free_pairs(json_pairs *p) {
    for (size_t i = 0; i < p->count; i++) {
        free(p->items[i].key);
        free(p->items[i].value);
    }
    free(p->items);
    *p = (json_pairs){0};
}
