/*
 * Reads the ranges of files that a command has announced: in chunks of MiBs, several at a time and
 * ahead of the command, whatever the size and order of its own reads. Nothing outside of these
 * ranges is read, except for small gaps between them.
 */
#ifndef TOOL_READ_AHEAD_H
#define TOOL_READ_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

typedef struct read_ahead read_ahead;

/* Bytes [begin, end) of a file of the io. */
typedef struct planned_range {
    void *file;
    uint64_t begin, end;
} planned_range;

/*
 * Begins to read the ranges, which are in the order in which they will be needed, on up to
 * `threads` threads. `io` and the files stay open until read_ahead_free. The ranges are sorted.
 */
read_ahead *read_ahead_new(const tenmap_io *io, planned_range *ranges, size_t count,
                           unsigned threads);
/* Waits for the reads that are running. NULL is allowed. */
void read_ahead_free(read_ahead *ahead);

/*
 * Copies to dst the leading bytes of the range that one chunk holds, and sets *served to how many.
 * 0: it begins outside of all chunks. Any thread may call it.
 */
tenmap_status read_ahead_serve(read_ahead *ahead, const planned_range *wanted, void *dst,
                               size_t *served, tenmap_error *error);

#endif
