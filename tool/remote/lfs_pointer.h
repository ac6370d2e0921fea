/* Reads Git LFS pointers, which stand for large files in a repository. */
#ifndef TOOL_LFS_POINTER_H
#define TOOL_LFS_POINTER_H

#include <stdint.h>

typedef struct lfs_pointer {
    char sha256[65]; /* hexadecimal digits */
    uint64_t size;
} lfs_pointer;

/*
 * `where` is the pointer file, or a folder that contains one with the file's name. Returns 0 or an
 * exit code.
 */
int read_lfs_pointer(const char *where, const char *file, lfs_pointer *out);

#endif
