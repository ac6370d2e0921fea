/*
 * A pull reader for JSON that works in place: strings are unescaped and NUL-terminated where they
 * stand. It does not recurse, does not allocate and does no I/O.
 *
 * The text must be valid UTF-8, writable, and followed by TMI_JSON_PAD zero bytes: a zero byte is
 * never valid in JSON, so the reader stops there without checking bounds, and wide loads stay
 * inside.
 *
 * Functions that return bool return false once something is wrong; `problem` then says what was
 * expected and `at` points to where.
 */
#ifndef TENMAP_JSON_H
#define TENMAP_JSON_H

#include "format.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { TMI_JSON_PAD = 32 };
/* How deep containers may be nested, the outermost included. */
enum { TMI_JSON_DEPTH = 127 };

typedef struct tmi_json {
    char *text; /* the first byte */
    char *at;   /* the next byte to read */
    char *end;  /* the first zero byte after the text */
    const char *problem;
    /* Accept what Python adds to JSON: NaN, Infinity, -Infinity, numbers too large for a double. */
    bool python;
} tmi_json;

typedef struct tmi_text {
    char *bytes;
    size_t len;
} tmi_text;

/* Reads the rest of a string that has an escape or an error at `at`; see tmi_json_string. */
bool tmi_json_string_slow(tmi_json *json, char *start, char *at, tmi_text *out);
/* Skips one value of any type; `depth` containers are open around it. */
bool tmi_json_skip(tmi_json *json, unsigned depth);
/* Sets the problem, unless one is set already; always returns false. */
bool tmi_json_fail(tmi_json *json, const char *problem);

static inline bool tmi_json_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Skips white space and returns the next byte without consuming it. */
static inline char tmi_json_peek(tmi_json *json) {
    while (tmi_json_is_space(*json->at))
        json->at++;
    return *json->at;
}

/* Consumes `c` if it comes next after white space. */
static inline bool tmi_json_take(tmi_json *json, char c) {
    if (tmi_json_peek(json) != c)
        return false;
    json->at++;
    return true;
}

static inline bool tmi_json_expect(tmi_json *json, char c, const char *problem) {
    return TMI_LIKELY(tmi_json_take(json, c)) ? true : tmi_json_fail(json, problem);
}

/* The first byte at or after `at` that is a quote, a backslash or a control character. */
static inline char *tmi_json_string_end(char *at) {
#if defined(__SSE2__)
    for (;; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
        __m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        int found = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control));
        if (found)
            return at + __builtin_ctz((unsigned)found);
    }
#else
    while ((unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
        at++;
    return at;
#endif
}

/* Reads a string: its unescaped bytes, NUL-terminated in place. */
static inline bool tmi_json_string(tmi_json *json, tmi_text *out, const char *problem) {
    if (TMI_UNLIKELY(tmi_json_peek(json) != '"'))
        return tmi_json_fail(json, problem);
    char *start = json->at + 1, *at = tmi_json_string_end(start);
    if (TMI_UNLIKELY(*at != '"'))
        return tmi_json_string_slow(json, start, at, out);
    *at = '\0';
    json->at = at + 1;
    out->bytes = start;
    out->len = (size_t)(at - start);
    return true;
}

/*
 * Reads up to eight digits at `at` as a number and returns how many there are (0 to 8). The bytes
 * are loaded as one little-endian word and turned into digit values; what follows the last digit is
 * shifted out, which leaves zeros in front.
 */
static inline unsigned tmi_json_digits(const char *at, uint64_t *value) {
#if TMI_BIG_ENDIAN || !defined(__GNUC__)
    unsigned count = 0;
    for (*value = 0; count < 8 && at[count] >= '0' && at[count] <= '9'; count++)
        *value = *value * 10 + (uint64_t)(at[count] - '0');
    return count;
#else
    uint64_t v;
    memcpy(&v, at, 8);
    v ^= UINT64_C(0x3030303030303030);
    uint64_t others = ((v + UINT64_C(0x7676767676767676)) | v) & UINT64_C(0x8080808080808080);
    unsigned count = others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
    if (count == 0)
        return *value = 0, 0;
    v <<= 64 - 8 * count;
    v = v * 10 + (v >> 8); /* pairs, then fours, then all eight */
    *value = ((v & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
              ((v >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
             32;
    return count;
#endif
}

/* Reads a plain non-negative integer up to 2^64-1: no sign, fraction, exponent or leading zero. */
static inline bool tmi_json_u64(tmi_json *json, uint64_t *out) {
    char *at = (tmi_json_peek(json), json->at), *start = at;
    uint64_t value;
    at += tmi_json_digits(at, &value);
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (TMI_UNLIKELY(value > UINT64_MAX / 10 || value * 10 > UINT64_MAX - digit))
            return tmi_json_fail(json, "an integer must be at most 18446744073709551615");
        value = value * 10 + digit;
    }
    if (TMI_UNLIKELY(at == start || (*start == '0' && at - start > 1) || *at == '.' || *at == 'e' ||
                     *at == 'E')) {
        json->at = at - start > 1 && *start == '0' ? start : at;
        return tmi_json_fail(json, "expected a plain non-negative integer");
    }
    json->at = at;
    *out = value;
    return true;
}

#endif
