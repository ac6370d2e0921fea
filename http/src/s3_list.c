/*
 * The response to ListObjectsV2: <Contents><Key>..</Key></Contents>,
 * <CommonPrefixes><Prefix>..</Prefix> and <NextContinuationToken>. Only these are looked for:
 * servers differ in the rest.
 */
#include "http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slice {
    const char *at;
    size_t len;
} slice;

/* The first occurrence of `text`, or NULL. */
static const char *find(slice in, const char *text) {
    size_t len = strlen(text);
    for (size_t i = 0; i + len <= in.len; i++)
        if (in.at[i] == text[0] && memcmp(in.at + i, text, len) == 0)
            return in.at + i;
    return NULL;
}

/* The contents of the first element of this name from *in on; advances *in past it. */
static bool next_element(slice *in, const char *name, slice *out) {
    char open[40], close[48];
    int len = snprintf(open, sizeof open, "<%s>", name);
    if (len < 0 || (size_t)len >= sizeof open)
        return false;
    snprintf(close, sizeof close, "</%s", open + 1);
    const char *begin = find(*in, open);
    if (!begin)
        return false;
    begin += strlen(open);
    const char *end = find((slice){begin, in->len - (size_t)(begin - in->at)}, close);
    if (!end)
        return false;
    *out = (slice){begin, (size_t)(end - begin)};
    end += strlen(close);
    *in = (slice){end, in->len - (size_t)(end - in->at)};
    return true;
}

/* Adds the character that an entity (without & and ;) stands for. */
static bool add_entity(tmh_text *text, slice entity) {
    static const struct {
        const char *name;
        char byte;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (entity.len == strlen(known[i].name) && !memcmp(entity.at, known[i].name, entity.len)) {
            tmh_add(text, &known[i].byte, 1);
            return true;
        }
    if (entity.len < 2 || entity.len > 9 || entity.at[0] != '#')
        return false;
    char digits[12] = "", *end;
    bool hex = entity.at[1] == 'x';
    memcpy(digits, entity.at + 1 + hex, entity.len - 1 - (size_t)hex);
    if (strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789") != strlen(digits))
        return false; /* strtol would accept blanks and signs */
    long c = strtol(digits, &end, hex ? 16 : 10);
    if (end == digits || c < 1 || c > 0x10ffff)
        return false;
    unsigned char b[4] = {(unsigned char)c};
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len - 1; i > 0; i--, c >>= 6)
        b[i] = (unsigned char)(0x80 | (c & 0x3f));
    b[0] = (unsigned char)(lead[len] | (unsigned long)c);
    tmh_add(text, (const char *)b, len);
    return true;
}

static char *plain_text(slice xml) {
    tmh_text text = {.bytes = NULL};
    enum { LONGEST_ENTITY = 12 }; /* keeps a long run of '&' linear */
    for (size_t i = 0; i < xml.len; i++) {
        size_t near = xml.len - i < LONGEST_ENTITY ? xml.len - i : LONGEST_ENTITY;
        const char *end = xml.at[i] == '&' ? memchr(xml.at + i, ';', near) : NULL;
        size_t len = end ? (size_t)(end - (xml.at + i)) : 0;
        if (end && add_entity(&text, (slice){xml.at + i + 1, len - 1}))
            i += len;
        else
            tmh_add(&text, xml.at + i, 1);
    }
    return tmh_take(&text);
}

char *tmh_xml_text(const char *xml, size_t len, const char *name) {
    slice all = {xml, len}, found;
    return next_element(&all, name, &found) ? plain_text(found) : NULL;
}

/* Reports each name of one kind: keys, or common prefixes. */
static bool say_names(tmh_naming *n, slice all, const char *outer, const char *inner) {
    slice one, text;
    while (!n->stopped && next_element(&all, outer, &one)) {
        if (!next_element(&one, inner, &text))
            return false;
        char *key = plain_text(text);
        if (!key)
            return false;
        size_t skip = strlen(n->prefix), len = strlen(key);
        if (len > skip && memcmp(key, n->prefix, skip) == 0) {
            if (key[len - 1] == '/')
                key[len - 1] = '\0';
            if (key[skip] && !strchr(key + skip, '/'))
                n->stopped = n->entry(n->ctx, key + skip) != 0;
        }
        free(key);
    }
    return true;
}

bool tmh_s3_names(const char *xml, size_t len, tmh_naming *n, char **next) {
    slice all = {xml, len};
    n->stopped = false;
    *next = NULL;
    if (!find(all, "<ListBucketResult") || !find(all, "</ListBucketResult"))
        return false; /* without its end, names may be missing */
    if (!say_names(n, all, "Contents", "Key") || !say_names(n, all, "CommonPrefixes", "Prefix"))
        return false;
    if (!n->stopped)
        *next = tmh_xml_text(xml, len, "NextContinuationToken");
    return true;
}
