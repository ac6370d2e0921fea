/*
 * Opens a truncated file as if it were whole, so that its tensors can be listed. What is cut off
 * reads as zeros, so nothing may use the values.
 */
#ifndef TOOL_TRUNCATED_FILE_H
#define TOOL_TRUNCATED_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

/* How much of a file is there; all zeros: the file is not truncated. */
typedef struct truncated_file {
    uint64_t size, whole_size; /* in bytes: what is there, and what the header asks for */
} truncated_file;

/*
 * Whether `path` is a truncated file on a disk whose header is complete. If so, opens it with the
 * given options and fills *cut. Prints nothing.
 */
bool open_truncated(const char *path, const tenmap_options *options, truncated_file *cut,
                    tenmap_model **out);
/* How many of the tensor's bytes are in the file. */
uint64_t bytes_there(const truncated_file *cut, const tenmap_tensor *t);

#endif
