/*
 * A tenmap_io that caches what another one has opened, listed and read, so that a command sends no
 * request twice.
 */
#include "remote/caching_io.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/print.h"
#include "remote/read_ahead.h"
#include "remote/remote.h"

/*
 * Limits. An open file keeps its first 128 KiB in memory, so all files take at most 64 MiB; other
 * cached reads take at most 64 MiB.
 */
enum { MOST_FILES = 512, MOST_READ = 64 << 20 };
/* Over all folders that one command lists. */
enum { MOST_NAMES = 1000000, MOST_NAME_BYTES = 64 << 20 };

/* A cached range of a file. */
typedef struct cached_piece {
    struct cached_piece *next;
    uint64_t at;
    size_t size;
    unsigned char bytes[];
} cached_piece;

/* What is known about a path: an open file of the underlying io, or an error. */
typedef struct cached_file {
    struct cached_file *next;
    char *path;
    void *file;
    uint64_t size;
    tenmap_status status;
    tenmap_error error;
    cached_piece *pieces;
    bool listed; /* stays in `files` until the end; an unlisted file is freed by cached_close */
} cached_file;

typedef struct cached_list {
    struct cached_list *next;
    char *path;
    char **names;
    /* Count and total length of the names, and their limits. */
    size_t count, bytes, most, most_bytes;
    tenmap_status status;
    tenmap_error error;
} cached_list;

typedef struct io_cache {
    const tenmap_io *under;
    pthread_mutex_t lock;
    cached_file *files;
    cached_list *lists;
    size_t file_count, read_bytes, name_count, name_bytes;
    bool keeps_reads;
    read_ahead *ahead; /* of the ranges that were announced last; NULL: none were */
} io_cache;

/* Whether a result may be cached. Operations that failed have already been retried. */
static bool is_lasting(tenmap_status status) {
    return status == TENMAP_OK || status == TENMAP_ERR_NOT_FOUND || status == TENMAP_ERR_IO;
}

/* Files. */

/* Requires the lock. */
static cached_file *find_file(const io_cache *k, const char *path) {
    cached_file *f = k->files;
    while (f && strcmp(f->path, path) != 0)
        f = f->next;
    return f;
}

static void free_file(const io_cache *k, cached_file *f) {
    while (f->pieces) {
        cached_piece *next = f->pieces->next;
        free(f->pieces);
        f->pieces = next;
    }
    if (f->status == TENMAP_OK)
        k->under->close(k->under->ctx, f->file);
    free(f->path);
    free(f);
}

/* Registers a file under its path. Returns it, or the file that a faster thread has registered. */
static cached_file *add_file(io_cache *k, cached_file *f) {
    pthread_mutex_lock(&k->lock);
    cached_file *known = find_file(k, f->path);
    if (!known && k->file_count < MOST_FILES) {
        f->listed = true;
        f->next = k->files;
        k->files = f;
        k->file_count++;
    }
    pthread_mutex_unlock(&k->lock);
    if (!known)
        return f;
    free_file(k, f);
    return known;
}

static tenmap_status cached_open(void *ctx, const char *path, void **file, uint64_t *size,
                                 tenmap_error *error) {
    io_cache *k = ctx;
    pthread_mutex_lock(&k->lock);
    cached_file *f = find_file(k, path);
    pthread_mutex_unlock(&k->lock);
    if (!f) {
        f = need(1, sizeof *f);
        *f = (cached_file){.path = need_copy(path, strlen(path))};
        f->status = k->under->open(k->under->ctx, path, &f->file, &f->size, &f->error);
        if (is_lasting(f->status))
            f = add_file(k, f);
    }
    tenmap_status status = f->status;
    *file = f;
    *size = f->size;
    if (status != TENMAP_OK) {
        *error = f->error;
        if (!f->listed)
            free_file(k, f);
    }
    return status;
}

static void cached_close(void *ctx, void *file) {
    cached_file *f = file;
    if (!f->listed)
        free_file(ctx, f);
}

static bool serve_piece(io_cache *k, const cached_file *f, uint64_t offset, void *dst,
                        size_t bytes) {
    bool found = false;
    pthread_mutex_lock(&k->lock);
    for (const cached_piece *p = f->pieces; p && !found; p = p->next)
        if (offset >= p->at && offset - p->at <= p->size && bytes <= p->size - (offset - p->at)) {
            memcpy(dst, p->bytes + (offset - p->at), bytes);
            found = true;
        }
    pthread_mutex_unlock(&k->lock);
    return found;
}

static void keep_piece(io_cache *k, cached_file *f, uint64_t offset, const void *src,
                       size_t bytes) {
    pthread_mutex_lock(&k->lock);
    bool keep = k->keeps_reads && bytes <= MOST_READ - k->read_bytes;
    cached_piece *p = keep ? malloc(sizeof *p + bytes) : NULL;
    k->read_bytes += p ? bytes : 0;
    pthread_mutex_unlock(&k->lock);
    if (!p)
        return;
    p->at = offset;
    p->size = bytes;
    memcpy(p->bytes, src, bytes);
    pthread_mutex_lock(&k->lock);
    p->next = f->pieces;
    f->pieces = p;
    pthread_mutex_unlock(&k->lock);
}

/* Reads what was not announced. */
static tenmap_status read_alone(io_cache *k, cached_file *f, uint64_t offset, void *dst,
                                size_t bytes, tenmap_error *error) {
    enum { FIRST_READ = 128 << 10 }; /* the file caches this range itself */
    bool is_far = bytes && (offset > FIRST_READ || bytes > FIRST_READ - offset);
    if (is_far && serve_piece(k, f, offset, dst, bytes))
        return TENMAP_OK;
    tenmap_status status = k->under->read(k->under->ctx, f->file, offset, dst, bytes, error);
    if (status == TENMAP_OK && is_far)
        keep_piece(k, f, offset, dst, bytes);
    return status;
}

static tenmap_status cached_read(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                                 tenmap_error *error) {
    io_cache *k = ctx;
    cached_file *f = file;
    planned_range wanted = {f->file, offset, offset + bytes};
    size_t served = k->ahead ? 1 : 0;
    while (served && wanted.begin < wanted.end) {
        char *at = (char *)dst + (wanted.begin - offset);
        tenmap_status status = read_ahead_serve(k->ahead, &wanted, at, &served, error);
        if (status != TENMAP_OK)
            return status;
        wanted.begin += served;
    }
    size_t done = (size_t)(wanted.begin - offset);
    return done < bytes || !bytes
               ? read_alone(k, f, wanted.begin, (char *)dst + done, bytes - done, error)
               : TENMAP_OK;
}

/* Folders. */

static int take_name(void *ctx, const char *name) {
    cached_list *l = ctx;
    size_t len = strlen(name);
    if (l->count == l->most || len >= l->most_bytes - l->bytes) {
        snprintf(l->error.message, sizeof l->error.message,
                 "'%.200s': the listing has more than %d %s, the limit; name a file of the folder",
                 shown_path(l->path), l->count == l->most ? (int)MOST_NAMES : (int)MOST_NAME_BYTES,
                 l->count == l->most ? "names" : "bytes in names");
        l->error.status = TENMAP_ERR_LIMIT;
        return 1;
    }
    l->names = need_next(l->names, l->count, sizeof *l->names);
    l->names[l->count++] = need_copy(name, len);
    l->bytes += len + 1;
    return 0;
}

static void free_list(cached_list *l) {
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
    free(l->path);
    free(l);
}

/* Two threads that list the same folder at once would both send a request; no caller does this. */
static cached_list *list_of(io_cache *k, const char *path) {
    pthread_mutex_lock(&k->lock);
    cached_list *l = k->lists;
    while (l && strcmp(l->path, path) != 0)
        l = l->next;
    pthread_mutex_unlock(&k->lock);
    if (l)
        return l;
    l = need(1, sizeof *l);
    *l = (cached_list){.path = need_copy(path, strlen(path)),
                       .most = k->name_count < MOST_NAMES ? MOST_NAMES - k->name_count : 0};
    l->most_bytes = k->name_bytes < MOST_NAME_BYTES ? MOST_NAME_BYTES - k->name_bytes : 0;
    l->status = k->under->list(k->under->ctx, path, take_name, l, &l->error);
    if (l->status == TENMAP_OK)
        l->status = l->error.status; /* the folder has more names than the limit */
    if (is_lasting(l->status)) {
        pthread_mutex_lock(&k->lock);
        k->name_count += l->count;
        k->name_bytes += l->bytes;
        l->next = k->lists;
        k->lists = l;
        pthread_mutex_unlock(&k->lock);
    }
    return l;
}

static tenmap_status cached_names(void *ctx, const char *path,
                                  int (*entry)(void *entry_ctx, const char *name), void *entry_ctx,
                                  tenmap_error *error) {
    cached_list *l = list_of(ctx, path);
    tenmap_status status = l->status;
    for (size_t i = 0; status == TENMAP_OK && i < l->count; i++)
        if (entry(entry_ctx, l->names[i]))
            break;
    if (status != TENMAP_OK)
        *error = l->error;
    if (!is_lasting(status))
        free_list(l);
    return status;
}

/* The public functions. */

tenmap_io caching_io(const tenmap_io *under) {
    tenmap_io io = TENMAP_IO_INIT;
    io_cache *k = need(1, sizeof *k);
    *k = (io_cache){.under = under};
    pthread_mutex_init(&k->lock, NULL);
    io.open = cached_open;
    io.read = cached_read;
    io.close = cached_close;
    io.list = cached_names;
    io.ctx = k;
    io.preferred_bytes = under->preferred_bytes;
    return io;
}

void caching_io_free(tenmap_io *io) {
    io_cache *k = io->ctx;
    if (!k)
        return;
    read_ahead_free(k->ahead);
    while (k->files) {
        cached_file *next = k->files->next;
        free_file(k, k->files);
        k->files = next;
    }
    while (k->lists) {
        cached_list *next = k->lists->next;
        free_list(k->lists);
        k->lists = next;
    }
    pthread_mutex_destroy(&k->lock);
    free(k);
    memset(io, 0, sizeof *io);
}

void caching_io_keep_reads(const tenmap_io *io, bool keep) {
    io_cache *k = io->ctx;
    pthread_mutex_lock(&k->lock);
    k->keeps_reads = keep;
    pthread_mutex_unlock(&k->lock);
}

void *caching_io_file(void *file) {
    return ((cached_file *)file)->file;
}

void caching_io_announce(const tenmap_io *io, const announced_range *ranges, size_t count,
                         unsigned threads) {
    io_cache *k = io->ctx;
    planned_range *planned = need(count, sizeof *planned);
    size_t used = 0;
    const cached_file *f = NULL;
    const char *path = NULL;
    read_ahead_free(k->ahead);
    k->ahead = NULL;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < count; i++) {
        if (path != ranges[i].path) /* neighbors are mostly of one file */
            f = find_file(k, ranges[i].path);
        path = ranges[i].path;
        if (f && f->status == TENMAP_OK && ranges[i].begin < ranges[i].end)
            planned[used++] = (planned_range){f->file, ranges[i].begin, ranges[i].end};
    }
    pthread_mutex_unlock(&k->lock);
    if (used)
        k->ahead = read_ahead_new(k->under, planned, used, threads);
    free(planned);
}
