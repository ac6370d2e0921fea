/*
 * Compares the JSON reader with a slow reader that follows the rules of docs/format.md one by one:
 * both must accept and refuse the same texts, and stop at the same byte.
 */
#include "fuzz.h"
#include "format/json.h"

/* The slow reader. It may recurse: the depth is bounded by the rule itself. */
typedef struct plain {
    const char *at, *end;
} plain;

static bool next_is(plain *p, char c) {
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static void white_space(plain *p) {
    while (p->at < p->end && *p->at && strchr(" \t\n\r", *p->at))
        p->at++;
}

static bool one_hex(plain *p, unsigned *value) {
    static const char digits[] = "0123456789abcdefABCDEF";
    if (p->at == p->end || *p->at == '\0')
        return false;
    const char *found = strchr(digits, *p->at);
    if (!found)
        return false;
    unsigned digit = (unsigned)(found - digits);
    *value = *value * 16 + (digit > 15 ? digit - 6 : digit);
    p->at++;
    return true;
}

static bool four_hex(plain *p, unsigned *value) {
    *value = 0;
    return one_hex(p, value) && one_hex(p, value) && one_hex(p, value) && one_hex(p, value);
}

static bool plain_string(plain *p) {
    unsigned first, second;
    if (!next_is(p, '"'))
        return false;
    for (;;) {
        if (p->at == p->end || (unsigned char)*p->at < 0x20)
            return false;
        char c = *p->at++;
        if (c == '"')
            return true;
        if (c != '\\')
            continue;
        if (p->at == p->end || *p->at == '\0' || !strchr("\"\\/bfnrtu", *p->at))
            return false;
        if (*p->at++ != 'u')
            continue;
        if (!four_hex(p, &first) || (first >= 0xdc00 && first <= 0xdfff))
            return false;
        if (first >= 0xd800 && first <= 0xdbff &&
            (!next_is(p, '\\') || !next_is(p, 'u') || !four_hex(p, &second) || second < 0xdc00 ||
             second > 0xdfff))
            return false;
    }
}

static bool plain_digit(const plain *p) {
    return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

/*
 * The rule about doubles: the significand is the digits that fit in 64 bits, times a power of ten.
 */
static bool plain_number(plain *p) {
    const unsigned __int128 most = UINT64_MAX;
    unsigned __int128 s = 0;
    long long scale = 0, exponent = 0;
    bool dropping = false, negative = false;
    next_is(p, '-');
    if (!plain_digit(p) ||
        (*p->at == '0' && p->end - p->at > 1 && p->at[1] >= '0' && p->at[1] <= '9'))
        return false;
    for (; plain_digit(p); p->at++) {
        dropping = dropping || s * 10 + (unsigned)(*p->at - '0') > most;
        if (dropping)
            scale++;
        else
            s = s * 10 + (unsigned)(*p->at - '0');
    }
    if (next_is(p, '.')) {
        if (!plain_digit(p))
            return false;
        for (dropping = false; plain_digit(p); p->at++) {
            dropping = dropping || s * 10 + (unsigned)(*p->at - '0') > most;
            if (dropping)
                continue;
            s = s * 10 + (unsigned)(*p->at - '0');
            scale--;
        }
    }
    if (next_is(p, 'e') || next_is(p, 'E')) {
        negative = next_is(p, '-');
        if (!negative)
            next_is(p, '+');
        if (!plain_digit(p))
            return false;
        for (; plain_digit(p); p->at++)
            exponent = exponent > 10000000 ? exponent : exponent * 10 + (*p->at - '0');
    }
    scale += negative ? -exponent : exponent;
    if (s == 0 || scale < 0)
        return true;
    char power[32];
    snprintf(power, sizeof power, "1e%lld", scale);
    return scale <= 308 && (double)(uint64_t)s * strtod(power, NULL) <= 1.7976931348623157e308;
}

static bool plain_word(plain *p, const char *word) {
    for (; *word; word++)
        if (!next_is(p, *word))
            return false;
    return true;
}

static bool plain_value(plain *p, unsigned depth);

static bool plain_container(plain *p, unsigned depth, char close) {
    if (++depth > TMI_JSON_DEPTH)
        return false;
    white_space(p);
    if (next_is(p, close))
        return true;
    do {
        white_space(p);
        if (close == '}') {
            if (!plain_string(p))
                return false;
            white_space(p);
            if (!next_is(p, ':'))
                return false;
        }
        if (!plain_value(p, depth))
            return false;
        white_space(p);
    } while (next_is(p, ','));
    return next_is(p, close);
}

static bool plain_value(plain *p, unsigned depth) {
    white_space(p);
    char c = p->at < p->end ? *p->at : '\0';
    if (next_is(p, '{'))
        return plain_container(p, depth, '}');
    if (next_is(p, '['))
        return plain_container(p, depth, ']');
    if (c == '"')
        return plain_string(p);
    if (c == 't' || c == 'f' || c == 'n')
        return plain_word(p, c == 't' ? "true" : c == 'f' ? "false" : "null");
    return plain_number(p);
}

/* A plain integer, by the same rules as shapes and offsets. */
static bool plain_u64(plain *p, uint64_t *out) {
    unsigned __int128 value = 0;
    white_space(p);
    const char *start = p->at;
    for (; plain_digit(p) && value <= UINT64_MAX; p->at++)
        value = value * 10 + (unsigned)(*p->at - '0');
    *out = (uint64_t)value;
    if (p->at == start || value > UINT64_MAX || (*start == '0' && p->at - start > 1))
        return false;
    return p->at == p->end || (*p->at != '.' && *p->at != 'e' && *p->at != 'E');
}

static tmi_json json_over(tmi_block *text, const uint8_t *data, size_t size) {
    if (!tmi_block_alloc(text, size + TMI_JSON_PAD))
        abort();
    memcpy(text->bytes, data, size);
    char *bytes = text->bytes;
    return (tmi_json){bytes, bytes, bytes + size, NULL, false};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tmi_block text;
    const char *start = (const char *)data;
    CHECK(tmi_utf8_valid(start, size) == fuzz_utf8(start, size));
    for (unsigned depth = 0; depth <= 2; depth++) {
        tmi_json json = json_over(&text, data, size);
        plain p = {start, start + size};
        bool taken = tmi_json_skip(&json, depth);
        CHECK(taken == plain_value(&p, depth));
        CHECK(taken == !json.problem && json.at >= json.text && json.at <= json.end);
        CHECK(!taken || json.at - json.text == p.at - start);
        tmi_block_free(&text);
    }
    uint64_t value = 0, plain_one = 0;
    tmi_json json = json_over(&text, data, size);
    plain p = {start, start + size};
    bool taken = tmi_json_u64(&json, &value);
    CHECK(taken == plain_u64(&p, &plain_one));
    CHECK(!taken || (value == plain_one && json.at - json.text == p.at - start));
    tmi_block_free(&text);
    return 0;
}
