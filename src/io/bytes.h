/*
 * Sources of bytes: memory, a file of the system (mapped, read, or read bypassing the page cache),
 * or an object of the caller's tenmap_io. One window type moves over all of them. A caller asks for
 * bytes and gets them, or an error message.
 */
#ifndef TENMAP_BYTES_H
#define TENMAP_BYTES_H

#include "../os/os.h"

/* One readable source. Starts as TMI_NO_BYTES; end it with tmi_bytes_close. */
typedef struct tmi_bytes {
    tmi_file file;       /* size and kind are always valid; fd is -1 except for files */
    const tenmap_io *io; /* the caller's, which `object` belongs to; NULL for files of the system */
    void *object;
    const char *shown; /* the path for error messages, borrowed */
    /*
     * Users of the file read-lock it; closing the file, once memory has replaced it, write-locks.
     */
    tmi_rwlock file_lock;
} tmi_bytes;

#define TMI_NO_BYTES                                                                               \
    {                                                                                              \
        .file = {.fd = -1 }                                                                        \
    }

/*
 * What the bytes are for, as error messages say it. The bytes of a tensor must be unchanged since
 * the file was opened.
 */
typedef struct tmi_wanted {
    const char *what;            /* "the header", "the index"; ignored if there is a tensor */
    const tenmap_tensor *tensor; /* or NULL */
} tmi_wanted;

/*
 * Opens `path`; an error message calls it `what` ("it", "the shard"). A folder opens as
 * TMI_FILE_FOLDER. `path` must live as long as the bytes do.
 */
tenmap_status tmi_bytes_open(tmi_bytes *bytes, const tenmap_io *io, const char *path,
                             const char *what, tenmap_error *error);
void tmi_bytes_close(tmi_bytes *bytes);
/*
 * Returns an error unless the source is a regular file: for a folder, a pipe, a socket or a device.
 */
tenmap_status tmi_bytes_expect_file(const tmi_bytes *bytes, tenmap_error *error);

/*
 * Code that uses bytes->file directly must hold this read lock meanwhile. Otherwise another thread
 * may close the descriptor, once memory has replaced the whole mapping.
 */
void tmi_bytes_lock(const tmi_bytes *bytes);
void tmi_bytes_unlock(const tmi_bytes *bytes);
/* Calls tmi_file_changed under this lock. Always false for an object of a tenmap_io. */
bool tmi_bytes_changed(const tmi_bytes *bytes, uint64_t *size_now);

/*
 * Reads exactly [offset, offset+size). Returns TENMAP_ERR_IO, with the numbers in the message, if
 * the source is shorter or, for a tensor, has changed since it was opened. An error message from
 * the caller's tenmap_io is passed on unchanged.
 */
tenmap_status tmi_bytes_read(const tmi_bytes *bytes, uint64_t offset, void *dst, size_t size,
                             tmi_wanted wanted, tenmap_error *error);
/*
 * Checks that these bytes of a tensor, which were read some other way before this call, are those
 * of the file as it was opened. Returns TENMAP_ERR_IO if the file has changed since.
 */
tenmap_status tmi_bytes_check_unchanged(const tmi_bytes *bytes, uint64_t offset, uint64_t size,
                                        const tenmap_tensor *tensor, tenmap_error *error);
/*
 * A good window size for this source: what the caller's tenmap_io prefers, otherwise `otherwise`.
 */
size_t tmi_bytes_window_size(const tmi_bytes *bytes, size_t otherwise);

/*
 * Calls `entry` with each name in the folder; stops early if it returns false. Returns
 * TENMAP_ERR_NOT_FOUND if the path is not a folder, or if the tenmap_io cannot list.
 */
tenmap_status tmi_bytes_list(const tenmap_io *io, const char *path,
                             bool (*entry)(void *ctx, const char *name), void *ctx,
                             tenmap_error *error);
/*
 * The path of a file in the same folder as another, or inside a folder; NULL if memory runs out.
 * With a tenmap_io, everything from a '?' on stays after the name, and the name is percent-encoded
 * in http(s) addresses.
 */
char *tmi_path_beside(const tenmap_io *io, const char *path, const char *name, size_t name_len);
char *tmi_path_inside(const tenmap_io *io, const char *folder, const char *name, size_t name_len);
/* Like tmi_path_beside, for a name taken from a path: it is not encoded again. */
char *tmi_path_renamed(const tenmap_io *io, const char *path, const char *name, size_t name_len);
/* The length of the path without its query, which is everything from a '?' on in an address. */
size_t tmi_path_without_query(const tenmap_io *io, const char *path);
/* The folder that contains `path`, the current one if it names none; NULL if memory runs out. */
char *tmi_path_folder(const tenmap_io *io, const char *path);

/*
 * The folder that holds a model's other files, as callers see it: without a trailing '/' and
 * without a query. NULL if memory runs out.
 */
char *tmi_config_folder(const tenmap_io *io, const char *path, bool is_folder);

/* A window that moves forward over a source. */
typedef struct tmi_window {
    const tmi_bytes *bytes;
    int direct_fd;         /* reads through it bypass the page cache; -1: none */
    unsigned char *buffer; /* NULL: there is no buffer, and bytes in memory are used in place */
    size_t size;           /* size of the buffer */
    uint64_t at, end;      /* the offsets of the bytes in the buffer */
    uint64_t last;         /* no byte at or after this offset will be requested */
    bool ahead;            /* bytes after the requested ones are worth reading too */
    bool coarse;           /* direct reads in blocks smaller than TMI_DIRECT_ALIGN were refused */
} tmi_window;

/* *bytes points to [at, at+size) in the buffer. size is at most what tmi_window_fit allows. */
tenmap_status tmi_window_bytes(tmi_window *window, uint64_t at, size_t size,
                               const tenmap_tensor *tensor, const unsigned char **bytes,
                               tenmap_error *error);
/*
 * Copies to dst the leading bytes of [at, at+size) that the buffer already holds; returns how many.
 */
size_t tmi_window_copy_held(const tmi_window *window, uint64_t at, void *dst, size_t size);
/*
 * Whether a read from `at` that bypasses the page cache can go directly to dst: the offset and the
 * address must have the same position within a disk block. tmi_window_copy then reads directly,
 * except for the ends that do not fill whole blocks.
 */
bool tmi_window_can_read_direct(const tmi_window *window, uint64_t at, const void *dst);
tenmap_status tmi_window_copy(tmi_window *window, uint64_t at, void *dst, size_t size,
                              const tenmap_tensor *tensor, tenmap_error *error);
/* How many elements are certain to fit, wherever they start: a multiple of 8. */
uint64_t tmi_window_fit(const tmi_window *window, tenmap_dtype dtype);

#endif
