/*
 * tenmap: read models that are not files of this system, through functions of the caller
 * (options.io in read.h). The opening comment of tenmap.h says what holds for all calls.
 */
#ifndef TENMAP_INCLUDE_IO_H
#define TENMAP_INCLUDE_IO_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Bytes that are not files of this system: an archive, a network, an engine's own VFS. All four
 * functions may be called from any thread, several at a time. A path is the one given to
 * tenmap_open, or that path with a shard's name in place of what is between the last '/' and the
 * first '?'; the '?' and what follows it are kept. After http:// or https:// a '%', '?' or '#' in
 * the name is percent-encoded; after hf:// or s3:// a '?' is an ordinary character.
 *
 * `error` is never NULL and starts empty. A function that fails writes its own message there, which
 * reaches the caller unchanged, and returns a TENMAP_ERR_*.
 */
typedef struct tenmap_io {
    size_t struct_size; /* sizeof(tenmap_io): lets the struct grow */
    /* TENMAP_ERR_NOT_FOUND if `path` names nothing. *size in bytes; *file is for read and close. */
    tenmap_status (*open)(void *ctx, const char *path, void **file, uint64_t *size,
                          tenmap_error *error);
    /*
     * Reads exactly these bytes, inside the size that open gave, or fails: with TENMAP_ERR_IO if
     * the object has changed since it was opened, because the library has no other way to know.
     */
    tenmap_status (*read)(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                          tenmap_error *error);
    /* Called once for each successful open, when no read of that file is running. */
    void (*close)(void *ctx, void *file);
    /*
     * Calls `entry` with each name (at most 1,024 bytes) in the folder `path`, and ends early with
     * TENMAP_OK if that returns nonzero. TENMAP_ERR_NOT_FOUND if `path` is not a folder. Called
     * when open did not find the path. May be NULL: then no folder can be opened.
     */
    tenmap_status (*list)(void *ctx, const char *path,
                          int (*entry)(void *entry_ctx, const char *name), void *entry_ctx,
                          tenmap_error *error);
    void *ctx;                /* passed to all of them */
    uint64_t preferred_bytes; /* a good size for one read; 0: the library chooses */
    uint64_t reserved[4];     /* 0 */
} tenmap_io;

#define TENMAP_IO_INIT                                                                             \
    {                                                                                              \
        sizeof(tenmap_io), 0, 0, 0, 0, 0, 0, {                                                     \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

#ifdef __cplusplus
}
#endif

#endif
