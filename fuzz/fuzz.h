/*
 * What the fuzz targets share: assertions that hold in every build, and the promises that every
 * error keeps. A broken promise aborts, so that libFuzzer, AFL++ and the replay all see it.
 */
#ifndef TENMAP_FUZZ_H
#define TENMAP_FUZZ_H

#include "values/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    ((condition)                                                                                   \
         ? (void)0                                                                                 \
         : (fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition), abort()))

/*
 * The length of the well-formed UTF-8 character at s, by the table of the Unicode standard; 0 if
 * there is none.
 */
static inline size_t fuzz_char(const unsigned char *s, size_t left) {
    static const struct {
        unsigned char first[2], second[2];
        size_t len;
    } rows[] = {{{0x00, 0x7f}, {0x00, 0xff}, 1}, {{0xc2, 0xdf}, {0x80, 0xbf}, 2},
                {{0xe0, 0xe0}, {0xa0, 0xbf}, 3}, {{0xe1, 0xec}, {0x80, 0xbf}, 3},
                {{0xed, 0xed}, {0x80, 0x9f}, 3}, {{0xee, 0xef}, {0x80, 0xbf}, 3},
                {{0xf0, 0xf0}, {0x90, 0xbf}, 4}, {{0xf1, 0xf3}, {0x80, 0xbf}, 4},
                {{0xf4, 0xf4}, {0x80, 0x8f}, 4}};
    for (size_t i = 0; left > 0 && i < sizeof rows / sizeof rows[0]; i++) {
        if (s[0] < rows[i].first[0] || s[0] > rows[i].first[1])
            continue;
        if (left < rows[i].len)
            return 0;
        if (rows[i].len > 1 && (s[1] < rows[i].second[0] || s[1] > rows[i].second[1]))
            return 0;
        for (size_t k = 2; k < rows[i].len; k++)
            if (s[k] < 0x80 || s[k] > 0xbf)
                return 0;
        return rows[i].len;
    }
    return 0;
}

/* The offset of the first byte that is not UTF-8; len if there is none. */
static inline size_t fuzz_utf8(const char *text, size_t len) {
    const unsigned char *s = (const unsigned char *)text;
    size_t at = 0, size;
    while (at < len && (size = fuzz_char(s + at, len - at)) > 0)
        at += size;
    return at;
}

/*
 * Before a call: fills the error with bytes that no call writes, to check that success leaves it
 * unchanged.
 */
static inline void fuzz_error_arm(tenmap_error *error) {
    memset(error, 0xa5, sizeof *error);
}

/* Checks the error after a call that returned `status`. */
static inline void fuzz_error_check(const tenmap_error *error, tenmap_status status) {
    if (status == TENMAP_OK) {
        for (size_t i = 0; i < sizeof *error; i++)
            CHECK(((const unsigned char *)error)[i] == 0xa5);
        return;
    }
    CHECK(error->status == status);
    CHECK(strcmp(tenmap_status_name(status), "TENMAP_ERR_UNKNOWN") != 0);
    CHECK(error->remedy <= TENMAP_REMEDY_CREDENTIALS);
    const char *end = memchr(error->message, 0, sizeof error->message);
    CHECK(end && end > error->message);
    size_t len = (size_t)(end - error->message);
    CHECK(fuzz_utf8(error->message, len) == len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)error->message[i];
        CHECK(c >= 0x20 && c != 0x7f);
        if (c == 0xc2) /* U+0080 to U+009F are control characters too */
            CHECK((unsigned char)error->message[i + 1] >= 0xa0);
    }
}

#endif
