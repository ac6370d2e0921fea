/*
 * A tenmap_io over another one that caches results: whatever a command has opened, listed or not
 * found is remembered until the command ends. A second look at the same model (a check, then an
 * open) costs no request and sees the same version of every file.
 */
#ifndef TOOL_CACHING_IO_H
#define TOOL_CACHING_IO_H

#include <stdbool.h>

#include <tenmap.h>

/* `under` must stay valid until caching_io_free. */
tenmap_io caching_io(const tenmap_io *under);
/* Closes everything that is open. A zeroed tenmap_io is allowed. */
void caching_io_free(tenmap_io *io);
/*
 * Sets whether data that is read is cached too. It is on while models are opened, so that headers
 * are cached.
 */
void caching_io_keep_reads(const tenmap_io *io, bool keep);

/* The file of the io below, for a file that this io opened. */
void *caching_io_file(void *file);

/* Bytes [begin, end) of the file at this path. */
typedef struct announced_range {
    const char *path;
    uint64_t begin, end;
} announced_range;

/*
 * Announces what will be read, in this order, in place of what was announced before: it is read in
 * chunks of MiBs, on up to `threads` threads, ahead of the reads that need it. Files that are not
 * open are ignored. No read may be running.
 */
void caching_io_announce(const tenmap_io *io, const announced_range *ranges, size_t count,
                         unsigned threads);

#endif
