#include "json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_DEPTH = 16 };

static struct {
    struct {
        char close;
        bool compact, filled;
    } levels[JSON_DEPTH];
    size_t depth;
    bool after_key;
} json;

static void new_line(size_t depth) {
    printf("\n%*s", (int)(2 * depth), "");
}

/* What stands between the element before and this one. */
static void separate(void) {
    if (json.after_key) {
        json.after_key = false;
        return;
    }
    if (json.depth == 0)
        return;
    bool compact = json.levels[json.depth - 1].compact;
    if (json.levels[json.depth - 1].filled)
        fputs(compact ? ", " : ",", stdout);
    if (!compact)
        new_line(json.depth);
    json.levels[json.depth - 1].filled = true;
}

void json_open(char bracket, bool compact) {
    separate();
    if (json.depth == JSON_DEPTH)
        abort(); /* A mistake of the programmer: no output of ours nests that deep. */
    bool inside = json.depth && json.levels[json.depth - 1].compact;
    json.levels[json.depth].close = bracket == '{' ? '}' : ']';
    json.levels[json.depth].compact = compact || inside;
    json.levels[json.depth].filled = false;
    json.depth++;
    putchar(bracket);
}

void json_close(void) {
    json.depth--;
    if (json.levels[json.depth].filled && !json.levels[json.depth].compact)
        new_line(json.depth);
    putchar(json.levels[json.depth].close);
    if (json.depth == 0)
        putchar('\n');
}

static void put_string(const char *bytes, size_t len) {
    static const char shorts[] = "btn?fr";
    putchar_unlocked('"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\') {
            putchar_unlocked('\\');
            putchar_unlocked(c);
        } else if (c >= 8 && c <= 13 && c != 11) {
            putchar_unlocked('\\');
            putchar_unlocked(shorts[c - 8]);
        } else if (c < 0x20 || c == 0x7f) {
            printf("\\u%04x", c);
        } else {
            putchar_unlocked(c);
        }
    }
    putchar_unlocked('"');
}

void json_key(const char *key) {
    separate();
    put_string(key, strlen(key));
    fputs(": ", stdout);
    json.after_key = true;
}

void json_text(const char *bytes, size_t len) {
    separate();
    put_string(bytes, len == TENMAP_CSTR ? strlen(bytes) : len);
}

void json_uint(uint64_t number) {
    separate();
    printf("%" PRIu64, number);
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
    fputs(digits, stdout);
}

void json_bool(bool value) {
    separate();
    fputs(value ? "true" : "false", stdout);
}

void json_null(void) {
    separate();
    fputs("null", stdout);
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
