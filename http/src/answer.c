/* Parses the header lines of responses. Nothing here does I/O; every byte may be hostile. */
#include "http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sha256.h"

typedef struct span {
    const char *at;
    size_t len;
} span;

static bool span_is(span s, const char *text) {
    if (s.len != strlen(text))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (tolower((unsigned char)s.at[i]) != text[i])
            return false;
    return true;
}

static span trim(span s) {
    while (s.len && strchr(" \t\r\n", s.at[s.len - 1]) && s.at[s.len - 1])
        s.len--;
    while (s.len && (*s.at == ' ' || *s.at == '\t')) {
        s.at++;
        s.len--;
    }
    return s;
}

/* Takes a plain decimal number from the front; false if there is none, or it exceeds 2^64-1. */
static bool take_number(span *s, uint64_t *out) {
    size_t used = 0;
    uint64_t value = 0;
    for (; used < s->len && s->at[used] >= '0' && s->at[used] <= '9'; used++) {
        uint64_t digit = (uint64_t)(s->at[used] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    s->at += used;
    s->len -= used;
    *out = value;
    return used > 0;
}

static bool whole_number(span s, uint64_t *out) {
    return take_number(&s, out) && s.len == 0;
}

static bool take_char(span *s, char c) {
    if (!s->len || *s->at != c)
        return false;
    s->at++;
    s->len--;
    return true;
}

/* "bytes 0-9/100" or "bytes * /0" (without the space). Anything else is a bad range. */
static bool read_range(tmh_answer *answer, span s) {
    if (s.len < 6 || !span_is((span){s.at, 5}, "bytes") || s.at[5] != ' ')
        return false;
    s = trim((span){s.at + 6, s.len - 6});
    answer->unsatisfied = take_char(&s, '*');
    if (!answer->unsatisfied && (!take_number(&s, &answer->first) || !take_char(&s, '-') ||
                                 !take_number(&s, &answer->last)))
        return false;
    if (!take_char(&s, '/') || !whole_number(s, &answer->total))
        return false;
    return answer->unsatisfied || (answer->first <= answer->last && answer->last < answer->total);
}

static void copy_short(char *to, size_t room, span s) {
    size_t len = s.len < room ? s.len : room - 1;
    memcpy(to, s.at, len);
    to[len] = '\0';
}

/* Copies text only if it consists of letters, digits and -._, so that it can be sent or shown. */
static void copy_word(char *to, size_t room, span s) {
    to[0] = '\0';
    if (s.len >= room)
        return;
    for (size_t i = 0; i < s.len; i++)
        if (!isalnum((unsigned char)s.at[i]) && !strchr("-._", s.at[i]))
            return;
    copy_short(to, room, s);
}

/* Copies a plain name only: one that can be a part of an address and is neither "." nor "..". */
static void copy_name(char *to, size_t room, span s) {
    copy_word(to, room, s);
    if (!isalnum((unsigned char)to[0]))
        to[0] = '\0';
}

bool tmh_tag_set(tmh_tag *tag, const char *bytes, size_t len) {
    bool sent = len < sizeof tag->text;
    *tag = (tmh_tag){.len = len};
    for (size_t i = 0; sent && i < len; i++)
        sent = (unsigned char)bytes[i] >= ' ' && bytes[i] != 0x7f;
    if (!sent)
        return tmi_sha256_of(bytes, len, tag->digest);
    copy_short(tag->text, sizeof tag->text, (span){bytes, len});
    return true;
}

static void copy_tag(tmh_answer *answer, tmh_tag *tag, span s) {
    answer->out_of_memory = !tmh_tag_set(tag, s.at, s.len) || answer->out_of_memory;
}

bool tmh_tag_is_strong(const tmh_tag *tag) {
    return tag->len >= 2 && tag->text[0] == '"' && tag->text[tag->len - 1] == '"';
}

bool tmh_tag_equal(const tmh_tag *a, const tmh_tag *b) {
    return a->len == b->len && strcmp(a->text, b->text) == 0 &&
           memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

static void keep_text(tmh_answer *answer, char **to, span s) {
    free(*to);
    *to = tmh_copy(s.at, s.len);
    answer->out_of_memory = answer->out_of_memory || !*to;
}

/* Link: <ADDRESS>; rel="next", <ADDRESS>; rel="last" */
static void read_link(tmh_answer *answer, span s) {
    while (s.len) {
        const char *open = memchr(s.at, '<', s.len);
        const char *close = open ? memchr(open, '>', s.len - (size_t)(open - s.at)) : NULL;
        if (!close)
            return;
        span address = {open + 1, (size_t)(close - open) - 1};
        s = (span){close + 1, s.len - (size_t)(close + 1 - s.at)};
        const char *end = memchr(s.at, '<', s.len);
        span rest = {s.at, end ? (size_t)(end - s.at) : s.len};
        for (size_t i = 0; i + 10 <= rest.len; i++)
            if (span_is((span){rest.at + i, 10}, "rel=\"next\""))
                keep_text(answer, &answer->next, address);
        s = (span){rest.at + rest.len, s.len - rest.len};
    }
}

/* Seconds, or a date. */
static void read_retry(tmh_answer *answer, span s) {
    char date[64];
    answer->has_retry_after = whole_number(s, &answer->retry_after);
    if (answer->has_retry_after)
        return;
    copy_short(date, sizeof date, s);
    int64_t then = 0, now = (int64_t)time(NULL);
    answer->has_retry_after = tmh_http_date(date, &then);
    answer->retry_after = then > now ? (uint64_t)(then - now) : 0;
}

static void read_field(tmh_answer *answer, span name, span value) {
    if (span_is(name, "content-range")) {
        bool again = answer->has_range || answer->bad_range;
        answer->has_range = !again && read_range(answer, value);
        answer->bad_range = !answer->has_range;
    } else if (span_is(name, "content-length")) {
        answer->has_length = whole_number(value, &answer->length);
    } else if (span_is(name, "transfer-encoding")) {
        answer->framed = true; /* curl supports chunked only */
    } else if (span_is(name, "content-encoding")) {
        answer->encoded = answer->encoded || (value.len && !span_is(value, "identity"));
    } else if (span_is(name, "content-type")) {
        answer->is_page = value.len >= 9 && span_is((span){value.at, 9}, "text/html");
    } else if (span_is(name, "etag")) {
        copy_tag(answer, &answer->tag, value);
    } else if (span_is(name, "last-modified")) {
        copy_tag(answer, &answer->modified, value);
    } else if (span_is(name, "location")) {
        keep_text(answer, &answer->location, value);
    } else if (span_is(name, "link")) {
        read_link(answer, value);
    } else if (span_is(name, "retry-after")) {
        read_retry(answer, value);
    } else if (span_is(name, "x-linked-etag")) {
        copy_tag(answer, &answer->linked_tag, value);
    } else if (span_is(name, "x-linked-size")) {
        answer->has_linked_size = whole_number(value, &answer->linked_size);
    } else if (span_is(name, "x-repo-commit")) {
        copy_name(answer->commit, sizeof answer->commit, value);
    } else if (span_is(name, "x-error-code")) {
        copy_word(answer->error_code, sizeof answer->error_code, value);
    } else if (span_is(name, "x-amz-bucket-region")) {
        copy_word(answer->region, sizeof answer->region, value);
    }
}

void tmh_answer_line(tmh_answer *answer, const char *line, size_t len) {
    span s = trim((span){line, len});
    if (s.len >= 9 && memcmp(s.at, "HTTP/", 5) == 0) { /* after an interim response, perhaps */
        tmh_answer_free(answer);
        answer->framed = s.at[5] >= '2'; /* HTTP/2, HTTP/3 */
        const char *blank = memchr(s.at, ' ', s.len);
        span code = {blank ? blank + 1 : s.at, 0};
        code.len = blank ? s.len - (size_t)(code.at - s.at) : 0;
        uint64_t status = 0;
        if (take_number(&code, &status) && status < 1000)
            answer->status = (int)status;
        return;
    }
    const char *colon = s.len ? memchr(s.at, ':', s.len) : NULL;
    if (!colon)
        return;
    span name = {s.at, (size_t)(colon - s.at)};
    read_field(answer, name, trim((span){colon + 1, s.len - name.len - 1}));
}

void tmh_answer_free(tmh_answer *answer) {
    free(answer->location);
    free(answer->next);
    *answer = (tmh_answer){.status = 0};
}

void tmh_answer_region(tmh_answer *answer, const char *region) {
    copy_word(answer->region, sizeof answer->region, (span){region, strlen(region)});
}
