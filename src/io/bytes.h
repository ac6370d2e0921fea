/*
 * Where bytes come from: memory, a file of the system, mapped or read, around its cache or through
 * it, or an object of the caller's tenmap_io; and one window that moves over all of them. Whoever
 * stands on this asks for bytes and gets them, or a sentence.
 */
#ifndef TENMAP_BYTES_H
#define TENMAP_BYTES_H

#include "../os/os.h"

/* One thing that can be read. Starts as TMI_NO_BYTES; end it with tmi_bytes_close. */
typedef struct tmi_bytes {
    tmi_file file;       /* its size and kind hold for all; its descriptor is -1 but for files */
    const tenmap_io *io; /* the caller's, which `object` belongs to; NULL for the system's files */
    void *object;
    const char *shown; /* the path for errors, borrowed */
    tmi_rwlock
        gate; /* inside: who uses the file; alone: who closes it when memory took its place */
} tmi_bytes;

#define TMI_NO_BYTES                                                                               \
    {                                                                                              \
        .file = {.fd = -1 }                                                                        \
    }

/* What bytes are wanted for, as errors say it. Those of a tensor must be as they were opened. */
typedef struct tmi_wanted {
    const char *what;            /* "the header", "the index"; for a tensor it is not looked at */
    const tenmap_tensor *tensor; /* or NULL */
} tmi_wanted;

/*
 * Opens what `path` names, which `what` ("it", "the shard") is in an error. A folder opens as
 * TMI_FILE_FOLDER. `path` must live as long as the bytes do.
 */
tenmap_status tmi_bytes_open(tmi_bytes *bytes, const tenmap_io *io, const char *path,
                             const char *what, tenmap_error *error);
void tmi_bytes_close(tmi_bytes *bytes);
/* Refuses what is open but no file: a folder, a pipe, a socket, a device. */
tenmap_status tmi_bytes_expect_file(const tmi_bytes *bytes, tenmap_error *error);

/*
 * Who uses bytes->file itself is inside meanwhile: its descriptor may be closed at another time, when
 * all that was mapped is memory.
 */
void tmi_bytes_enter(const tmi_bytes *bytes);
void tmi_bytes_leave(const tmi_bytes *bytes);
/* tmi_file_changed, from inside. */
bool tmi_bytes_changed(const tmi_bytes *bytes, uint64_t *size_now);

/*
 * Reads exactly [offset, offset+size). TENMAP_ERR_IO with the numbers if it is shorter or, for a
 * tensor, has changed since it was opened. What the caller's tenmap_io says is kept as it is.
 */
tenmap_status tmi_bytes_read(const tmi_bytes *bytes, uint64_t offset, void *dst, size_t size,
                             tmi_wanted wanted, tenmap_error *error);
/*
 * Whether these bytes of a tensor, which were read in another way before this call, are those that
 * were opened: TENMAP_ERR_IO if the file has changed since.
 */
tenmap_status tmi_bytes_check_unchanged(const tmi_bytes *bytes, uint64_t offset, uint64_t size,
                                        const tenmap_tensor *tensor, tenmap_error *error);
/* A good size for windows on these bytes: what the caller's tenmap_io prefers, else `otherwise`. */
size_t tmi_bytes_window_size(const tmi_bytes *bytes, size_t otherwise);

/*
 * Calls `entry` with each name in the folder; stops early if it returns false. NOT_FOUND if it is no
 * folder, or cannot be listed.
 */
tenmap_status tmi_bytes_list(const tenmap_io *io, const char *path,
                             bool (*entry)(void *ctx, const char *name), void *ctx,
                             tenmap_error *error);
/*
 * The paths of files beside another and in a folder; NULL without memory. For a tenmap_io what
 * stands from a '?' on stays behind the name, and an address of the web has the name encoded.
 */
char *tmi_path_beside(const tenmap_io *io, const char *path, const char *name, size_t name_len);
char *tmi_path_inside(const tenmap_io *io, const char *folder, const char *name, size_t name_len);
/* Likewise beside another, where the name was taken from the path and is written as it is there. */
char *tmi_path_renamed(const tenmap_io *io, const char *path, const char *name, size_t name_len);
/* How much of a path is its own, without what an address has from a '?' on. */
size_t tmi_path_without_query(const tenmap_io *io, const char *path);
/* The folder that `path` is in, the current one where it names none; NULL without memory. */
char *tmi_path_folder(const tenmap_io *io, const char *path);

/*
 * The folder where what belongs to a model lies, as callers see it: without a '/' at its end, and
 * without what an address has from a '?' on. NULL without memory.
 */
char *tmi_config_folder(const tenmap_io *io, const char *path, bool is_folder);

/* A window that moves forward over the bytes. */
typedef struct tmi_window {
    const tmi_bytes *bytes;
    int direct_fd;       /* reads around the page cache, where it is not -1 */
    unsigned char *room; /* NULL: there is none, and what is in memory is used where it lies */
    size_t size;         /* of the room */
    uint64_t at, end;    /* which bytes the room holds */
    uint64_t last;       /* no byte at or behind this one will be wanted */
    bool ahead;          /* what lies behind the bytes that are wanted is worth reading with them */
    bool coarse;         /* direct reads of less than TMI_DIRECT_ALIGN were refused */
} tmi_window;

/* *bytes are [at, at+size) in the room, size at most what tmi_window_fit allows. */
tenmap_status tmi_window_bytes(tmi_window *window, uint64_t at, size_t size,
                               const tenmap_tensor *tensor, const unsigned char **bytes,
                               tenmap_error *error);
/* Copies the first of [at, at+size), those that the room holds already, to dst; returns how many. */
size_t tmi_window_take(const tmi_window *window, uint64_t at, void *dst, size_t size);
/*
 * Whether bytes from `at` on, read around the page cache, can come straight to dst: both lie alike in a
 * block of the disk. tmi_window_copy then does so, but for the ends that are no whole blocks.
 */
bool tmi_window_agrees(const tmi_window *window, uint64_t at, const void *dst);
tenmap_status tmi_window_copy(tmi_window *window, uint64_t at, void *dst, size_t size,
                              const tenmap_tensor *tensor, tenmap_error *error);
/* How many elements surely fit, wherever they start: a multiple of 8. */
uint64_t tmi_window_fit(const tmi_window *window, tenmap_dtype dtype);

#endif
