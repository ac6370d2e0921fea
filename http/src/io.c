/* The four functions of a tenmap_io, and what they cache of a file. */
#include "http.h"

#include <stdlib.h>
#include <string.h>

/*
 * Bytes of the first read, which holds most headers; of what counts as a small read; and of what is
 * read ahead for small reads.
 */
enum { FIRST_READ = 128 << 10, SMALL_READ = 32 << 10, READ_AHEAD = 128 << 10 };
/* preferred_bytes of the tenmap_io. */
enum { PREFERRED = 4 << 20 };

/* Opening and closing. */

static void free_file(tmh_file *file) {
    if (!file)
        return;
    tmh_address_free(&file->address);
    free(file->given);
    free(file->target);
    free(file->window);
    free(file->ahead);
    free(file);
}

/* NULL on failure, with the reason in *error. */
static tmh_file *new_file(tmh_io *io, const char *path, tenmap_error *error) {
    tmh_file *file = calloc(1, sizeof *file);
    char *given = tmh_copy(path, strlen(path));
    if (!file || !given) {
        free(file);
        free(given);
        tmh_fail_memory(error, "a file");
        return NULL;
    }
    file->io = io;
    file->given = given;
    if (tmh_address_read(&file->address, path, error) == TENMAP_OK)
        return file;
    free_file(file);
    return NULL;
}

/* Whether the address alone shows that it is a folder. */
static bool is_folder(const tmh_address *a) {
    size_t len = strlen(a->path);
    return len == 0 || a->path[len - 1] == '/';
}

static tenmap_status fail_folder(const tmh_file *file, tenmap_error *error) {
    bool web = file->address.scheme == TMH_HTTP || file->address.scheme == TMH_HTTPS;
    return tmh_remedy(
        error, web ? TENMAP_REMEDY_OPEN_ONE : TENMAP_REMEDY_NONE,
        tmh_fail(error, TENMAP_ERR_NOT_FOUND, "%s: this is a folder%s", tmh_show(file->given).text,
                 web ? ", which web servers do not list reliably; give the address of a file, "
                       "or of a model's index"
                     : ""));
}

/* Whether the name ends like a file of a model. */
static bool is_shard(const char *path) {
    static const char *const endings[] = {".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt"};
    size_t len = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t size = strlen(endings[i]);
        if (len > size && strcmp(path + len - size, endings[i]) == 0)
            return true;
    }
    return false;
}

/*
 * A signature in an address is valid for that one file. The address of a file beside it, such as a
 * shard of an index, gets the same query, and the server would refuse it without saying why.
 */
static tenmap_status check_signature(tmh_file *file, tenmap_error *error) {
    const tmh_address *a = &file->address;
    if (!a->query || !tmh_is_signed(a->query))
        return TENMAP_OK;
    char *owner = tmh_learnt_copy(file->io, &file->io->signed_for, a->query);
    bool other = owner && strcmp(owner, a->path) != 0;
    if (!owner)
        tmh_learnt_put(file->io, &file->io->signed_for, a->query, a->path, false);
    free(owner);
    if (!other)
        return TENMAP_OK;
    return tmh_remedy(
        error, TENMAP_REMEDY_DOWNLOAD,
        tmh_fail(error, is_shard(a->path) ? TENMAP_ERR_IO : TENMAP_ERR_NOT_FOUND,
                 "%s: the address that was opened is signed for one file only, and this is "
                 "another file beside it; open the index at an address where its shards can be "
                 "reached too, or download its files",
                 tmh_show(file->given).text));
}

static tenmap_status read_first(tmh_file *file, tenmap_error *error) {
    size_t got = 0;
    file->window = malloc(FIRST_READ);
    if (!file->window)
        return tmh_fail_memory(error, "the first bytes of a file");
    tenmap_status status = tmh_fetch(file, 0, FIRST_READ, file->window, &got, error);
    if (status != TENMAP_OK)
        return status;
    unsigned char *fit = realloc(file->window, got ? got : 1);
    if (fit)
        file->window = fit;
    file->window_size = got;
    file->size = file->pins.size;
    return TENMAP_OK;
}

static tenmap_status open_file(void *ctx, const char *path, void **out, uint64_t *size,
                               tenmap_error *error) {
    tmh_file *file = new_file(ctx, path, error);
    if (!file)
        return error->status;
    tenmap_status status =
        is_folder(&file->address) ? fail_folder(file, error) : check_signature(file, error);
    if (status == TENMAP_OK)
        status = read_first(file, error);
    if (status != TENMAP_OK) {
        free_file(file);
        return status;
    }
    *out = file;
    *size = file->size;
    return TENMAP_OK;
}

static void close_file(void *ctx, void *file) {
    (void)ctx;
    free_file(file);
}

/* Reading. */

/*
 * Copies what the window has of the front of [*offset, *offset + *bytes), and advances the range
 * past it.
 */
static void serve(const unsigned char *window, uint64_t at, size_t size, uint64_t *offset,
                  unsigned char **dst, size_t *bytes) {
    if (*offset < at || *offset - at >= size)
        return;
    size_t skip = (size_t)(*offset - at), part = size - skip < *bytes ? size - skip : *bytes;
    memcpy(*dst, window + skip, part);
    *offset += part;
    *dst += part;
    *bytes -= part;
}

/*
 * Serves bytes that were read ahead. True if this read continues the small one before it, so that
 * reading ahead again pays: an isolated read fetches only its own bytes.
 */
static bool serve_ahead(tmh_file *file, uint64_t *offset, unsigned char **dst, size_t *bytes) {
    uint64_t begin = *offset;
    size_t size = *bytes;
    bool small = size <= SMALL_READ;
    tmh_lock(file->io->client);
    if (file->ahead)
        serve(file->ahead, file->ahead_at, file->ahead_size, offset, dst, bytes);
    bool follows = small && file->small_end && begin >= file->small_end &&
                   begin - file->small_end <= SMALL_READ;
    if (small)
        file->small_end = begin + size;
    tmh_unlock(file->io->client);
    return follows;
}

static tenmap_status read_ahead(tmh_file *file, uint64_t offset, unsigned char *dst, size_t bytes,
                                tenmap_error *error) {
    uint64_t left = file->size - offset;
    size_t size = left < READ_AHEAD ? (size_t)left : READ_AHEAD;
    unsigned char *ahead = malloc(size), *before;
    if (!ahead)
        return tmh_fetch(file, offset, bytes, dst, NULL, error);
    tenmap_status status = tmh_fetch(file, offset, size, ahead, NULL, error);
    if (status != TENMAP_OK) {
        free(ahead);
        return status;
    }
    memcpy(dst, ahead, bytes);
    tmh_lock(file->io->client);
    before = file->ahead;
    file->ahead = ahead;
    file->ahead_at = offset;
    file->ahead_size = size;
    tmh_unlock(file->io->client);
    free(before);
    return TENMAP_OK;
}

static tenmap_status read_file(void *ctx, void *opened, uint64_t offset, void *to, size_t bytes,
                               tenmap_error *error) {
    tmh_file *file = opened;
    unsigned char *dst = to;
    (void)ctx;
    if (offset > file->size || bytes > file->size - offset)
        return tmh_fail(error, TENMAP_ERR_RANGE,
                        "%s: %llu bytes at byte %llu are outside the file, which has %llu",
                        tmh_show(file->given).text, (ull)bytes, (ull)offset, (ull)file->size);
    serve(file->window, 0, file->window_size, &offset, &dst, &bytes);
    if (bytes == 0)
        return TENMAP_OK;
    bool follows = serve_ahead(file, &offset, &dst, &bytes);
    if (bytes == 0)
        return TENMAP_OK;
    return follows ? read_ahead(file, offset, dst, bytes, error)
                   : tmh_fetch(file, offset, bytes, dst, NULL, error);
}

/* Folders. */

typedef struct listing {
    int (*entry)(void *ctx, const char *name);
    void *ctx;
    size_t count, pages;
    uint64_t bytes, deadline; /* of all pages */
} listing;

/* Skips names that no file can have, and names outside of this folder. */
static int count_entry(void *ctx, const char *name) {
    listing *l = ctx;
    if (strlen(name) > TMH_LONGEST_NAME)
        return 0;
    return ++l->count > TMH_MOST_NAMES || l->entry(l->ctx, name);
}

static tenmap_status fail_listing(const tmh_file *file, long most, const char *what,
                                  tenmap_error *error) {
    return tmh_remedy(
        error, TENMAP_REMEDY_OPEN_ONE,
        tmh_fail(error, TENMAP_ERR_LIMIT,
                 "%s: the server's listing of the folder has more than %ld %s, the limit; open "
                 "a file of the folder by its name",
                 tmh_show(file->given).text, most, what));
}

/* Fails if the listing exceeded one of its limits. */
static tenmap_status check_listing(const tmh_file *file, const listing *l, const char *next,
                                   tenmap_error *error) {
    if (l->count > TMH_MOST_NAMES)
        return fail_listing(file, TMH_MOST_NAMES, "names", error);
    if (next && l->bytes > TMH_LONGEST_LISTING)
        return fail_listing(file, TMH_LONGEST_LISTING, "bytes", error);
    if (next && l->pages == TMH_MOST_PAGES)
        return fail_listing(file, TMH_MOST_PAGES, "pages", error);
    if (next && strlen(next) > TMH_LONGEST_NEXT)
        return fail_listing(file, TMH_LONGEST_NEXT, "bytes in its continuation token", error);
    return TENMAP_OK;
}

/* The prefix of keys in the folder, which the caller frees. */
static char *key_prefix(const char *key) {
    tmh_text prefix = {.bytes = NULL};
    tmh_adds(&prefix, key);
    if (*key && key[strlen(key) - 1] != '/')
        tmh_adds(&prefix, "/");
    return tmh_take(&prefix);
}

/* Lists one page. *next is the previous page's and becomes this one's. */
static tenmap_status list_page(tmh_file *file, listing *l, char **next, bool *stopped,
                               tenmap_error *error) {
    tmh_text text = {.bytes = NULL};
    char *link = NULL, *token = NULL;
    bool hub = file->address.scheme == TMH_HF, read = false;
    tenmap_status status = tmh_fetch_text(file, *next, l->deadline, &text, &link, error);
    free(*next);
    *next = NULL;
    if (status == TENMAP_OK && hub) {
        read = tmh_hub_names(text.bytes ? text.bytes : "", text.len, file->address.path,
                             count_entry, l, stopped);
        *next = link;
        link = NULL;
    } else if (status == TENMAP_OK) {
        char *prefix = key_prefix(file->address.path);
        tmh_naming names = {.prefix = prefix, .entry = count_entry, .ctx = l};
        read = prefix && tmh_s3_names(text.bytes ? text.bytes : "", text.len, &names, &token);
        *stopped = names.stopped;
        *next = token;
        free(prefix);
    }
    if (status == TENMAP_OK && !read)
        status = tmh_fail(error, TENMAP_ERR_IO,
                          "%s: the server's listing of the folder cannot be understood",
                          tmh_show(file->given).text);
    l->pages++;
    l->bytes += text.len;
    free(link);
    free(text.bytes);
    return status == TENMAP_OK ? check_listing(file, l, *stopped ? NULL : *next, error) : status;
}

static tenmap_status list_folder(void *ctx, const char *path,
                                 int (*entry)(void *entry_ctx, const char *name), void *entry_ctx,
                                 tenmap_error *error) {
    listing l = {.entry = entry, .ctx = entry_ctx};
    tmh_file *file = new_file(ctx, path, error);
    char *next = NULL;
    bool stopped = false;
    tenmap_status status = TENMAP_OK;
    if (!file)
        return error->status;
    if (file->address.scheme != TMH_HF && file->address.scheme != TMH_S3)
        status = fail_folder(file, error);
    l.deadline = tmh_deadline(file->io, 0);
    do {
        if (status == TENMAP_OK)
            status = list_page(file, &l, &next, &stopped, error);
    } while (status == TENMAP_OK && next && !stopped);
    if (status == TENMAP_OK && l.count == 0)
        status = tmh_fail(error, TENMAP_ERR_NOT_FOUND, "%s: there is nothing at this address",
                          tmh_show(path).text);
    free(next);
    free_file(file);
    return status;
}

/* The io itself. */

static void free_learnt(tmh_learnt *list) {
    while (list) {
        tmh_learnt *next = list->next;
        free(list);
        list = next;
    }
}

static void free_io(tmh_io *io) {
    tmh_client_free(io->client);
    free_learnt(io->learnt);
    free_learnt(io->signed_for);
    tmh_settings_free(&io->settings);
    free(io);
}

tenmap_status tenmap_http_create(const tenmap_http_options *options, tenmap_io *out,
                                 tenmap_error *error) {
    tenmap_error unused = {.status = TENMAP_OK};
    error = error ? error : &unused;
    if (!out)
        return tmh_fail(error, TENMAP_ERR_ARGUMENT, "tenmap_http_create was given no tenmap_io");
    memset(out, 0, sizeof *out);
    tmh_io *io = calloc(1, sizeof *io);
    if (!io)
        return tmh_fail_memory(error, "the connections");
    tenmap_status status = tmh_settings_read(&io->settings, options, error);
    if (status == TENMAP_OK) {
        io->client = tmh_client_new(&io->settings, error);
        status = io->client ? TENMAP_OK : error->status;
    }
    if (status != TENMAP_OK) {
        free_io(io);
        return status;
    }
    *out = (tenmap_io){.struct_size = sizeof *out,
                       .open = open_file,
                       .read = read_file,
                       .close = close_file,
                       .list = list_folder,
                       .ctx = io,
                       .preferred_bytes = PREFERRED};
    return TENMAP_OK;
}

void tenmap_http_destroy(tenmap_io *io) {
    if (!io)
        return;
    if (io->ctx)
        free_io(io->ctx);
    memset(io, 0, sizeof *io);
}

tenmap_http_traffic tenmap_http_moved(const tenmap_io *io) {
    const tmh_io *own = io ? io->ctx : NULL;
    return own ? tmh_traffic(own->client) : (tenmap_http_traffic){0, 0, 0, 0};
}

int tenmap_http_sha256(const tenmap_io *io, const void *opened, char digits[65]) {
    enum { DIGITS = 64 };
    const tmh_file *file = opened;
    digits[0] = '\0';
    if (!io || !io->ctx || !file)
        return 0;
    tmh_lock(file->io->client);
    const tmh_tag *tag = &file->pins.linked_tag;
    bool given = tag->len == DIGITS + 2 && tag->text[0] == '"' &&
                 strspn(tag->text + 1, "0123456789abcdef") == DIGITS &&
                 tag->text[DIGITS + 1] == '"';
    if (given) {
        memcpy(digits, tag->text + 1, DIGITS);
        digits[DIGITS] = '\0';
    }
    tmh_unlock(file->io->client);
    return given;
}
