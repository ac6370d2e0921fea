/*
 * The faults of lying_fs.c, a file system over a folder, and how a test asks for them: through a
 * struct in a file that both have mapped. All zeros makes an honest file system.
 */
#ifndef TENMAP_TESTS_HOSTS_LYING_H
#define TENMAP_TESTS_HOSTS_LYING_H

#include <stdatomic.h>

/* The calls that the kernel makes to the file system. */
enum lying_call {
    LIE_GETATTR,
    LIE_OPEN,
    LIE_CREATE,
    LIE_READ,
    LIE_WRITE,
    LIE_FLUSH, /* at every close */
    LIE_FSYNC,
    LIE_FSYNCDIR,
    LIE_FLOCK,
    LIE_FALLOCATE,
    LIE_TRUNCATE,
    LIE_COPY,
    LIE_RENAME,
    LIE_UNLINK,
    LIE_CHMOD,
    LIE_READDIR,
    LIE_CALLS
};

typedef struct lying {
    struct {
        atomic_int error; /* an errno; 0: the call works */
        atomic_int first; /* the call that fails, from 1 on; 0: every one */
        atomic_int again; /* all calls after that fail too */
        atomic_int count; /* calls so far */
    } call[LIE_CALLS];
    atomic_int read_at_most;   /* bytes; 0: all that were requested */
    atomic_llong size_added;   /* to the size of models, as stat reports it */
    atomic_int true_sizes;     /* answers before the first lie about a size */
    atomic_int same_time;      /* times of modification never change */
    atomic_int direct;         /* bypasses the kernel's cache; then nothing can be mapped shared */
    atomic_int new_inodes;     /* every answer has another inode number */
    atomic_int only_temporary; /* LIE_FLOCK is about names that end in .tmp only */
} lying;

#endif
