/* The slow paths of the JSON reader: escapes, numbers in unknown fields, skipped values. */
#include "format.h"
#include "json.h"

bool tmi_json_fail(tmi_json *json, const char *problem) {
    if (!json->problem)
        json->problem = problem;
    return false;
}

static bool fail_in_string(tmi_json *json, char *at, const char *problem) {
    json->at = at;
    return tmi_json_fail(json, problem);
}

/* Four hexadecimal digits, or -1. */
static int32_t hex4(const char *at) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int32_t digit;
        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        else
            return -1; /* a zero byte ends up here too, so nothing after the end is read */
        value = value << 4 | digit;
    }
    return value;
}

static char *put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* Decodes a \u escape whose `u` is at *at; moves *at past it. */
static bool unicode_escape(tmi_json *json, char **at, uint32_t *out) {
    int32_t first = hex4(*at + 1);
    if (first < 0)
        return fail_in_string(json, *at, "expected four hexadecimal digits after \\u");
    char *next = *at + 5;
    if (first >= 0xdc00 && first <= 0xdfff)
        return fail_in_string(json, *at,
                              "a \\u escape is the second half of a pair without the first");
    if (first >= 0xd800 && first <= 0xdbff) {
        int32_t second = next[0] == '\\' && next[1] == 'u' ? hex4(next + 2) : -1;
        if (second < 0xdc00 || second > 0xdfff)
            return fail_in_string(json, *at,
                                  "a \\u escape is the first half of a pair without the second");
        *out = 0x10000 + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00);
        *at = next + 6;
        return true;
    }
    *out = (uint32_t)first;
    *at = next;
    return true;
}

/*
 * Writes the escape whose backslash is at *at to *to. The result is never longer than its source.
 */
static bool take_escape(tmi_json *json, char **at, char **to) {
    static const char from_letters[] = "\"\\/bfnrt", to_bytes[] = "\"\\/\b\f\n\r\t";
    char letter = (*at)[1];
    if (letter == 'u') {
        uint32_t c = 0;
        ++*at;
        if (!unicode_escape(json, at, &c))
            return false;
        *to = put_utf8(*to, c);
        return true;
    }
    const char *known = letter ? strchr(from_letters, letter) : NULL;
    if (!known)
        return fail_in_string(json, *at + 1, "expected one of \"\\/bfnrtu after a backslash");
    *(*to)++ = to_bytes[known - from_letters];
    *at += 2;
    return true;
}

bool tmi_json_string_slow(tmi_json *json, char *start, char *at, tmi_text *out) {
    char *to = at;
    while (*at != '"') {
        if (*at != '\\') {
            if (at == json->end)
                return fail_in_string(json, at, "a string is not closed");
            return fail_in_string(json, at, "a string holds a raw control character");
        }
        if (!take_escape(json, &at, &to))
            return false;
        char *plain = tmi_json_string_end(at);
        memmove(to, at, (size_t)(plain - at));
        to += plain - at;
        at = plain;
    }
    *to = '\0';
    json->at = at + 1;
    out->bytes = start;
    out->len = (size_t)(to - start);
    return true;
}

/*
 * Numbers in unknown fields are parsed only to reject those that the reference rejects: values that
 * overflow a double when computed as the reference does, as the significand times a power of ten.
 */
typedef struct number {
    uint64_t significand;
    bool full;     /* the next digit would not fit */
    int64_t scale; /* exponent of ten */
} number;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Adds a digit if it fits; false if not. */
static bool add_digit(number *n, char c) {
    uint64_t digit = (uint64_t)(c - '0');
    if (n->full || n->significand > UINT64_MAX / 10 || n->significand * 10 > UINT64_MAX - digit) {
        n->full = true;
        return false;
    }
    n->significand = n->significand * 10 + digit;
    return true;
}

static bool number_overflows(const number *n) {
    /* Only these matter: 2^64 * 10^288 is still finite, and every scale above 308 is rejected. */
    static const double tens[] = {1e289, 1e290, 1e291, 1e292, 1e293, 1e294, 1e295,
                                  1e296, 1e297, 1e298, 1e299, 1e300, 1e301, 1e302,
                                  1e303, 1e304, 1e305, 1e306, 1e307, 1e308};
    if (n->significand == 0 || n->scale < 289)
        return false;
    if (n->scale > 308)
        return true;
    double value = (double)n->significand * tens[n->scale - 289];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits); /* -ffast-math would fold isinf away */
    return bits >> 52 == 0x7ff;
}

static bool take_exponent(tmi_json *json, number *n) {
    char *at = json->at + 1;
    bool negative = *at == '-';
    if (*at == '-' || *at == '+')
        at++;
    json->at = at;
    if (!is_digit(*at))
        return tmi_json_fail(json, "expected a digit in the exponent of a number");
    int64_t exponent = 0;
    for (; is_digit(*at); at++)
        if (exponent < INT64_C(1000000000000))
            exponent = exponent * 10 + (*at - '0');
    n->scale += negative ? -exponent : exponent;
    json->at = at;
    return true;
}

static bool skip_word(tmi_json *json, const char *word, size_t len) {
    for (size_t i = 0; i < len; i++, json->at++)
        if (*json->at != word[i])
            return tmi_json_fail(json, "expected a value");
    return true;
}

static bool skip_number(tmi_json *json) {
    number n = {0, false, 0};
    char *start = json->at, *at = start + (*start == '-');
    if (json->python && *at == 'I') {
        json->at = at;
        return skip_word(json, "Infinity", 8);
    }
    if (!is_digit(*at)) {
        json->at = at;
        return tmi_json_fail(json, "expected a digit after the minus sign");
    }
    if (*at == '0' && is_digit(at[1])) {
        json->at = at;
        return tmi_json_fail(json, "a number has a leading zero");
    }
    for (; is_digit(*at); at++)
        if (!add_digit(&n, *at))
            n.scale++;
    if (*at == '.') {
        json->at = ++at;
        if (!is_digit(*at))
            return tmi_json_fail(json, "expected a digit after the decimal point");
        n.full = false; /* the reference tries fraction digits even after dropped integer digits */
        for (; is_digit(*at); at++)
            if (add_digit(&n, *at))
                n.scale--;
    }
    json->at = at;
    if ((*at == 'e' || *at == 'E') && !take_exponent(json, &n))
        return false;
    if (number_overflows(&n) && !json->python) {
        json->at = start;
        return tmi_json_fail(json, "a number is too large for a double");
    }
    return true;
}

/* A value that is not a container. */
static bool skip_scalar(tmi_json *json, char first) {
    tmi_text unused;
    switch (first) {
    case '"':
        return tmi_json_string(json, &unused, "");
    case 't':
        return skip_word(json, "true", 4);
    case 'f':
        return skip_word(json, "false", 5);
    case 'n':
        return skip_word(json, "null", 4);
    case 'N':
        return json->python ? skip_word(json, "NaN", 3) : tmi_json_fail(json, "expected a value");
    default:
        if (first == '-' || is_digit(first) || (json->python && first == 'I'))
            return skip_number(json);
        return tmi_json_fail(json, "expected a value");
    }
}

static bool skip_key(tmi_json *json) {
    tmi_text unused;
    return tmi_json_string(json, &unused, "expected a key in quotes") &&
           tmi_json_expect(json, ':', "expected ':' after a key");
}

/* The open containers are bits of a fixed stack: 1 for an object, 0 for an array. */
typedef struct skip_stack {
    uint64_t bits[2];
    unsigned depth, floor;
} skip_stack;

static bool in_object(const skip_stack *s) {
    return s->bits[s->depth / 64] >> (s->depth % 64) & 1;
}

/* Enters the container that starts at `at`; sets *closed if it is empty. */
static bool enter(tmi_json *json, skip_stack *s, char first, bool *closed) {
    if (s->depth == TMI_JSON_DEPTH)
        return tmi_json_fail(json, "containers are nested more than 127 deep");
    json->at++;
    s->depth++;
    s->bits[s->depth / 64] &= ~(UINT64_C(1) << s->depth % 64);
    if (first == '{')
        s->bits[s->depth / 64] |= UINT64_C(1) << s->depth % 64;
    *closed = tmi_json_take(json, first == '{' ? '}' : ']');
    if (*closed)
        s->depth--;
    return *closed || first == '[' || skip_key(json);
}

/* After a value: leaves the containers that end here; sets *more if another value follows. */
static bool leave(tmi_json *json, skip_stack *s, bool *more) {
    *more = false;
    while (s->depth > s->floor) {
        bool object = in_object(s);
        if (tmi_json_take(json, ',')) {
            *more = true;
            return object ? skip_key(json) : true;
        }
        if (!tmi_json_expect(json, object ? '}' : ']',
                             object ? "expected ',' or '}'" : "expected ',' or ']'"))
            return false;
        s->depth--;
    }
    return true;
}

bool tmi_json_skip(tmi_json *json, unsigned depth) {
    skip_stack stack = {{0, 0}, depth, depth};
    bool more = true;
    while (more) {
        char first = tmi_json_peek(json);
        bool closed = true;
        if (first == '{' || first == '[') {
            if (!enter(json, &stack, first, &closed))
                return false;
        } else if (!skip_scalar(json, first)) {
            return false;
        }
        if (closed && !leave(json, &stack, &more))
            return false;
    }
    return true;
}
