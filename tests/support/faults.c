#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

fault_state faults = {.kill_at = -1, .error_at = -1, .meanwhile_at = -1, .wander_at = -1};

/* Provided by the linker: calls of x go to __wrap_x, and __real_x is the original. */
int __real_open64(const char *path, int flags, ...);
int __real_openat64(int folder, const char *path, int flags, ...);
ssize_t __real_pwrite64(int fd, const void *src, size_t size, off64_t offset);
int __real_fallocate64(int fd, int mode, off64_t offset, off64_t size);
int __real_ftruncate64(int fd, off64_t size);
ssize_t __real_copy_file_range(int from, off64_t *in, int to, off64_t *out, size_t size,
                               unsigned flags);
int __real_fsync(int fd);
int __real_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __real_unlinkat(int folder, const char *path, int flags);
int __real_unlink(const char *path);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_openat64(int folder, const char *path, int flags, ...);
ssize_t __wrap_pwrite64(int fd, const void *src, size_t size, off64_t offset);
int __wrap_fallocate64(int fd, int mode, off64_t offset, off64_t size);
int __wrap_ftruncate64(int fd, off64_t size);
ssize_t __wrap_copy_file_range(int from, off64_t *in, int to, off64_t *out, size_t size,
                               unsigned flags);
int __wrap_fsync(int fd);
int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __wrap_unlinkat(int folder, const char *path, int flags);
int __wrap_unlink(const char *path);

void faults_reset(void) {
    bool real_sync = faults.real_sync;
    for (size_t i = 0; i < faults.event_count; i++)
        free(faults.events[i].data);
    memset(&faults, 0, sizeof faults);
    faults.kill_at = faults.error_at = faults.meanwhile_at = faults.wander_at = -1;
    faults.real_sync = real_sync;
}

static void die(void) {
    kill(getpid(), SIGKILL);
}

/* Simulates another thread that changes the working directory between two calls. */
static void wander(void) {
    if (faults.armed && faults.steps++ == faults.wander_at && chdir(faults.elsewhere) != 0)
        abort();
}

/*
 * Counts a call. True if it must fail, with errno set. *last: the process dies in the middle of it.
 */
static bool meet(bool *last) {
    *last = false;
    if (!faults.armed)
        return false;
    wander();
    long number = faults.count++;
    if (number == faults.meanwhile_at) {
        faults.armed = false;
        faults.meanwhile();
        faults.armed = true;
    }
    *last = number == faults.kill_at;
    if (number != faults.error_at)
        return false;
    errno = faults.error;
    return true;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static fault_event *record(enum fault_call call, int fd) {
    static fault_event overflow;
    struct stat st;
    if (!faults.armed || !faults.recording || faults.event_count == FAULT_MOST_EVENTS)
        return &overflow;
    fault_event *e = &faults.events[faults.event_count++];
    e->call = call;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        e->inode = st.st_ino;
        e->mode = st.st_mode & 0777;
        if (call == FAULT_SYNC && S_ISDIR(st.st_mode))
            e->call = FAULT_SYNC_FOLDER;
    }
    return e;
}

static void record_write(int fd, uint64_t offset, const void *src, size_t size) {
    if (!faults.armed || !faults.recording)
        return;
    fault_event *e = record(FAULT_WRITE, fd);
    e->offset = offset;
    e->size = size;
    e->data = malloc(size + 1);
    memcpy(e->data, src, size);
}

static void opening(int flags, bool before) {
    if (faults.opening && (flags & O_ACCMODE) == O_RDWR && !(flags & O_CREAT))
        faults.opening(before);
}

int __wrap_open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    va_list args;
    va_start(args, flags);
    if (flags & O_CREAT)
        mode = va_arg(args, mode_t);
    va_end(args);
    opening(flags, true);
    int fd = __real_open64(path, flags, mode);
    opening(flags, false);
    wander();
    return fd;
}

int __wrap_openat64(int folder, const char *path, int flags, ...) {
    mode_t mode = 0;
    bool last = false, creates = flags & O_CREAT;
    va_list args;
    va_start(args, flags);
    if (creates)
        mode = va_arg(args, mode_t);
    va_end(args);
    if (creates && meet(&last))
        return -1;
    opening(flags, true);
    int fd = __real_openat64(folder, path, flags, mode);
    opening(flags, false);
    if (fd >= 0 && creates)
        strcpy(record(FAULT_CREATE, fd)->name, last_part(path));
    if (!creates)
        wander();
    if (last)
        die();
    return fd;
}

ssize_t __wrap_pwrite64(int fd, const void *src, size_t size, off64_t offset) {
    bool last;
    static unsigned turn;
    if (meet(&last))
        return -1;
    if (last) {
        (void)!__real_pwrite64(fd, src, size / 2, offset);
        die();
    }
    if (faults.armed && faults.short_writes) {
        if (turn++ % 2) {
            errno = EINTR;
            return -1;
        }
        size = size > 3 ? size / 3 + 1 : size;
    }
    ssize_t n = __real_pwrite64(fd, src, size, offset);
    if (n > 0)
        record_write(fd, (uint64_t)offset, src, (size_t)n);
    return n;
}

int __wrap_fallocate64(int fd, int mode, off64_t offset, off64_t size) {
    bool last;
    if (meet(&last))
        return -1;
    int got = __real_fallocate64(fd, mode, offset, size);
    if (got == 0)
        record(FAULT_RESIZE, fd)->size = (uint64_t)(offset + size);
    if (last)
        die();
    return got;
}

int __wrap_ftruncate64(int fd, off64_t size) {
    bool last;
    if (meet(&last))
        return -1;
    int got = __real_ftruncate64(fd, size);
    if (got == 0)
        record(FAULT_RESIZE, fd)->size = (uint64_t)size;
    if (last)
        die();
    return got;
}

ssize_t __wrap_copy_file_range(int from, off64_t *in, int to, off64_t *out, size_t size,
                               unsigned flags) {
    bool last;
    if (meet(&last))
        return -1;
    if (last || (faults.armed && faults.short_writes))
        size = size > 3 ? size / 3 + 1 : size;
    off64_t at = *in, to_at = *out;
    ssize_t n = __real_copy_file_range(from, in, to, out, size, flags);
    if (last)
        die();
    if (n > 0 && faults.armed && faults.recording) {
        char *bytes = malloc((size_t)n);
        (void)!pread(from, bytes, (size_t)n, at);
        record_write(to, (uint64_t)to_at, bytes, (size_t)n);
        free(bytes);
    }
    return n;
}

int __wrap_fsync(int fd) {
    bool last;
    if (meet(&last))
        return -1;
    if (last)
        die();
    record(FAULT_SYNC, fd);
    return faults.real_sync ? __real_fsync(fd) : 0;
}

int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to) {
    bool last;
    if (meet(&last))
        return -1;
    int got = __real_renameat(from_folder, from, to_folder, to);
    if (got == 0) {
        fault_event *e = record(FAULT_RENAME, -1);
        strcpy(e->name, last_part(from));
        strcpy(e->to, last_part(to));
    }
    if (last)
        die();
    return got;
}

int __wrap_unlinkat(int folder, const char *path, int flags) {
    bool last;
    if (meet(&last))
        return -1;
    int got = __real_unlinkat(folder, path, flags);
    if (got == 0)
        strcpy(record(FAULT_UNLINK, -1)->name, last_part(path));
    if (last)
        die();
    return got;
}

int __wrap_unlink(const char *path) {
    bool last;
    if (meet(&last))
        return -1;
    int got = __real_unlink(path);
    if (got == 0)
        strcpy(record(FAULT_UNLINK, -1)->name, last_part(path));
    if (last)
        die();
    return got;
}
