/*
 * MemorySanitizer of clang 14 does not know that these calls of newer C libraries write their
 * results. The linker redirects the calls to these functions (scripts/msan.sh).
 */
#define _GNU_SOURCE
#include <sanitizer/msan_interface.h>
#include <sys/stat.h>

#define STAT_CALL(name, type, parameters, arguments)                                               \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters {                                                                 \
        int failed = __real_##name arguments;                                                      \
        if (!failed)                                                                               \
            __msan_unpoison(st, sizeof(type));                                                     \
        return failed;                                                                             \
    }

STAT_CALL(fstat, struct stat, (int fd, struct stat *st), (fd, st))
STAT_CALL(stat, struct stat, (const char *path, struct stat *st), (path, st))
STAT_CALL(lstat, struct stat, (const char *path, struct stat *st), (path, st))
STAT_CALL(fstatat, struct stat, (int fd, const char *path, struct stat *st, int flags),
          (fd, path, st, flags))
STAT_CALL(fstat64, struct stat64, (int fd, struct stat64 *st), (fd, st))
STAT_CALL(stat64, struct stat64, (const char *path, struct stat64 *st), (path, st))
STAT_CALL(lstat64, struct stat64, (const char *path, struct stat64 *st), (path, st))
STAT_CALL(fstatat64, struct stat64, (int fd, const char *path, struct stat64 *st, int flags),
          (fd, path, st, flags))
