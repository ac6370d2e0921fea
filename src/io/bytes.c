/* Implements the sources of bytes, and the window that moves over them. */
#include "bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Objects of the caller's tenmap_io. */

/* Bounds on the size of one read of an object, whatever its tenmap_io prefers. */
enum { OBJECT_READ_LEAST = 4 << 10, OBJECT_READ_MOST = 1 << 30 };

/* Reports a failed callback with its own error message, or with one that says that it gave none. */
static tenmap_status fail_object(tenmap_error *error, tenmap_error *said, tenmap_status status,
                                 const char *shown, const char *doing) {
    tenmap_status known =
        status > TENMAP_OK && status <= TENMAP_ERR_CANCELLED ? status : TENMAP_ERR_IO;
    said->message[sizeof said->message - 1] = '\0';
    if (!said->message[0])
        tmi_fail(said, known, "%s: cannot %s: the tenmap_io returned status %d and no message",
                 tmi_quote_path(shown).text, doing, (int)status);
    said->status = known;
    if (error)
        *error = *said;
    return known;
}

static int ignore_entry(void *ctx, const char *name) {
    (void)ctx, (void)name;
    return 1;
}

static tenmap_status open_object(tmi_bytes *bytes, const tenmap_io *io, const char *path,
                                 tenmap_error *error) {
    tenmap_error said = {.status = TENMAP_OK};
    uint64_t size = 0;
    tenmap_status status = io->open(io->ctx, path, &bytes->object, &size, &said);
    if (status == TENMAP_ERR_NOT_FOUND && io->list) { /* it may be a folder */
        tenmap_error unlisted = {.status = TENMAP_OK};
        tenmap_status listed = io->list(io->ctx, path, ignore_entry, NULL, &unlisted);
        bytes->file.kind = TMI_FILE_FOLDER;
        if (listed == TENMAP_OK)
            return TENMAP_OK;
        if (listed != TENMAP_ERR_NOT_FOUND)
            return fail_object(error, &unlisted, listed, path, "list it");
    }
    if (status != TENMAP_OK)
        return fail_object(error, &said, status, path, "open it");
    bytes->io = io;
    bytes->file.kind = TMI_FILE_REGULAR;
    bytes->file.size = size;
    return TENMAP_OK;
}

/* Reads exactly these bytes, in reads of the preferred size. *got is where it failed. */
static tenmap_status read_object(const tmi_bytes *bytes, uint64_t offset, void *dst, size_t size,
                                 size_t *got, tenmap_error *error) {
    const tenmap_io *io = bytes->io;
    size_t most = tmi_bytes_window_size(bytes, OBJECT_READ_MOST);
    for (*got = 0; *got < size;) {
        tenmap_error said = {.status = TENMAP_OK};
        size_t part = size - *got < most ? size - *got : most;
        tenmap_status status =
            io->read(io->ctx, bytes->object, offset + *got, (char *)dst + *got, part, &said);
        if (status != TENMAP_OK)
            return fail_object(error, &said, status, bytes->shown, "read it");
        *got += part;
    }
    return TENMAP_OK;
}

/* Opening and closing. */

tenmap_status tmi_bytes_open(tmi_bytes *bytes, const tenmap_io *io, const char *path,
                             const char *what, tenmap_error *error) {
    *bytes = (tmi_bytes)TMI_NO_BYTES;
    bytes->shown = path;
    if (io)
        return open_object(bytes, io, path, error);
    int failed = tmi_file_open(&bytes->file, path);
    return failed
               ? tmi_fail_os(error, failed, "%s: cannot open %s", tmi_quote_path(path).text, what)
               : TENMAP_OK;
}

void tmi_bytes_close(tmi_bytes *bytes) {
    if (bytes->io)
        bytes->io->close(bytes->io->ctx, bytes->object);
    else
        tmi_file_close(&bytes->file);
    const char *shown = bytes->shown; /* error messages may still name it after closing */
    *bytes = (tmi_bytes)TMI_NO_BYTES;
    bytes->shown = shown;
}

tenmap_status tmi_bytes_expect_file(const tmi_bytes *bytes, tenmap_error *error) {
    if (bytes->file.kind == TMI_FILE_REGULAR)
        return TENMAP_OK;
    return tmi_fail(error, TENMAP_ERR_IO, "%s: %s", tmi_quote_path(bytes->shown).text,
                    bytes->file.kind == TMI_FILE_FOLDER
                        ? "it is a folder where a file is expected"
                        : "not a regular file but a pipe, a socket or a device");
}

/* Reading. */

void tmi_bytes_lock(const tmi_bytes *bytes) {
    tmi_rwlock_read(&((tmi_bytes *)(uintptr_t)bytes)->file_lock);
}

void tmi_bytes_unlock(const tmi_bytes *bytes) {
    tmi_rwlock_read_end(&((tmi_bytes *)(uintptr_t)bytes)->file_lock);
}

bool tmi_bytes_changed(const tmi_bytes *bytes, uint64_t *size_now) {
    if (bytes->io)
        return false; /* an object's own callbacks report changes */
    tmi_bytes_lock(bytes);
    bool changed = tmi_file_changed(&bytes->file, size_now);
    tmi_bytes_unlock(bytes);
    return changed;
}

size_t tmi_bytes_window_size(const tmi_bytes *bytes, size_t otherwise) {
    uint64_t step = bytes->io ? bytes->io->preferred_bytes : 0;
    if (step == 0)
        return otherwise;
    if (step < OBJECT_READ_LEAST)
        return OBJECT_READ_LEAST;
    return step < OBJECT_READ_MOST ? (size_t)step : OBJECT_READ_MOST;
}

tenmap_status tmi_bytes_check_unchanged(const tmi_bytes *bytes, uint64_t offset, uint64_t size,
                                        const tenmap_tensor *t, tenmap_error *error) {
    uint64_t size_now = offset + size;
    if (!tmi_bytes_changed(bytes, &size_now))
        return TENMAP_OK;
    return tmi_remedy(
        error, TENMAP_REMEDY_OPEN_AGAIN,
        tmi_fail_at(
            error, TENMAP_ERR_IO, t->shard, offset,
            "%s: cannot trust %llu bytes of tensor %s at byte %llu: another program has %s the "
            "file, which has %llu bytes now; it had %llu when it was opened: open it again",
            tmi_quote_path(bytes->shown).text, (ull)size, tmi_quote(t->name, t->name_len).text,
            (ull)offset, size_now < bytes->file.size ? "truncated" : "modified", (ull)size_now,
            (ull)bytes->file.size));
}

/* A read of a file that failed, or that got fewer bytes than it asked for. */
typedef struct short_read {
    uint64_t offset;
    size_t size, got;
    int os_error; /* 0: the file is shorter than when it was opened */
} short_read;

static void fail_read(const tmi_bytes *bytes, const short_read *r, tmi_wanted wanted,
                      tenmap_error *error) {
    tmi_quoted what = {""};
    const char *kind = wanted.tensor ? "tensor " : wanted.what;
    if (wanted.tensor)
        what = tmi_quote(wanted.tensor->name, wanted.tensor->name_len);
    if (r->os_error)
        tmi_fail_os(error, r->os_error, "%s: cannot read %llu bytes of %s%s at byte %llu",
                    tmi_quote_path(bytes->shown).text, (ull)(r->size - r->got), kind, what.text,
                    (ull)(r->offset + r->got));
    else
        (void)tmi_remedy(
            error, TENMAP_REMEDY_OPEN_AGAIN,
            tmi_fail(
                error, TENMAP_ERR_IO,
                "%s: cannot read %s%s: wanted %llu bytes at byte %llu, got %llu: the file had %llu "
                "bytes when it was opened, and another program has truncated it",
                tmi_quote_path(bytes->shown).text, kind, what.text, (ull)r->size, (ull)r->offset,
                (ull)r->got, (ull)bytes->file.size));
    if (error)
        error->status = TENMAP_ERR_IO;
}

tenmap_status tmi_bytes_read(const tmi_bytes *bytes, uint64_t offset, void *dst, size_t size,
                             tmi_wanted wanted, tenmap_error *error) {
    size_t got;
    tenmap_status status = TENMAP_ERR_IO;
    if (bytes->io) {
        status = read_object(bytes, offset, dst, size, &got, error);
        if (status == TENMAP_OK)
            return status;
    } else {
        tmi_bytes_lock(bytes);
        int failed = tmi_file_read(&bytes->file, offset, dst, size, &got);
        tmi_bytes_unlock(bytes);
        if (!failed && got == size)
            return wanted.tensor
                       ? tmi_bytes_check_unchanged(bytes, offset, size, wanted.tensor, error)
                       : TENMAP_OK;
        fail_read(bytes, &(short_read){offset, size, got, failed}, wanted, error);
    }
    if (error) {
        error->shard = wanted.tensor ? wanted.tensor->shard : 0;
        error->offset = offset + got;
    }
    return status;
}

/* Folders and paths. */

/*
 * File systems allow names of 255 characters at most, and buckets 1,024 bytes including all
 * folders.
 */
enum { LONGEST_NAME = 1024 };

typedef struct listing_call {
    bool (*entry)(void *ctx, const char *name);
    void *ctx;
    size_t too_long; /* the length of a name that is too long for a file; 0: there was none */
} listing_call;

/* Does not pass on long names: the names of missing shards are derived from one that exists. */
static int list_entry(void *ctx, const char *name) {
    listing_call *call = ctx;
    size_t len = strlen(name);
    if (len > LONGEST_NAME)
        call->too_long = len;
    return !call->too_long && call->entry(call->ctx, name) ? 0 : 1;
}

tenmap_status tmi_bytes_list(const tenmap_io *io, const char *path,
                             bool (*entry)(void *ctx, const char *name), void *ctx,
                             tenmap_error *error) {
    listing_call call = {entry, ctx, 0};
    tenmap_error said = {.status = TENMAP_OK};
    if (!io) {
        int failed = tmi_folder_list(path, entry, ctx);
        return failed ? tmi_fail_os(error, failed, "%s: cannot list the folder",
                                    tmi_quote_path(path).text)
                      : TENMAP_OK;
    }
    if (!io->list)
        return tmi_fail(error, TENMAP_ERR_NOT_FOUND,
                        "%s: its tenmap_io has no list function, so folders cannot be listed",
                        tmi_quote_path(path).text);
    tenmap_status status = io->list(io->ctx, path, list_entry, &call, &said);
    if (call.too_long)
        return tmi_remedy(
            error, TENMAP_REMEDY_OPEN_ONE,
            tmi_fail(error, TENMAP_ERR_LIMIT,
                     "%s: its tenmap_io lists a file name of %llu bytes, over the limit of %d: "
                     "open a file by its own path",
                     tmi_quote_path(path).text, (ull)call.too_long, (int)LONGEST_NAME));
    return status == TENMAP_OK ? status : fail_object(error, &said, status, path, "list it");
}

/* Paths. With a tenmap_io they may be addresses, which have rules of their own. */

static bool has_scheme(const char *path, const char *scheme) {
    for (; *scheme; path++, scheme++)
        if (*path != *scheme && !(*path >= 'A' && *path <= 'Z' && *path - 'A' + 'a' == *scheme))
            return false;
    return true;
}

size_t tmi_path_without_query(const tenmap_io *io, const char *path) {
    /* Hub and S3 object names are taken literally: a '?' is an ordinary character in them. */
    if (!io || has_scheme(path, "hf://") || has_scheme(path, "s3://"))
        return strlen(path);
    return strcspn(path, "?");
}

static size_t folder_part(const tenmap_io *io, const char *path) {
    size_t len = tmi_path_without_query(io, path);
    if (!io)
        return tmi_folder_part(path);
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len;
}

/* Joins path[0, len), the name, and the path's query. */
static char *join_name(const tenmap_io *io, const char *path, size_t len, const char *name,
                       size_t name_len) {
    const char *tail = path + tmi_path_without_query(io, path);
    char *joined = tmi_join_path(path, len, name, name_len);
    if (!joined || !*tail)
        return joined;
    size_t used = strlen(joined);
    char *whole = realloc(joined, used + strlen(tail) + 1);
    if (whole)
        memcpy(whole + used, tail, strlen(tail) + 1);
    else
        free(joined);
    return whole;
}

/*
 * The name as it must be written in this path: in an http(s) address '%', '?' and '#' are
 * percent-encoded. NULL if memory runs out.
 */
static char *encode_name(const tenmap_io *io, const char *path, const char *name, size_t *len) {
    bool web = io && (has_scheme(path, "http://") || has_scheme(path, "https://"));
    size_t used = 0;
    char *out = *len < SIZE_MAX / 3 ? tmi_calloc(3 * *len + 1, 1) : NULL;
    for (size_t i = 0; out && i < *len; i++) {
        if (web && name[i] && strchr("%?#", name[i]))
            used += (size_t)snprintf(out + used, 4, "%%%02X", (unsigned)(unsigned char)name[i]);
        else
            out[used++] = name[i];
    }
    *len = used;
    return out;
}

char *tmi_path_renamed(const tenmap_io *io, const char *path, const char *name, size_t name_len) {
    return join_name(io, path, folder_part(io, path), name, name_len);
}

char *tmi_path_beside(const tenmap_io *io, const char *path, const char *name, size_t name_len) {
    char *written = encode_name(io, path, name, &name_len);
    char *joined = written ? tmi_path_renamed(io, path, written, name_len) : NULL;
    free(written);
    return joined;
}

char *tmi_path_inside(const tenmap_io *io, const char *folder, const char *name, size_t name_len) {
    char *written = encode_name(io, folder, name, &name_len);
    char *joined =
        written ? join_name(io, folder, tmi_path_without_query(io, folder), written, name_len)
                : NULL;
    free(written);
    return joined;
}

char *tmi_path_folder(const tenmap_io *io, const char *path) {
    return io ? tmi_copy_text(path, folder_part(io, path)) : tmi_folder_of(path);
}

static bool ends_in_separator(const tenmap_io *io, const char *path, size_t len) {
    return io ? path[len - 1] == '/' : tmi_is_separator(path[len - 1]);
}

char *tmi_config_folder(const tenmap_io *io, const char *path, bool is_folder) {
    size_t len = is_folder ? tmi_path_without_query(io, path) : folder_part(io, path), used = len;
    while (used > 1 && ends_in_separator(io, path, used))
        used--;
    if (!io && used > 0 && used < len && path[used - 1] == ':')
        used++; /* the root of a drive keeps its separator */
    return used || io ? tmi_copy_text(path, used) : tmi_copy_text(".", 1);
}

/* The window. */

/*
 * Fills the buffer, bypassing the page cache. Returns false if that does not work now, or never
 * does. Both ends of such a read are aligned, so the buffer may begin before `at`.
 */
static bool fill_direct(tmi_window *w, uint64_t at, size_t size, size_t want) {
    uint64_t begin = at - at % TMI_DIRECT_ALIGN, end = at + want + TMI_DIRECT_ALIGN - 1;
    size_t got, length = (size_t)(end - end % TMI_DIRECT_ALIGN - begin);
    if (length > w->size)
        length = w->size;
    if (tmi_file_read_direct(w->direct_fd, begin, w->buffer, length, &got) != 0) {
        w->direct_fd = -1; /* a buffered read will show whether the file is at fault */
        return false;
    }
    if (got < at + size - begin || tmi_bytes_changed(w->bytes, NULL))
        return false;
    w->at = begin;
    w->end = begin + got;
    return true;
}

/* How many bytes from `at` on the buffer holds and can keep; none while direct reads are in use. */
static size_t buffered_from(const tmi_window *w, uint64_t at) {
    return w->direct_fd < 0 && at >= w->at && at < w->end ? (size_t)(w->end - at) : 0;
}

/*
 * Moves the window to `at`. Bytes that it already holds are kept, because reading them again may
 * cost a network request.
 */
static size_t move_window(tmi_window *w, uint64_t at) {
    size_t held = buffered_from(w, at);
    if (held)
        memmove(w->buffer, w->buffer + (at - w->at), held);
    w->at = at;
    w->end = at + held;
    return held;
}

size_t tmi_window_copy_held(const tmi_window *w, uint64_t at, void *dst, size_t size) {
    size_t held = buffered_from(w, at);
    held = held < size ? held : size;
    if (held)
        memcpy(dst, w->buffer + (at - w->at), held);
    return held;
}

tenmap_status tmi_window_bytes(tmi_window *w, uint64_t at, size_t size, const tenmap_tensor *t,
                               const unsigned char **bytes, tenmap_error *error) {
    if (at < w->at || at + size > w->end) {
        uint64_t left = w->last - at;
        size_t most = w->ahead ? w->size : size, held = move_window(w, at);
        size_t want = left < most ? (size_t)left : most;
        if (w->direct_fd < 0 || !fill_direct(w, at, size, want)) {
            tmi_wanted wanted = {NULL, t};
            tenmap_status status =
                tmi_bytes_read(w->bytes, at + held, w->buffer + held, want - held, wanted, error);
            if (status != TENMAP_OK)
                return status;
            w->end = at + want;
        }
    }
    *bytes = w->buffer + (at - w->at);
    return TENMAP_OK;
}

/* The block size for which the offset and dst have the same alignment; 0 if there is none. */
static size_t common_block_size(const tmi_window *w, uint64_t at, const void *dst) {
    enum { FINE_BLOCK = 512 }; /* most disks can read this; others refuse it */
    uint64_t apart = (uint64_t)(uintptr_t)dst - at;
    if (w->direct_fd < 0)
        return 0;
    if (apart % TMI_DIRECT_ALIGN == 0)
        return TMI_DIRECT_ALIGN;
    return apart % FINE_BLOCK == 0 && !w->coarse ? FINE_BLOCK : 0;
}

bool tmi_window_can_read_direct(const tmi_window *w, uint64_t at, const void *dst) {
    return common_block_size(w, at, dst) > 0;
}

/*
 * Reads whole blocks directly to dst. Returns 0 if that does not work; it is then not tried that
 * way again.
 */
static size_t read_direct(tmi_window *w, uint64_t at, void *dst, size_t size, size_t block) {
    enum { DIRECT_READ_STEP = 4 << 20 };
    size_t got, want = size < DIRECT_READ_STEP ? size - size % block : DIRECT_READ_STEP;
    int failed = tmi_file_read_direct(w->direct_fd, at, dst, want, &got);
    got -= got % block;
    if (failed && block < TMI_DIRECT_ALIGN)
        w->coarse = true;
    else if (failed || got == 0)
        w->direct_fd = -1; /* a buffered read will show whether the file is at fault */
    return failed ? 0 : got;
}

/*
 * Copies a part by way of the buffer, without reading ahead: what follows is read directly, or
 * belongs to another request.
 */
static tenmap_status copy_by_window(tmi_window *w, uint64_t at, void *dst, size_t size,
                                    const tenmap_tensor *t, tenmap_error *error) {
    const unsigned char *bytes;
    bool ahead = w->ahead;
    w->ahead = false;
    tenmap_status status = tmi_window_bytes(w, at, size, t, &bytes, error);
    w->ahead = ahead;
    if (status == TENMAP_OK)
        memcpy(dst, bytes, size);
    return status;
}

tenmap_status tmi_window_copy(tmi_window *w, uint64_t at, void *dst, size_t size,
                              const tenmap_tensor *t, tenmap_error *error) {
    uint64_t first = at, end = at + size;
    unsigned char *to = dst;
    tenmap_status status = TENMAP_OK;
    while (status == TENMAP_OK && at < end) {
        size_t block = common_block_size(w, at, to), left = (size_t)(end - at), done = 0;
        if (block && at % block == 0 && left >= block)
            done = read_direct(w, at, to, left, block);
        if (done == 0) {
            size_t fit = w->size - 2 * (size_t)TMI_DIRECT_ALIGN;
            done = left < fit ? left : fit;
            if (block && done > block - at % block)
                done = block - (size_t)(at % block);
            status = copy_by_window(w, at, to, done, t, error);
        }
        at += done;
        to += done;
    }
    return status == TENMAP_OK ? tmi_bytes_check_unchanged(w->bytes, first, size, t, error)
                               : status;
}

uint64_t tmi_window_fit(const tmi_window *w, tenmap_dtype dtype) {
    size_t space = w->size - (w->direct_fd >= 0 ? 2 * (size_t)TMI_DIRECT_ALIGN : 1);
    const tmi_block_dtype *blocks = tmi_dtype_blocks(dtype);
    if (blocks) /* the first and last block may be needed only in part */
        space -= blocks->bytes;
    return tmi_elements_in(dtype, space);
}
