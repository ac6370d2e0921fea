/* Limits of a process, which Windows does not have: the tests that lower one are left out there. */
#ifndef TENMAP_TESTS_WINDOWS_RESOURCE_H
#define TENMAP_TESTS_WINDOWS_RESOURCE_H

struct rlimit {
    unsigned long rlim_cur, rlim_max;
};
enum { RLIMIT_NOFILE };

static inline int getrlimit(int what, struct rlimit *limit) {
    (void)what, (void)limit;
    return -1;
}

static inline int setrlimit(int what, const struct rlimit *limit) {
    (void)what, (void)limit;
    return -1;
}

#endif
