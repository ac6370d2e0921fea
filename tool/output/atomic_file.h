/*
 * Writes a file atomically: to a temporary file in the same folder, which is then renamed. Writing
 * the next file to a folder removes the temporary files that killed commands left there. "-" and
 * /dev/stdout mean stdout, whatever it is; any other path must be a regular file or not exist. All
 * functions return 0, or an exit code after printing an error.
 */
#ifndef TOOL_ATOMIC_FILE_H
#define TOOL_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

typedef struct atomic_file {
    const char *path;
    char *temporary; /* NULL when writing directly to stdout */
    int fd;
    bool force; /* an existing file may be replaced */
} atomic_file;

bool is_stdout(const char *path);
/*
 * Refuses to overwrite a file of one of the `count` models (NULL: none) always, and any other file
 * without `force`. Also refuses anything that is not a regular file, such as a folder or a device.
 */
int atomic_file_check(const char *path, bool force, const tenmap_model *const *models,
                      size_t count);

/* Call after atomic_file_check. Calls catch_interrupts, so that SIGINT leaves nothing behind. */
int atomic_file_open(atomic_file *f, const char *path, bool force);
/* Returns EXIT_INTERRUPTED once a signal has arrived. */
int atomic_file_write(atomic_file *f, const void *bytes, size_t count);
/* Both end the file. A commit that fails leaves nothing behind. */
int atomic_file_commit(atomic_file *f);
void atomic_file_abort(atomic_file *f);

#endif
