/* Writes JSON: indented to stdout, or on one line into a text. */
#include "view/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/print.h"

enum { JSON_DEPTH = 16 };

static struct {
    struct {
        char close;
        bool compact, filled;
    } levels[JSON_DEPTH];
    size_t depth;
    bool after_key;
    text *into; /* NULL: stdout */
} json;

static void put(const char *bytes, size_t len) {
    if (json.into)
        text_add(json.into, bytes, len);
    else
        fwrite(bytes, 1, len, stdout);
}

static void new_line(size_t depth) {
    if (!json.into)
        printf("\n%*s", (int)(2 * depth), "");
}

/* Writes the separator between the previous element and this one. */
static void separate(void) {
    if (json.after_key) {
        json.after_key = false;
        return;
    }
    if (json.depth == 0)
        return;
    bool compact = json.levels[json.depth - 1].compact;
    if (json.levels[json.depth - 1].filled)
        put(", ", compact ? 2 : 1);
    if (!compact)
        new_line(json.depth);
    json.levels[json.depth - 1].filled = true;
}

void json_open(char bracket, bool compact) {
    separate();
    if (json.depth == JSON_DEPTH)
        abort(); /* A programming error: no output of this tool nests that deep. */
    bool inside = json.depth && json.levels[json.depth - 1].compact;
    json.levels[json.depth].close = bracket == '{' ? '}' : ']';
    json.levels[json.depth].compact = compact || inside;
    json.levels[json.depth].filled = false;
    json.depth++;
    put(&bracket, 1);
}

void json_close(void) {
    json.depth--;
    if (json.levels[json.depth].filled && !json.levels[json.depth].compact)
        new_line(json.depth);
    put(&json.levels[json.depth].close, 1);
    if (json.depth == 0 && !json.into)
        putchar('\n');
}

static void add_escape(text *t, uint32_t point) {
    static const char shorts[] = "btn?fr";
    if (point == '"' || point == '\\')
        text_addf(t, "\\%c", (char)point);
    else if (point >= 8 && point <= 13 && point != 11)
        text_addf(t, "\\%c", shorts[point - 8]);
    else if (point < 0x10000)
        text_addf(t, "\\u%04" PRIx32, point);
    else
        text_addf(t, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((point - 0x10000) >> 10),
                  0xdc00 + ((point - 0x10000) & 0x3ff));
}

/* Also escapes what a terminal might interpret, since JSON is often viewed in one. */
void text_add_json(text *t, const char *bytes, size_t len) {
    const unsigned char *s = (const unsigned char *)bytes;
    text_add(t, "\"", 1);
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t point;
        for (n = 0; i + n < len && s[i + n] >= 0x20 && s[i + n] < 0x7f && s[i + n] != '"' &&
                    s[i + n] != '\\';)
            n++;
        text_add(t, bytes + i, n);
        if (n)
            continue;
        n = decode_point(s + i, len - i, &point);
        if (!n || unsafe_point(point) || point == '"' || point == '\\')
            add_escape(t, n ? point : 0xfffd);
        else
            text_add(t, bytes + i, n);
        n += !n;
    }
    text_add(t, "\"", 1);
}

static void put_string(const char *bytes, size_t len) {
    static text scratch;
    text_clear(&scratch);
    text_add_json(&scratch, bytes, len);
    put(scratch.bytes, scratch.len);
}

void json_into(text *t) {
    json.into = t;
}

void json_key(const char *key) {
    separate();
    put_string(key, strlen(key));
    put(": ", 2);
    json.after_key = true;
}

void json_text(const char *bytes, size_t len) {
    separate();
    put_string(bytes, len == TENMAP_CSTR ? strlen(bytes) : len);
}

void json_uint(uint64_t number) {
    char digits[20];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + number % 10);
    while (number /= 10);
    separate();
    put(digits + n, sizeof digits - n);
}

void json_int(int64_t number) {
    char digits[24];
    separate();
    put(digits, (size_t)snprintf(digits, sizeof digits, "%" PRId64, number));
}

void json_real(double number) {
    char digits[40];
    if (!isfinite(number)) {
        json_null();
        return;
    }
    separate();
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number)
            break;
    }
    put(digits, strlen(digits));
}

void json_bool(bool value) {
    separate();
    put(value ? "true" : "false", value ? 4 : 5);
}

void json_null(void) {
    separate();
    put("null", 4);
}

void json_key_text(const char *key, const char *bytes, size_t len) {
    json_key(key);
    json_text(bytes, len);
}

void json_key_uint(const char *key, uint64_t number) {
    json_key(key);
    json_uint(number);
}

void json_key_real(const char *key, double number) {
    json_key(key);
    json_real(number);
}

void json_key_bool(const char *key, bool value) {
    json_key(key);
    json_bool(value);
}

void json_tensor_fields(const tenmap_tensor *tensor) {
    json_key_text("name", tensor->name, tensor->name_len);
    json_key_text("dtype", tenmap_dtype_text(tensor), TENMAP_CSTR);
    json_key("shape");
    json_open('[', true);
    for (uint32_t d = 0; d < tensor->rank; d++)
        json_uint(tensor->shape[d]);
    json_close();
}
