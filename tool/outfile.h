/*
 * A file that appears whole or not at all: written beside its place under another name, then renamed.
 * "-" is stdout; pipes and devices are written directly. All return 0 or an exit code, and have told.
 */
#ifndef TOOL_OUTFILE_H
#define TOOL_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct outfile {
    const char *path;
    char *temporary; /* NULL where the writing is direct */
    int fd;
} outfile;

/* Calls catch_interrupts, so that SIGINT leaves nothing behind. */
int outfile_open(outfile *f, const char *path);
/* EXIT_INTERRUPTED once a signal has arrived. */
int outfile_write(outfile *f, const void *bytes, size_t count);
/* Either of these ends it. A commit that fails leaves nothing behind. */
int outfile_commit(outfile *f);
void outfile_abort(outfile *f);

#endif
