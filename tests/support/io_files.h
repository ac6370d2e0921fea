/* A tenmap_io over the system's files that can be slow, fail, and count: for tests. */
#ifndef TENMAP_TESTS_IO_FILES_H
#define TENMAP_TESTS_IO_FILES_H

#include "tenmap.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct io_files {
    /* What it is told. */
    unsigned delay_us; /* each read takes at least so long */
    long fail_at;      /* the call of this number, from 1 on, fails; 0: none does */
    tenmap_status fail_with;
    const char *sentence; /* that it fails with; NULL: none */
    const char *strip;    /* what stands behind the path, from '?' on, and is no part of it */
    /* What it saw. */
    atomic_long calls, opened, closed, reads, at_once, most_at_once;
    _Atomic uint64_t bytes, largest;
} io_files;

/* `files` must outlive the models that are opened with it. */
tenmap_io io_files_io(io_files *files);

#endif
