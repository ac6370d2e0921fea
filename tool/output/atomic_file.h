/*
 * A file that appears whole or not at all: written beside its place under another name, then renamed.
 * What a command that was killed left under such a name goes when the next file is written there.
 * "-" and /dev/stdout are stdout, whatever that is; all else is a regular file or absent. All return 0
 * or an exit code, and have told.
 */
#ifndef TOOL_OUTFILE_H
#define TOOL_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

typedef struct outfile {
    const char *path;
    char *temporary; /* NULL where the writing is direct */
    int fd;
    bool force; /* what is there may be replaced */
} outfile;

bool outfile_is_stdout(const char *path);
/*
 * Refuses what must not be lost: a file of one of the `count` models (NULL: none) ever, any other file
 * without `force`; and what is no file, as a folder or a device.
 */
int outfile_check(const char *path, bool force, const tenmap_model *const *models, size_t count);

/* After a check. Calls catch_interrupts, so that SIGINT leaves nothing behind. */
int outfile_open(outfile *f, const char *path, bool force);
/* EXIT_INTERRUPTED once a signal has arrived. */
int outfile_write(outfile *f, const void *bytes, size_t count);
/* Either of these ends it. A commit that fails leaves nothing behind. */
int outfile_commit(outfile *f);
void outfile_abort(outfile *f);

#endif
