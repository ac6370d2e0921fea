/* The listing of a folder on a hub: [{"type":"file","path":"a/b.safetensors",...},...]. */
#include "http.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *at, *end;
} reader;

static char peek(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
    return r->at < r->end ? *r->at : '\0';
}

static bool take(reader *r, char c) {
    if (peek(r) != c || r->at == r->end)
        return false;
    r->at++;
    return true;
}

static bool hex4(const char *at, const char *end, uint32_t *out) {
    *out = 0;
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = at[i] ? strchr(digits, at[i]) : NULL;
        if (!digit)
            return false;
        *out = *out << 4 | ((uint32_t)(digit - digits) & 15);
    }
    return true;
}

static void add_utf8(tmh_text *text, uint32_t c) {
    unsigned char b[4];
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len - 1; i > 0; i--, c >>= 6)
        b[i] = (unsigned char)(0x80 | (c & 0x3f));
    b[0] = (unsigned char)(lead[len] | c);
    tmh_add(text, (const char *)b, len);
}

/* Takes what follows a backslash. */
static bool take_escape(reader *r, tmh_text *text) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char letter = r->at < r->end ? *r->at++ : '\0';
    const char *known = letter ? strchr(from, letter) : NULL;
    uint32_t c, low;
    if (known) {
        tmh_add(text, to + (known - from), 1);
        return true;
    }
    if (letter != 'u' || !hex4(r->at, r->end, &c))
        return false;
    r->at += 4;
    if (c >= 0xd800 && c < 0xdc00) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u' ||
            !hex4(r->at + 2, r->end, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        r->at += 6;
    } else if (c >= 0xdc00 && c < 0xe000) {
        return false;
    }
    if (c == 0)
        return false; /* names never hold NUL */
    add_utf8(text, c);
    return true;
}

/* Takes a string into `text`, which may be NULL to skip it. */
static bool take_string(reader *r, tmh_text *text) {
    tmh_text unused = {.bytes = NULL};
    tmh_text *to = text ? text : &unused;
    bool fine = take(r, '"');
    while (fine) {
        const char *plain = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (unsigned char)*r->at >= ' ')
            r->at++;
        tmh_add(to, plain, (size_t)(r->at - plain));
        if (r->at == r->end || (unsigned char)*r->at < ' ')
            fine = false;
        else if (*r->at++ == '"')
            break;
        else
            fine = take_escape(r, to);
    }
    free(unused.bytes);
    return fine && !to->failed;
}

/* Skips one value. It counts brackets instead of recursing, so depth costs no stack. */
static bool skip_value(reader *r) {
    size_t depth = 0;
    do {
        char c = peek(r);
        if (c == '"') {
            if (!take_string(r, NULL))
                return false;
        } else if (c == '{' || c == '[') {
            depth++;
            r->at++;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                return false;
            depth--;
            r->at++;
        } else if (c == '\0') {
            return false;
        } else if (c == ',' || c == ':') {
            if (depth == 0)
                return false;
            r->at++;
        } else {
            while (r->at < r->end && *r->at && !strchr(" \n\r\t,:{}[]\"", *r->at))
                r->at++;
        }
    } while (depth > 0);
    return true;
}

/* Takes one object of the listing: its path. */
static bool take_entry(reader *r, tmh_text *path) {
    if (!take(r, '{'))
        return false;
    if (take(r, '}'))
        return true;
    do {
        tmh_text key = {.bytes = NULL};
        bool fine = take_string(r, &key) && take(r, ':');
        bool is_path = fine && key.bytes && strcmp(key.bytes, "path") == 0;
        free(key.bytes);
        path->len = is_path ? 0 : path->len;
        if (!fine || !(is_path ? take_string(r, path) : skip_value(r)))
            return false;
    } while (take(r, ','));
    return take(r, '}');
}

/* The last part of a path directly in the folder; NULL for other paths. */
static const char *name_in(const char *path, const char *folder) {
    size_t len = strlen(folder);
    while (len && folder[len - 1] == '/')
        len--;
    if (len && (strncmp(path, folder, len) != 0 || path[len] != '/'))
        return NULL;
    const char *name = path + len + (len > 0);
    return *name && !strchr(name, '/') ? name : NULL;
}

bool tmh_hub_names(const char *json, size_t len, const char *folder,
                   int (*entry)(void *ctx, const char *name), void *ctx, bool *stopped) {
    reader r = {json, json + len};
    *stopped = false;
    if (!take(&r, '['))
        return false;
    if (take(&r, ']'))
        return peek(&r) == '\0';
    do {
        tmh_text path = {.bytes = NULL};
        bool fine = take_entry(&r, &path);
        const char *name = fine && path.bytes ? name_in(path.bytes, folder) : NULL;
        *stopped = name && entry(ctx, name) != 0;
        free(path.bytes);
        if (!fine || *stopped)
            return fine;
    } while (take(&r, ','));
    return take(&r, ']') && peek(&r) == '\0' && r.at == r.end;
}
