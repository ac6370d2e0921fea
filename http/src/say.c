/* Error messages, and text that grows. */
#include "http.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tenmap_status tmh_remedy(tenmap_error *error, uint32_t remedy, tenmap_status status) {
    error->remedy = remedy;
    return status;
}

tenmap_status tmh_fail(tenmap_error *error, tenmap_status status, const char *format, ...) {
    va_list args;
    memset(error, 0, sizeof *error);
    error->status = status;
    va_start(args, format);
    int wanted = vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    /*
     * tmh_show has cleaned everything that came from outside, except messages of libraries: keep
     * ASCII only.
     */
    for (char *c = error->message; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    if (wanted >= (int)sizeof error->message)
        memcpy(error->message + sizeof error->message - 4, "...", 4);
    return status;
}

tenmap_status tmh_fail_memory(tenmap_error *error, const char *what) {
    return tmh_fail(error, TENMAP_ERR_MEMORY, "out of memory: there is none left for %s", what);
}

/* Where the host begins: after the scheme and after the last '@' of the authority. */
static const char *behind_user(const char *address, size_t *scheme) {
    const char *found = strstr(address, "://");
    *scheme = found ? (size_t)(found - address) + 3 : 0;
    const char *host = address + *scheme;
    size_t authority = strcspn(host, "/?#");
    for (size_t i = authority; i > 0; i--)
        if (host[i - 1] == '@' && tmh_web_scheme(address))
            return host + i;
    return host;
}

tmh_shown tmh_show(const char *address) {
    enum { MOST = 144, HEAD = 48 };
    tmh_shown shown;
    tmh_text all = {.bytes = NULL};
    size_t scheme;
    const char *host = behind_user(address, &scheme);
    tmh_add(&all, address, scheme);
    for (const char *c = host; *c && *c != '?'; c++) {
        if ((unsigned char)*c > ' ' && (unsigned char)*c <= '~' && *c != '"')
            tmh_add(&all, c, 1);
        else
            tmh_addf(&all, "%%%02X", (unsigned)(unsigned char)*c);
    }
    if (strchr(host, '?'))
        tmh_adds(&all, "?...");
    if (all.failed || !all.bytes)
        snprintf(shown.text, sizeof shown.text, "\"%s\"", all.failed ? "..." : "");
    else if (all.len <= MOST)
        snprintf(shown.text, sizeof shown.text, "\"%s\"", all.bytes);
    else
        snprintf(shown.text, sizeof shown.text, "\"%.*s...%s\"", (int)HEAD, all.bytes,
                 all.bytes + all.len - (MOST - HEAD - 3));
    free(all.bytes);
    return shown;
}

void tmh_add(tmh_text *text, const char *bytes, size_t len) {
    if (text->failed)
        return;
    if (!text->bytes || len >= text->room - text->len) { /* room for the NUL as well */
        size_t room = text->room ? text->room : 64;
        while (room - text->len <= len && room <= SIZE_MAX / 2)
            room *= 2;
        char *grown = room - text->len > len ? realloc(text->bytes, room) : NULL;
        if (!grown) {
            text->failed = true;
            return;
        }
        text->bytes = grown;
        text->room = room;
    }
    if (len)
        memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
}

void tmh_adds(tmh_text *text, const char *bytes) {
    tmh_add(text, bytes, strlen(bytes));
}

void tmh_addf(tmh_text *text, const char *format, ...) {
    char small[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof small)
        text->failed = true; /* no piece is that long */
    else
        tmh_add(text, small, (size_t)len);
}

char *tmh_take(tmh_text *text) {
    char *bytes = text->bytes;
    if (text->failed) {
        free(bytes);
        bytes = NULL;
    } else if (!bytes) {
        bytes = tmh_copy("", 0);
    }
    *text = (tmh_text){.bytes = NULL};
    return bytes;
}

char *tmh_copy(const char *bytes, size_t len) {
    char *copy = malloc(len + 1);
    if (copy) {
        if (len)
            memcpy(copy, bytes, len);
        copy[len] = '\0';
    }
    return copy;
}
