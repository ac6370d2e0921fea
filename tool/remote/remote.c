/*
 * Opens models at addresses (https://, hf://, s3://) through libtenmap-http, and reads small remote
 * files.
 */
#include "remote/remote.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "command.h"
#include "remote/caching_io.h"
#include "view/print.h"

#ifdef TOOL_HAVE_HTTP
#include <tenmap_http.h>
#endif

/* Length of "scheme://" at the beginning; 0 if there is none. */
static size_t scheme_length(const char *path) {
    size_t n = 0;
    while ((path[n] >= 'a' && path[n] <= 'z') || (path[n] >= 'A' && path[n] <= 'Z') ||
           (n && ((path[n] >= '0' && path[n] <= '9') || path[n] == '+')))
        n++;
    return n && strncmp(path + n, "://", 3) == 0 ? n + 3 : 0;
}

static bool has_scheme(const char *path, const char *scheme) {
    size_t n = scheme_length(path);
    if (n != strlen(scheme))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((path[i] | ' ') != (scheme[i] | ' '))
            return false;
    return true;
}

bool is_address(const char *path) {
    struct stat s;
    return scheme_length(path) > 0 && stat(path, &s) != 0;
}

/* Takes ownership of a text. The last eight stay valid, so that one message can contain several. */
static const char *keep_text(text *made) {
    static char *cache[8];
    static size_t next;
    char **place = &cache[next++ % (sizeof cache / sizeof cache[0])];
    free(*place);
    *place = made->bytes;
    return *place;
}

const char *address_query(const char *address) {
    bool has = !has_scheme(address, "hf://") && !has_scheme(address, "s3://");
    return address + (has ? strcspn(address, "?") : strlen(address));
}

void text_add_named(text *out, const char *folder, const char *name) {
    bool web = has_scheme(folder, "http://") || has_scheme(folder, "https://");
    text_addf(out, "%s%s", folder, strcmp(folder, "/") == 0 ? "" : "/");
    for (const char *c = name; *c; c++) {
        if (web && strchr("%?#", *c))
            text_addf(out, "%%%02X", (unsigned)*c);
        else
            text_add(out, c, 1);
    }
}

char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t len = slash > path ? (size_t)(slash - path) : 1; /* the root keeps its slash */
    return need_copy(slash ? path : ".", len);
}

const char *shown_path(const char *path) {
    const char *query = is_address(path) ? address_query(path) : "";
    text shown = {0};
    if (!*query)
        return path;
    text_add(&shown, path, (size_t)(query - path));
    return keep_text(&shown);
}

/* Whether a word ends here: at white space, or at a closing quote. */
static bool ends_word(const char *at, const char *end) {
    if (*at != '\'' && *at != '"')
        return strchr(" \t\n", *at) != NULL;
    return end - at < 2 || strchr(" \t\n,;:.?!)", at[1]);
}

void text_add_shown(text *out, const char *message, size_t len) {
    const char *at = message, *end = message + len;
    while (at < end) {
        bool web = (size_t)(end - at) >= strlen("https://") &&
                   (strncasecmp(at, "http://", 7) == 0 || strncasecmp(at, "https://", 8) == 0);
        const char *word = at++;
        while (web && at < end && *at != '?' && !ends_word(at, end))
            at++;
        text_add(out, word, (size_t)(at - word));
        while (web && at < end && *at == '?' && !ends_word(at, end)) /* the query */
            for (at++; at < end && *at != '?' && !ends_word(at, end);)
                at++;
    }
}

/* Inserts --revision into a hub address. */
static int add_revision(const char **operand) {
    const char *path = *operand;
    text all = {0};
    size_t org = strlen("hf://") + strcspn(path + strlen("hf://"), "/");
    size_t end = path[org] ? org + 1 + strcspn(path + org + 1, "/@") : org;
    if (path[end] == '@')
        return fail(EXIT_USAGE, "'%s' has a revision, and --revision names another", path);
    text_add(&all, path, end);
    text_add(&all, "@", 1);
    for (const char *c = common.revision; *c; c++) { /* escaped, because the library decodes it */
        if (*c == '/' || *c == '%')
            text_addf(&all, *c == '/' ? "%%2F" : "%%25");
        else
            text_add(&all, c, 1);
    }
    text_add(&all, path + end, strlen(path + end));
    /* Operands are used until the command ends, however many there are. */
    static char **owned;
    static size_t count;
    owned = need_next(owned, count, sizeof *owned);
    *operand = owned[count++] = all.bytes;
    return EXIT_FINE;
}

static int add_revisions(const char **operands, size_t count) {
    size_t used = 0;
    int status = EXIT_FINE;
    if (!*common.revision)
        return fail(EXIT_USAGE, "--revision takes a branch, a tag or a commit");
    for (size_t i = 0; !status && i < count; i++)
        if (has_scheme(operands[i], "hf://")) {
            status = add_revision(&operands[i]);
            used++;
        }
    if (!status && !used)
        status = fail(EXIT_USAGE, "--revision is for addresses on a hub: hf://ORG/MODEL");
    return status;
}

/* Overwrites the token in argv, since every user of the machine can read command lines. */
static void hide_token(void) {
    char *given = (char *)(uintptr_t)common.token; /* points into argv, which is writable */
    common.token = need_copy(given, strlen(given));
    memset(given, 'x', strlen(given));
}

int remote_prepare(const option *options, void *settings, const char **operands, size_t count) {
    bool remote = false;
    int status = EXIT_FINE;
    if (common.token)
        hide_token();
    if (common.revision)
        status = add_revisions(operands, count);
    for (size_t i = 0; i < count; i++)
        remote = remote || is_address(operands[i]);
    for (const option *o = options; o && o->name; o++)
        if (o->kind == OPTION_COUNT && strcmp(o->name, "threads") == 0) {
            uint64_t *threads = (uint64_t *)(void *)((char *)settings + o->at);
            common.threads = *threads;
            *threads = remote && !*threads ? REMOTE_THREADS : *threads;
        }
    return status;
}

#ifdef TOOL_HAVE_HTTP

static tenmap_io network, cache; /* zeroed until the first address is used; cache wraps network */

static atomic_bool ending; /* nothing that is still being read is needed */

static int stops(void *ctx) {
    (void)ctx;
    return interrupted() || atomic_load(&ending);
}

static int start_network(void) {
    tenmap_http_options options = TENMAP_HTTP_OPTIONS_INIT;
    tenmap_error error;
    if (network.ctx)
        return EXIT_FINE;
    options.token = common.token;
    options.connections = (uint32_t)(common.threads < 64 ? common.threads : 64);
    options.stop = stops;
    if (tenmap_http_create(&options, &network, &error) == TENMAP_OK) {
        cache = caching_io(&network);
        return EXIT_FINE;
    }
    fail_error(&error);
    return error.status == TENMAP_ERR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

int remote_options(const char *path, tenmap_options *options) {
    if (!is_address(path))
        return EXIT_FINE;
    int status = start_network();
    if (status)
        return status;
    caching_io_keep_reads(&cache, true);
    options->io = &cache;
    options->threads = common.threads ? (uint32_t)common.threads : REMOTE_THREADS;
    return EXIT_FINE;
}

void remote_opened(void) {
    if (cache.ctx)
        caching_io_keep_reads(&cache, false);
}

typedef struct range_list {
    announced_range *items;
    size_t count, room;
} range_list;

static void add_range(range_list *list, const tenmap_tensor *t) {
    const char *path = tenmap_shard_at(t->model, t->shard)->path;
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->items = need_more(list->items, list->room, sizeof *list->items);
    }
    list->items[list->count++] =
        (announced_range){path, t->file_offset, t->file_offset + t->nbytes};
}

/* Terms of a derived tensor may have parts themselves; the library bounds their depth. */
static void add_ranges(range_list *list, const tenmap_tensor *t) {
    uint32_t parts = tenmap_scheme_of(t)->part_count;
    for (uint32_t k = 0; k < parts; k++)
        add_ranges(list, tenmap_part_at(t, k));
    if (!parts)
        add_range(list, t);
}

void remote_will_read(const tenmap_tensor *const *tensors, size_t count) {
    range_list list = {0};
    if (!cache.ctx)
        return;
    for (size_t i = 0; i < count; i++)
        add_ranges(&list, tensors[i]);
    caching_io_announce(&cache, list.items, list.count,
                        common.threads ? (unsigned)common.threads : REMOTE_THREADS);
    free(list.items);
}

uint64_t remote_read(const char *address, size_t most, char **out, size_t *len) {
    void *file;
    uint64_t size = 0;
    tenmap_error error = {.status = TENMAP_OK};
    *out = NULL;
    *len = 0;
    if (!cache.ctx || cache.open(cache.ctx, address, &file, &size, &error) != TENMAP_OK)
        return error.status == TENMAP_ERR_NOT_FOUND ? 0 : UINT64_MAX;
    if (size && size <= most) {
        *out = need((size_t)size, 1);
        *len = (size_t)size;
        if (cache.read(cache.ctx, file, 0, *out, *len, &error) != TENMAP_OK) {
            free(*out);
            *out = NULL;
            *len = 0;
        }
    }
    cache.close(cache.ctx, file);
    return size;
}

int remote_digest(const char *address, char sha256[65], uint64_t *size) {
    tenmap_error error = {.status = TENMAP_OK};
    void *file;
    int status = start_network();
    if (status)
        return status;
    if (cache.open(cache.ctx, address, &file, size, &error) != TENMAP_OK)
        return fail_error(&error);
    if (!tenmap_http_sha256(&network, caching_io_file(file), sha256))
        status = fail(EXIT_FAILED,
                      "'%s': the server gives no SHA-256 of it; hubs give that of large files",
                      shown_path(address));
    cache.close(cache.ctx, file);
    return status;
}

int remote_list(const char *folder, int (*entry)(void *ctx, const char *name), void *ctx) {
    tenmap_error error = {.status = TENMAP_OK};
    int status = start_network();
    if (!status && cache.list(cache.ctx, folder, entry, ctx, &error) != TENMAP_OK)
        status = fail_error(&error);
    return status;
}

void remote_end(void) {
    if (!network.ctx)
        return;
    atomic_store(&ending, true);
    caching_io_free(&cache);
    tenmap_http_traffic moved = tenmap_http_moved(&network);
    if (common.traffic)
        fprintf(stderr, "moved %" PRIu64 " bytes in %" PRIu64 " requests\n", moved.bytes,
                moved.requests);
    tenmap_http_destroy(&network);
}

#else

int remote_options(const char *path, tenmap_options *options) {
    (void)options;
    if (!is_address(path))
        return EXIT_FINE;
    return fail(EXIT_FAILED,
                "'%s' is an address, and this build of tenmap has no network part; "
                "use a build with TENMAP_HTTP",
                shown_path(path));
}

void remote_opened(void) {}

void remote_will_read(const tenmap_tensor *const *tensors, size_t count) {
    (void)tensors, (void)count;
}

uint64_t remote_read(const char *address, size_t most, char **out, size_t *len) {
    (void)address, (void)most;
    *out = NULL;
    *len = 0;
    return 0;
}

int remote_digest(const char *address, char sha256[65], uint64_t *size) {
    tenmap_options unused;
    (void)sha256, (void)size;
    return remote_options(address, &unused);
}

int remote_list(const char *folder, int (*entry)(void *ctx, const char *name), void *ctx) {
    (void)folder, (void)entry, (void)ctx;
    return EXIT_FAILED;
}

void remote_end(void) {}

#endif
