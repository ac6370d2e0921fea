/* Files that the tool opens itself, without the library, and which files a model is made of. */
#ifndef TOOL_INFILE_H
#define TOOL_INFILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include <tenmap.h>

/*
 * Opens a regular file for reading; a FIFO or a device is refused at once, not waited for. 0 and a
 * descriptor, or an exit code, and it has told.
 */
int open_regular(const char *path, int *fd);

/* "a folder", "a FIFO", "a socket", "a device"; NULL for a regular file. */
const char *irregular_kind(const struct stat *found);

/*
 * Whether this is one of the files that the model was opened from, under whatever name: a shard or the
 * index. `model` may be NULL.
 */
bool is_file_of(const tenmap_model *model, const struct stat *found);

#endif
