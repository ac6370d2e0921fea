/* UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#include "base.h"

#include <string.h>

static bool continues(unsigned char c) {
    return (c & 0xc0) == 0x80;
}

size_t tmi_utf8_char(const unsigned char *s, size_t left) {
    unsigned char lead = left ? s[0] : 0xff;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    if (lead < 0xe0)
        return left >= 2 && continues(s[1]) ? 2 : 0;
    if (left < 3 || !continues(s[1]) || !continues(s[2]))
        return 0;
    if (lead < 0xf0) {
        if ((lead == 0xe0 && s[1] < 0xa0) || (lead == 0xed && s[1] > 0x9f))
            return 0;
        return 3;
    }
    if (left < 4 || !continues(s[3]))
        return 0;
    if ((lead == 0xf0 && s[1] < 0x90) || (lead == 0xf4 && s[1] > 0x8f))
        return 0;
    return 4;
}

/* How many leading bytes are ASCII, in whole steps of 64: usually all of them. */
static size_t ascii_run(const unsigned char *s, size_t len) {
    size_t at = 0;
    for (; len - at >= 64; at += 64) {
        uint64_t w[8];
        memcpy(w, s + at, sizeof w);
        uint64_t any = w[0] | w[1] | w[2] | w[3] | w[4] | w[5] | w[6] | w[7];
        if (any & UINT64_C(0x8080808080808080))
            break;
    }
    return at;
}

size_t tmi_utf8_valid(const char *bytes, size_t len) {
    const unsigned char *s = (const unsigned char *)bytes;
    size_t at = 0;
    while (at < len) {
        at += ascii_run(s + at, len - at);
        size_t stop = len - at < 64 ? len : at + 64;
        while (at < stop) {
            size_t size = tmi_utf8_char(s + at, len - at);
            if (size == 0)
                return at;
            at += size;
        }
    }
    return len;
}
