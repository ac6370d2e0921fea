/* Signature Version 4, for GET requests without a body. */
#include "http.h"

#include <stdlib.h>
#include <string.h>

#include "sha256.h"

enum { HASH = TMI_SHA256_BYTES };

const char tmh_empty_hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void to_hex(const unsigned char *bytes, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < HASH; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[(size_t)2 * HASH] = '\0';
}

static bool keyed(const void *key, size_t key_len, const char *text, unsigned char out[HASH]) {
    return tmi_hmac_sha256(key, key_len, text, strlen(text), out);
}

/* The names of the signed headers, in order. */
static const char *signed_names(const tmh_keys *keys, const tmh_signed *request) {
    static const char *const names[2][2] = {
        {"host;x-amz-content-sha256;x-amz-date",
         "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"},
        {"host;range;x-amz-content-sha256;x-amz-date",
         "host;range;x-amz-content-sha256;x-amz-date;x-amz-security-token"}};
    return names[request->range != NULL][keys->session != NULL];
}

static void add_line(tmh_text *text, const char *name, const char *value) {
    tmh_adds(text, name);
    tmh_adds(text, value);
    tmh_adds(text, "\n");
}

static void canonical_request(const tmh_keys *keys, const tmh_signed *request, tmh_text *text) {
    add_line(text, "", "GET");
    add_line(text, "", request->path);
    add_line(text, "", request->query);
    add_line(text, "host:", request->host);
    if (request->range)
        add_line(text, "range:", request->range);
    add_line(text, "x-amz-content-sha256:", tmh_empty_hash);
    add_line(text, "x-amz-date:", request->date);
    if (keys->session)
        add_line(text, "x-amz-security-token:", keys->session);
    add_line(text, "\n", signed_names(keys, request));
    tmh_adds(text, tmh_empty_hash);
}

/* The signing key for this day, region and service. */
static bool signing_key(const tmh_keys *keys, const char *day, const char *region,
                        unsigned char out[HASH]) {
    tmh_text first = {.bytes = NULL};
    unsigned char step[HASH];
    tmh_adds(&first, "AWS4");
    tmh_adds(&first, keys->secret);
    bool fine = !first.failed && keyed(first.bytes, first.len, day, step) &&
                keyed(step, HASH, region, out) && keyed(out, HASH, "s3", step) &&
                keyed(step, HASH, "aws4_request", out);
    if (first.bytes)
        tmi_wipe(first.bytes, first.len);
    free(first.bytes);
    tmi_wipe(step, sizeof step);
    return fine;
}

bool tmh_sign(const tmh_keys *keys, const tmh_signed *request, tmh_text *authorization) {
    tmh_text canonical = {.bytes = NULL}, text = {.bytes = NULL}, scope = {.bytes = NULL};
    unsigned char hash[HASH], key[HASH];
    char hex[2 * HASH + 1], day[9] = "";
    memcpy(day, request->date, 8);
    tmh_adds(&scope, day);
    tmh_adds(&scope, "/");
    tmh_adds(&scope, request->region);
    tmh_adds(&scope, "/s3/aws4_request");
    canonical_request(keys, request, &canonical);
    bool fine =
        !scope.failed && !canonical.failed && tmi_sha256_of(canonical.bytes, canonical.len, hash);
    if (fine) {
        to_hex(hash, hex);
        add_line(&text, "", "AWS4-HMAC-SHA256");
        add_line(&text, "", request->date);
        add_line(&text, "", scope.bytes);
        tmh_adds(&text, hex);
        fine = !text.failed && signing_key(keys, day, request->region, key) &&
               keyed(key, HASH, text.bytes, hash);
        tmi_wipe(key, sizeof key);
    }
    if (fine) {
        to_hex(hash, hex);
        const char *const parts[] = {
            "AWS4-HMAC-SHA256 Credential=", keys->id,      "/", scope.bytes, ",SignedHeaders=",
            signed_names(keys, request),    ",Signature=", hex};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            tmh_adds(authorization, parts[i]);
    }
    free(canonical.bytes);
    free(text.bytes);
    free(scope.bytes);
    return fine && !authorization->failed;
}
