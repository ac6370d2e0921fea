/* A tenmap_io over the system's files for tests, which can be slow, fail, and count calls. */
#ifndef TENMAP_TESTS_IO_FILES_H
#define TENMAP_TESTS_IO_FILES_H

#include "tenmap.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct io_files {
    /* Set by the test. */
    unsigned delay_us; /* each read takes at least this long */
    long fail_at;      /* the number of the call that fails, from 1 on; 0: none */
    tenmap_status fail_with;
    const char *message; /* its message; NULL: none */
    const char *strip;   /* a suffix of paths, from '?' on, that is not part of the file's path */
    /* What happened. */
    atomic_long calls, opened, closed, reads, at_once, most_at_once;
    _Atomic uint64_t bytes, largest;
} io_files;

/* `files` must outlive the models that are opened with it. */
tenmap_io io_files_io(io_files *files);

#endif
