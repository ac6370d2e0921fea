/* Git LFS pointers: what a repository has in the place of a large file. */
#ifndef TOOL_POINTER_H
#define TOOL_POINTER_H

#include <stdint.h>

typedef struct pointer {
    char sha256[65]; /* hexadecimal digits */
    uint64_t size;
} pointer;

/* `where` is the pointer itself, or a folder with one of the file's name. 0 or an exit code. */
int read_pointer(const char *where, const char *file, pointer *out);

#endif
