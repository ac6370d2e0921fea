/* Reads Git LFS pointers, which stand for large files in a repository. */
#ifndef TOOL_POINTER_H
#define TOOL_POINTER_H

#include <stdint.h>

typedef struct pointer {
    char sha256[65]; /* hexadecimal digits */
    uint64_t size;
} pointer;

/*
 * `where` is the pointer file, or a folder that contains one with the file's name. Returns 0 or an
 * exit code.
 */
int read_pointer(const char *where, const char *file, pointer *out);

#endif
