/*
 * Opens files that the tool reads without the library, and tells which files are models or belong
 * to one.
 */
#ifndef TOOL_MODEL_FILES_H
#define TOOL_MODEL_FILES_H

#include <stdbool.h>
#include <sys/stat.h>

#include <tenmap.h>

/*
 * Opens a regular file for reading. A FIFO or a device is refused at once, without blocking.
 * Returns 0 and a descriptor, or an exit code after printing an error.
 */
int open_regular(const char *path, int *fd);

/* "a folder", "a FIFO", "a socket", "a device"; NULL for a regular file. */
const char *irregular_kind(const struct stat *found);

/*
 * Whether a file in an open folder begins as torch.save writes files. It may be another archive or
 * pickle.
 */
bool begins_as_checkpoint(int folder, const char *name);

/*
 * Whether this is one of the files that the model was opened from, under any name: a shard or the
 * index. `model` may be NULL.
 */
bool is_file_of(const tenmap_model *model, const struct stat *found);

#endif
