/* What SHA-256 a file should have, as --verify is told. */
#ifndef TOOL_EXPECTED_DIGEST_H
#define TOOL_EXPECTED_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "remote/lfs_pointer.h"

/* Size of an expectation that does not include one. */
#define ANY_SIZE UINT64_MAX

/* Whether this names what to expect of several files: a folder, a hub's folder, sums, the cache. */
bool expects_several(const char *where);

/*
 * `where` is a digest; "cache", for files whose names in a hub's cache are their digests; an
 * address on a hub, of the file or of its folder; a Git LFS pointer, or a folder of them; or a file
 * as sha256sum writes it. Returns 0 or an exit code.
 */
int read_expected(const char *where, const char *file, lfs_pointer *out);

/* A file, and what it should be. */
typedef struct expected_file {
    char *name;
    lfs_pointer want;
} expected_file;

/*
 * Reads a list that sha256sum wrote. The caller frees each name, and the array. Returns 0 or an
 * exit code.
 */
int read_sums(const char *where, expected_file **files, size_t *count);

#endif
