/*
 * Which address to request a file from, with which credentials, and what was learned about its
 * repository or bucket.
 */
#include "http.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sha256.h"

/* What was learned about a whole repository or bucket. */

char *tmh_learnt_copy(tmh_io *io, tmh_learnt **list, const char *what) {
    char *value = NULL;
    tmh_lock(io->client);
    for (const tmh_learnt *l = *list; l && !value; l = l->next)
        if (strcmp(l->what, what) == 0)
            value = tmh_copy(l->value, strlen(l->value));
    tmh_unlock(io->client);
    return value;
}

bool tmh_learnt_put(tmh_io *io, tmh_learnt **list, const char *what, const char *value,
                    bool instead) {
    size_t what_size = strlen(what) + 1, value_size = strlen(value) + 1;
    tmh_learnt *l = malloc(sizeof *l + what_size + value_size), *unused = l, **at = list;
    if (!l)
        return false;
    l->what = memcpy(l->text, what, what_size);
    l->value = memcpy(l->text + what_size, value, value_size);
    tmh_lock(io->client);
    while (*at && strcmp((*at)->what, what) != 0)
        at = &(*at)->next;
    bool same = !*at || strcmp((*at)->value, value) == 0;
    if (!*at || instead) {
        unused = *at;
        l->next = unused ? unused->next : NULL;
        *at = l;
    }
    tmh_unlock(io->client);
    free(unused);
    return same || instead;
}

static char *repository(const tmh_file *file) {
    tmh_text text = {.bytes = NULL};
    tmh_adds(&text, file->address.host);
    tmh_adds(&text, "@");
    tmh_adds(&text, file->address.revision ? file->address.revision : "main");
    return tmh_take(&text);
}

/* The commit that the revision named at its first request, or else the revision itself. */
static char *revision_now(tmh_file *file) {
    char *what = repository(file);
    char *known = what ? tmh_learnt_copy(file->io, &file->io->learnt, what) : NULL;
    const char *given = file->address.revision ? file->address.revision : "main";
    free(what);
    return known ? known : tmh_copy(given, strlen(given));
}

static char *region_now(tmh_file *file) {
    char *known = tmh_learnt_copy(file->io, &file->io->learnt, file->address.host);
    const char *given = file->io->settings.region;
    return known ? known : tmh_copy(given, strlen(given));
}

bool tmh_learn_commit(tmh_file *file, const char *url, const tmh_answer *answer) {
    if (file->address.scheme != TMH_HF || !answer->commit[0] ||
        !tmh_same_origin(url, file->io->settings.hub))
        return true; /* only the hub knows its branches */
    char *what = repository(file);
    bool same = what && tmh_learnt_put(file->io, &file->io->learnt, what, answer->commit, false);
    free(what);
    return same;
}

bool tmh_learn_region(tmh_file *file, const char *first, const char *url,
                      const tmh_answer *answer) {
    if (file->address.scheme != TMH_S3 || !answer->region[0] || !tmh_same_origin(first, url) ||
        (answer->status != 301 && answer->status != 307 && answer->status != 400))
        return false;
    char *used = region_now(file);
    bool other =
        used && strcmp(used, answer->region) != 0 &&
        tmh_learnt_put(file->io, &file->io->learnt, file->address.host, answer->region, true);
    free(used);
    return other;
}

/* Addresses. */

/*
 * Whether a bucket's name can be a part of a host's name: one label in lower case, or else no
 * certificate matches.
 */
static bool is_label(const char *bucket) {
    for (const char *c = bucket; *c; c++)
        if (*c == '.' || *c == '_' || (*c >= 'A' && *c <= 'Z'))
            return false;
    return strlen(bucket) < 64;
}

/* Adds the address up to the '/' before the key. */
static void add_bucket(tmh_file *file, tmh_text *url) {
    const char *bucket = file->address.host;
    char *region = region_now(file);
    if (!region) {
        url->failed = true;
    } else if (file->io->settings.s3) {
        tmh_adds(url, file->io->settings.s3);
        tmh_addf(url, "/%s", bucket);
    } else {
        const char *end = strncmp(region, "cn-", 3) == 0 ? ".amazonaws.com.cn" : ".amazonaws.com";
        bool label = is_label(bucket);
        tmh_addf(url, "https://%s%ss3.%s%s", label ? bucket : "", label ? "." : "", region, end);
        tmh_addf(url, "%s%s", label ? "" : "/", label ? "" : bucket);
    }
    free(region);
}

/* HUB + between + ORG/MODEL + verb + REVISION. */
static void add_repository(tmh_file *file, const char *between, const char *verb, tmh_text *url) {
    char *revision = revision_now(file);
    tmh_adds(url, file->io->settings.hub);
    tmh_adds(url, between);
    tmh_adds(url, file->address.host);
    tmh_adds(url, verb);
    if (revision)
        tmh_encode(url, revision, strlen(revision), false);
    else
        url->failed = true;
    free(revision);
}

char *tmh_first_hop(tmh_file *file) {
    const tmh_address *a = &file->address;
    tmh_text url = {.bytes = NULL};
    if (a->scheme == TMH_HF) {
        add_repository(file, "/", "/resolve/", &url);
        tmh_adds(&url, "/");
        tmh_encode(&url, a->path, strlen(a->path), true);
    } else if (a->scheme == TMH_S3) {
        add_bucket(file, &url);
        tmh_adds(&url, "/");
        tmh_encode(&url, a->path, strlen(a->path), true);
    } else {
        tmh_adds(&url, a->scheme == TMH_HTTPS ? "https://" : "http://");
        tmh_adds(&url, a->host);
        tmh_adds(&url, a->path);
        tmh_adds(&url, a->query ? "?" : "");
        tmh_adds(&url, a->query ? a->query : "");
    }
    return tmh_take(&url);
}

static char *hub_list_hop(tmh_file *file, const char *next) {
    tmh_text url = {.bytes = NULL};
    size_t len = strlen(file->address.path);
    while (len && file->address.path[len - 1] == '/')
        len--;
    if (next)
        return tmh_copy(next, strlen(next));
    add_repository(file, "/api/models/", "/tree/", &url);
    if (len) {
        tmh_adds(&url, "/");
        tmh_encode(&url, file->address.path, len, true);
    }
    return tmh_take(&url);
}

char *tmh_list_hop(tmh_file *file, const char *next) {
    tmh_text url = {.bytes = NULL};
    const char *key = file->address.path;
    if (file->address.scheme == TMH_HF)
        return hub_list_hop(file, next);
    add_bucket(file, &url);
    tmh_adds(&url, "/?"); /* sorted, as the signature requires */
    if (next) {
        tmh_adds(&url, "continuation-token=");
        tmh_encode(&url, next, strlen(next), false);
        tmh_adds(&url, "&");
    }
    tmh_adds(&url, "delimiter=%2F&list-type=2&prefix=");
    tmh_encode(&url, key, strlen(key), false);
    if (*key && key[strlen(key) - 1] != '/')
        tmh_adds(&url, "%2F");
    return tmh_take(&url);
}

/* Headers and credentials. */

void tmh_header_add(tmh_headers *headers, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *line = len < 0 || headers->count + 1 >= sizeof headers->lines / sizeof *headers->lines
                     ? NULL
                     : malloc((size_t)len + 1);
    if (!line) {
        headers->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(line, (size_t)len + 1, format, args);
    va_end(args);
    headers->lines[headers->count++] = line;
}

void tmh_headers_free(tmh_headers *headers) {
    for (size_t i = 0; i < headers->count; i++) {
        tmi_wipe(headers->lines[i], strlen(headers->lines[i]));
        free(headers->lines[i]);
    }
    *headers = (tmh_headers){.count = 0};
}

static void sign(tmh_file *file, tmh_headers *headers, const char *url, const char *range) {
    const tmh_keys *keys = &file->io->settings.keys;
    tmh_text host = {.bytes = NULL}, authorization = {.bytes = NULL};
    const char *path = url + tmh_web_scheme(url);
    path += strcspn(path, "/?");
    size_t path_len = strcspn(path, "?");
    const char *query = path[path_len] ? path + path_len + 1 : "";
    char *path_text = tmh_copy(path, path_len), *region = region_now(file), date[32];
    time_t now = time(NULL);
    struct tm utc;
    tmh_add_host(&host, url);
    if (!gmtime_r(&now, &utc) || !strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &utc) ||
        host.failed || !path_text || !region) {
        headers->failed = true;
    } else {
        tmh_signed request = {host.bytes, path_text, query, range, region, date};
        if (tmh_sign(keys, &request, &authorization)) {
            tmh_header_add(headers, "x-amz-content-sha256: %s", tmh_empty_hash);
            tmh_header_add(headers, "x-amz-date: %s", date);
            if (keys->session)
                tmh_header_add(headers, "x-amz-security-token: %s", keys->session);
            tmh_header_add(headers, "Authorization: %s", authorization.bytes);
        } else {
            headers->failed = true;
        }
    }
    free(host.bytes);
    free(path_text);
    free(region);
    free(authorization.bytes);
}

/*
 * The bearer token for a file, or NULL. A web address on the hub's own host gets the hub's token.
 */
static const char *token_of(const tmh_file *file, const char *first) {
    const tmh_settings *s = &file->io->settings;
    if (file->address.scheme == TMH_S3)
        return NULL;
    return file->address.scheme == TMH_HF || tmh_same_origin(first, s->hub) ? s->hub_token
                                                                            : s->token;
}

void tmh_add_credentials(tmh_file *file, tmh_headers *headers, const char *first, const char *url,
                         const char *range) {
    const char *token = token_of(file, first);
    if (!tmh_same_origin(first, url))
        return;
    if (file->address.scheme == TMH_S3 && file->io->settings.keys.id)
        sign(file, headers, url, range);
    else if (token)
        tmh_header_add(headers, "Authorization: Bearer %s", token);
}

const char *tmh_credentials_said(const tmh_file *file, bool sent) {
    const tmh_settings *s = &file->io->settings;
    if (file->address.scheme == TMH_S3)
        return !s->keys.id ? "not signed"
               : sent      ? "signed with the key of AWS_ACCESS_KEY_ID"
                           : "without a signature, which goes to the first host only";
    if (!sent)
        return "without a token, which goes to the first host only";
    if (file->address.scheme == TMH_HF || !s->token)
        return s->hub_source;
    return "with the token that was given";
}
