/* Parses config.json and similar files into a flat list of paths and scalar values. */
#include "model/config_json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "remote/remote.h"

enum { LARGEST = 4 << 20, DEEPEST = 16, LONGEST_PATH = 256 };

typedef struct level {
    size_t path_len; /* length of the path before this level's key */
    size_t element;  /* index of the next array element */
    bool array;
} level;

typedef struct config_reader {
    const char *at, *end;
    text path, value;
    level levels[DEEPEST];
    size_t depth;
    config *out;
} config_reader;

static void skip_space(config_reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

/* Decodes only the common escapes and keeps others as written: these strings are only displayed. */
static bool take_string(config_reader *r, text *into) {
    for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
        bool escaped = *r->at == '\\' && r->at + 1 < r->end;
        r->at += escaped && strchr("\"\\/", r->at[1]);
        text_add(into, r->at, 1);
    }
    return r->at < r->end && *r->at++ == '"';
}

static bool take_word(config_reader *r) {
    const char *begin = r->at;
    while (r->at < r->end && *r->at && !strchr(",]} \t\r\n", *r->at))
        r->at++;
    text_add(&r->value, begin, (size_t)(r->at - begin));
    return r->at > begin;
}

static void cut_path(config_reader *r, size_t len) {
    r->path.len = len;
    if (r->path.bytes)
        r->path.bytes[len] = '\0';
}

/* Appends the next key or index to the path of its object or array. */
static bool take_key(config_reader *r) {
    level *l = &r->levels[r->depth - 1];
    cut_path(r, l->path_len);
    if (r->path.len)
        text_add(&r->path, ".", 1);
    if (l->array) {
        text_addf(&r->path, "%zu", l->element++);
        return true;
    }
    if (r->at == r->end || *r->at != '"' || !take_string(r, &r->path))
        return false;
    skip_space(r);
    return r->at < r->end && *r->at++ == ':';
}

static bool open_level(config_reader *r, char bracket) {
    if (r->depth == DEEPEST)
        return false;
    r->levels[r->depth++] = (level){r->path.len, 0, bracket == '['};
    r->at++;
    return true;
}

/* The one array of which every element counts: the kind of each layer. */
static bool is_layer_list(const config_reader *r, const level *l) {
    enum { MOST_LAYERS = 10000 };
    static const char key[] = "layer_types";
    const size_t len = sizeof key - 1;
    return l->element <= MOST_LAYERS && l->path_len >= len &&
           memcmp(r->path.bytes + l->path_len - len, key, len) == 0;
}

/*
 * Keeps no paths that no caller asks for: long ones, each of which would be copied for every value
 * below its key, and array elements after the first.
 */
static bool is_asked_for(const config_reader *r) {
    for (size_t i = 0; i < r->depth; i++)
        if (r->levels[i].array && r->levels[i].element > 1 && !is_layer_list(r, &r->levels[i]))
            return false;
    return r->path.len <= LONGEST_PATH;
}

static void keep_value(config_reader *r) {
    config *c = r->out;
    c->incomplete = c->incomplete || r->path.len > LONGEST_PATH;
    if (!is_asked_for(r))
        return;
    c->items = need_next(c->items, c->count, sizeof *c->items);
    c->items[c->count++] =
        (config_entry){need_copy(r->path.bytes, r->path.len),
                       need_copy(r->value.bytes ? r->value.bytes : "", r->value.len)};
}

/* Takes one step: a value, or the end of an object or array. */
static bool take_step(config_reader *r) {
    skip_space(r);
    if (r->at == r->end)
        return false;
    if (*r->at == ']' || *r->at == '}') {
        r->at++;
        r->depth--;
    } else if (!take_key(r)) {
        return false;
    } else {
        skip_space(r);
        if (r->at == r->end)
            return false;
        if (*r->at == '{' || *r->at == '[')
            return open_level(r, *r->at);
        text_clear(&r->value);
        if (!(*r->at == '"' ? take_string(r, &r->value) : take_word(r)))
            return false;
        keep_value(r);
    }
    skip_space(r);
    if (r->at < r->end && *r->at == ',')
        r->at++;
    return true;
}

bool config_parse(const char *bytes, size_t len, config *out) {
    *out = (config){0};
    config_reader r = {.at = bytes, .end = bytes + len, .out = out};
    skip_space(&r);
    bool good = r.at < r.end && *r.at == '{' && open_level(&r, '{');
    while (good && r.depth)
        good = take_step(&r);
    text_free(&r.path);
    text_free(&r.value);
    if (!good)
        config_free(out);
    return good;
}

/* Several parts of a command ask for the same file: the last one is kept, or that it is missing. */
static bool read_far(const char *address, config *out) {
    static char *last, *bytes;
    static size_t len;
    if (!last || strcmp(last, address) != 0) {
        free(last);
        free(bytes);
        last = need_copy(address, strlen(address));
        remote_read(address, LARGEST, &bytes, &len);
    }
    bool good = bytes && config_parse(bytes, len, out);
    out->unreadable = bytes && !good;
    return good;
}

bool config_read(const char *folder, const char *name, config *out) {
    text path = {0};
    struct stat s;
    *out = (config){0};
    text_addf(&path, "%s%s%s", folder, *folder ? "/" : "", name);
    if (is_address(path.bytes)) {
        bool read = read_far(path.bytes, out);
        text_free(&path);
        return read;
    }
    int fd = open(path.bytes, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    out->unreadable = fd < 0 && errno != ENOENT && errno != ENOTDIR;
    text_free(&path);
    if (fd < 0)
        return false;
    bool good = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0 && s.st_size <= LARGEST;
    char *bytes = good ? need((size_t)s.st_size, 1) : NULL;
    good = good && read(fd, bytes, (size_t)s.st_size) == s.st_size &&
           config_parse(bytes, (size_t)s.st_size, out);
    out->unreadable = !good;
    free(bytes);
    close(fd);
    return good;
}

void config_free(config *c) {
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i].path);
        free(c->items[i].value);
    }
    free(c->items);
    *c = (config){0};
}

/* Where multimodal models keep the settings of their language model. */
static const char *const places[] = {"", "text_config.", "llm_config."};

static const char *value_at(const config *c, const char *before, const char *key) {
    size_t n = strlen(before);
    for (size_t i = 0; i < c->count; i++)
        if (strncmp(c->items[i].path, before, n) == 0 && strcmp(c->items[i].path + n, key) == 0)
            return c->items[i].value;
    return NULL;
}

const char *config_text(const config *c, const char *key) {
    const char *found = NULL;
    for (size_t i = 0; !found && i < sizeof places / sizeof places[0]; i++)
        found = value_at(c, places[i], key);
    return found && strcmp(found, "null") != 0 ? found : NULL;
}

bool config_uint(const config *c, const char *key, uint64_t *out) {
    const char *found = config_text(c, key);
    char *end;
    if (!found || *found < '0' || *found > '9')
        return false;
    errno = 0;
    *out = strtoull(found, &end, 10);
    return !errno && !*end;
}

static size_t count_at(const config *c, const char *before, const char *key, const char *value) {
    size_t n = strlen(before), len = strlen(key), count = 0;
    for (size_t i = 0; i < c->count; i++) {
        const char *path = c->items[i].path;
        count += strncmp(path, before, n) == 0 && strncmp(path + n, key, len) == 0 &&
                 path[n + len] == '.' && strcmp(c->items[i].value, value) == 0;
    }
    return count;
}

size_t config_count(const config *c, const char *key, const char *value) {
    size_t count = 0;
    for (size_t i = 0; !count && i < sizeof places / sizeof places[0]; i++)
        count = count_at(c, places[i], key, value);
    return count;
}
