/*
 * Writes a file atomically: to a temporary file in the same folder, which is then renamed. Writing
 * the next file to a folder removes the temporary files that killed commands left there. "-" and
 * /dev/stdout mean stdout, whatever it is; any other path must be a regular file or not exist. All
 * functions return 0, or an exit code after printing an error.
 */
#ifndef TOOL_OUTFILE_H
#define TOOL_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

typedef struct outfile {
    const char *path;
    char *temporary; /* NULL when writing directly to stdout */
    int fd;
    bool force; /* an existing file may be replaced */
} outfile;

bool outfile_is_stdout(const char *path);
/*
 * Refuses to overwrite a file of one of the `count` models (NULL: none) always, and any other file
 * without `force`. Also refuses anything that is not a regular file, such as a folder or a device.
 */
int outfile_check(const char *path, bool force, const tenmap_model *const *models, size_t count);

/* Call after outfile_check. Calls catch_interrupts, so that SIGINT leaves nothing behind. */
int outfile_open(outfile *f, const char *path, bool force);
/* Returns EXIT_INTERRUPTED once a signal has arrived. */
int outfile_write(outfile *f, const void *bytes, size_t count);
/* Both end the file. A commit that fails leaves nothing behind. */
int outfile_commit(outfile *f);
void outfile_abort(outfile *f);

#endif
