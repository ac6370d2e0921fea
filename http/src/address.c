/* Parses and checks addresses. */
#include "http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool same_text(const char *a, const char *b, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i]))
            return false;
    return true;
}

static const struct {
    const char *text;
    tmh_scheme scheme;
} schemes[] = {
    {"http://", TMH_HTTP}, {"https://", TMH_HTTPS}, {"hf://", TMH_HF}, {"s3://", TMH_S3}};

/* The scheme's number in the table, or -1. Never reads past the end of a short path. */
static int scheme_of(const char *text) {
    for (int i = 0; i < (int)(sizeof schemes / sizeof schemes[0]); i++)
        if (strlen(text) >= strlen(schemes[i].text) &&
            same_text(text, schemes[i].text, strlen(schemes[i].text)))
            return i;
    return -1;
}

int tenmap_http_takes(const char *path) {
    return path && scheme_of(path) >= 0;
}

size_t tmh_web_scheme(const char *text) {
    int at = scheme_of(text);
    return at == 0 || at == 1 ? strlen(schemes[at].text) : 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void tmh_encode(tmh_text *text, const char *bytes, size_t len, bool keep_slash) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash);
        if (plain)
            tmh_add(text, bytes + i, 1);
        else
            tmh_addf(text, "%%%02X", (unsigned)c);
    }
}

/* Percent-encodes what an address may not hold; what is encoded already stays as it is. */
static char *encode_rest(const char *bytes, size_t len) {
    tmh_text out = {.bytes = NULL};
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool escape =
            c == '%' && i + 2 < len && hex_digit(bytes[i + 1]) >= 0 && hex_digit(bytes[i + 2]) >= 0;
        if (c > ' ' && c < 0x7f && (escape || !strchr("%\"#<>\\^`{|}", c)))
            tmh_add(&out, bytes + i, 1);
        else
            tmh_addf(&out, "%%%02X", (unsigned)c);
    }
    return tmh_take(&out);
}

static char *decode(const char *bytes, size_t len) {
    tmh_text out = {.bytes = NULL};
    for (size_t i = 0; i < len; i++) {
        int high = bytes[i] == '%' && i + 2 < len ? hex_digit(bytes[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(bytes[i + 2]) : -1;
        char c = (char)(low >= 0 ? high << 4 | low : bytes[i]);
        tmh_add(&out, &c, 1);
        i += low >= 0 ? 2 : 0;
    }
    return tmh_take(&out);
}

/* HOST, HOST:PORT or [ADDRESS]:PORT. */
static bool is_host(const char *host, size_t len) {
    size_t name = 0;
    if (len && host[0] == '[') {
        while (name < len && host[name] != ']')
            name++;
        if (name < 3 || name++ == len)
            return false;
        for (size_t i = 1; i + 1 < name; i++)
            if (hex_digit(host[i]) < 0 && host[i] != ':' && host[i] != '.' && host[i] != '%')
                return false;
    } else {
        for (; name < len && host[name] != ':'; name++)
            if (!isalnum((unsigned char)host[name]) && !strchr("-._", host[name]))
                return false;
    }
    if (name == 0 || name == len)
        return name > 0;
    unsigned long port = 0;
    if (host[name] != ':' || name + 1 == len || len - name > 6)
        return false;
    for (size_t i = name + 1; i < len; i++) {
        if (host[i] < '0' || host[i] > '9')
            return false;
        port = port * 10 + (unsigned long)(host[i] - '0');
    }
    return port > 0 && port < 65536;
}

static tenmap_status read_web(tmh_address *address, const char *text, const char *rest,
                              tenmap_error *error) {
    size_t host = strcspn(rest, "/?");
    if (memchr(rest, '@', host))
        return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: an address may not hold a user name or a password; give a token "
                        "instead",
                        tmh_show(text).text);
    if (host == 0)
        return tmh_fail(error, TENMAP_ERR_ARGUMENT, "%s: the address names no host",
                        tmh_show(text).text);
    if (!is_host(rest, host))
        return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: the part before the path must be a host, or a host with a port",
                        tmh_show(text).text);
    const char *path = rest + host, *query = strchr(path, '?');
    size_t path_len = query ? (size_t)(query - path) : strlen(path);
    address->host = tmh_copy(rest, host);
    address->path = path_len ? encode_rest(path, path_len) : tmh_copy("/", 1);
    if (query)
        address->query = encode_rest(query + 1, strlen(query + 1));
    return address->host && address->path && (!query || address->query)
               ? TENMAP_OK
               : tmh_fail_memory(error, "an address");
}

/* A name on a hub: letters, digits, -, _ and dots. */
static bool is_hub_name(const char *name, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("-._", name[i]))
            return false;
    return len > 0 && name[0] != '.';
}

/*
 * The length of a revision: up to the next '/', except that refs/pr/N and refs/convert/N are taken
 * whole.
 */
static size_t revision_length(const char *text) {
    size_t len = strcspn(text, "/");
    if (strncmp(text, "refs/pr/", 8) == 0)
        return 8 + strcspn(text + 8, "/");
    if (strncmp(text, "refs/convert/", 13) == 0)
        return 13 + strcspn(text + 13, "/");
    return len;
}

static tenmap_status read_hub(tmh_address *address, const char *text, const char *rest,
                              tenmap_error *error) {
    size_t org = strcspn(rest, "/"), model = 0;
    if (rest[org] == '/')
        model = strcspn(rest + org + 1, "/@");
    if (!is_hub_name(rest, org) || !is_hub_name(rest + org + 1, model))
        return tmh_fail(
            error, TENMAP_ERR_ARGUMENT,
            "%s: an address on a hub is hf://ORG/MODEL, optionally followed by @REVISION and /PATH",
            tmh_show(text).text);
    const char *at = rest + org + 1 + model;
    address->host = tmh_copy(rest, org + 1 + model);
    bool has_revision = *at == '@';
    if (has_revision) {
        size_t len = revision_length(++at);
        if (len == 0)
            return tmh_fail(error, TENMAP_ERR_ARGUMENT, "%s: there is no revision after the @",
                            tmh_show(text).text);
        address->revision = decode(at, len);
        at += len;
    }
    while (*at == '/')
        at++;
    address->path = tmh_copy(at, strlen(at));
    return address->host && address->path && (!has_revision || address->revision)
               ? TENMAP_OK
               : tmh_fail_memory(error, "an address");
}

static bool is_bucket(const char *name, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("-._", name[i]))
            return false;
    return len > 0 && len < 256 && name[0] != '.';
}

static tenmap_status read_s3(tmh_address *address, const char *text, const char *rest,
                             tenmap_error *error) {
    size_t bucket = strcspn(rest, "/");
    if (!is_bucket(rest, bucket))
        return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: an S3 address is s3://BUCKET/KEY, but this one names no bucket",
                        tmh_show(text).text);
    const char *key = rest + bucket + (rest[bucket] == '/');
    address->host = tmh_copy(rest, bucket);
    address->path = tmh_copy(key, strlen(key));
    return address->host && address->path ? TENMAP_OK : tmh_fail_memory(error, "an address");
}

tenmap_status tmh_address_read(tmh_address *address, const char *text, tenmap_error *error) {
    *address = (tmh_address){.host = NULL};
    int at = scheme_of(text);
    if (at < 0)
        return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: this is not an address that can be opened; addresses begin with "
                        "http://, https://, hf:// or s3://",
                        tmh_show(text).text);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c == 0x7f)
            return tmh_fail(error, TENMAP_ERR_ARGUMENT,
                            "%s: the address holds a control character, byte 0x%02x",
                            tmh_show(text).text, (unsigned)(unsigned char)*c);
    address->scheme = schemes[at].scheme;
    const char *rest = text + strlen(schemes[at].text);
    if (address->scheme == TMH_HF)
        return read_hub(address, text, rest, error);
    if (address->scheme == TMH_S3)
        return read_s3(address, text, rest, error);
    return read_web(address, text, rest, error);
}

void tmh_address_free(tmh_address *address) {
    free(address->host);
    free(address->path);
    free(address->query);
    free(address->revision);
    *address = (tmh_address){.host = NULL};
}

bool tmh_is_signed(const char *query) {
    static const char *const names[] = {
        "x-amz-signature=", "signature=", "sig=", "x-goog-signature=", "x-amz-security-token="};
    for (const char *at = query; at && *at; at = strchr(at, '&'), at = at ? at + 1 : NULL)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strlen(at) >= strlen(names[i]) && same_text(at, names[i], strlen(names[i])))
                return true;
    return false;
}

/* Scheme, host and port of a web address, without the scheme's default port. */
static bool take_origin(const char *url, bool *tls, const char **host, size_t *len) {
    size_t scheme = tmh_web_scheme(url);
    *tls = scheme == strlen("https://");
    *host = url + scheme;
    *len = strcspn(*host, "/?#");
    const char *usual = *tls ? ":443" : ":80";
    if (*len > strlen(usual) && memcmp(*host + *len - strlen(usual), usual, strlen(usual)) == 0)
        *len -= strlen(usual);
    return scheme != 0;
}

void tmh_add_host(tmh_text *text, const char *url) {
    bool tls;
    const char *host;
    size_t len;
    take_origin(url, &tls, &host, &len);
    tmh_add(text, host, len);
}

bool tmh_same_origin(const char *a, const char *b) {
    bool tls[2];
    const char *host[2];
    size_t len[2];
    return take_origin(a, &tls[0], &host[0], &len[0]) &&
           take_origin(b, &tls[1], &host[1], &len[1]) && tls[0] == tls[1] && len[0] == len[1] &&
           same_text(host[0], host[1], len[0]);
}
