/*
 * Files, mappings, folders and threads on POSIX, with extensions of Linux and macOS. file_win32.c
 * is the Windows version.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "os.h"

#ifndef _WIN32

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22 /* Linux 5.14; older kernels return EINVAL */
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifdef __APPLE__
#define ST_MTIME st_mtimespec
#define ST_CTIME st_ctimespec
#else
#define ST_MTIME st_mtim
#define ST_CTIME st_ctim
#endif

static void store_stat(tmi_file *file, const struct stat *st) {
    file->size = (uint64_t)st->st_size;
    file->mtime[0] = st->ST_MTIME.tv_sec;
    file->mtime[1] = st->ST_MTIME.tv_nsec;
    file->ctime[0] = st->ST_CTIME.tv_sec;
    file->ctime[1] = st->ST_CTIME.tv_nsec;
}

static int classify(tmi_file *file, int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    file->kind = S_ISREG(st.st_mode)   ? TMI_FILE_REGULAR
                 : S_ISDIR(st.st_mode) ? TMI_FILE_FOLDER
                                       : TMI_FILE_OTHER;
    store_stat(file, &st);
    file->fd = fd;
    return 0;
}

/*
 * O_NONBLOCK keeps a pipe without a writer from blocking the open. It has no effect on regular
 * files, the only ones kept open, and is cleared again for callers who use the descriptor.
 */
static int open_from(tmi_file *file, int folder, const char *path) {
    *file = (tmi_file){.fd = -1};
    int fd;
    do
        fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return errno;
    int failed = classify(file, fd);
    if (failed || file->kind != TMI_FILE_REGULAR) {
        close(fd);
        file->fd = -1;
        return failed;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return 0;
}

int tmi_file_open(tmi_file *file, const char *path) {
    return open_from(file, AT_FDCWD, path);
}

int tmi_file_open_in(tmi_file *file, const tmi_folder *folder, const char *name) {
    return open_from(file, folder->fd, name);
}

int tmi_file_dup(tmi_file *file, int fd) {
    *file = (tmi_file){.fd = -1};
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return errno;
    int failed = classify(file, copy);
    if (failed || file->kind != TMI_FILE_REGULAR) {
        close(copy);
        file->fd = -1;
    }
    return failed;
}

void tmi_file_unmap(tmi_file *file) {
    if (file->map)
        munmap(file->map, file->map_size);
    file->map = NULL;
}

void tmi_file_close(tmi_file *file) {
    tmi_file_unmap(file);
    if (file->fd >= 0)
        close(file->fd);
    *file = (tmi_file){.fd = -1};
}

int tmi_fd_read(int fd, uint64_t offset, void *dst, size_t size, size_t *got) {
    ssize_t n;
    do
        n = pread(fd, dst, size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    *got = n < 0 ? 0 : (size_t)n;
    return n < 0 ? errno : 0;
}

int tmi_file_map(tmi_file *file, uint64_t offset, uint64_t size, const unsigned char **base) {
    if (file->memory) {
        *base = file->memory + offset;
        return 0;
    }
    uint64_t before = offset % tmi_page_size();
    if (size > SIZE_MAX - before || size + before > PTRDIFF_MAX)
        return ENOMEM;
    size_t length = (size_t)(size + before);
    /* Without NORESERVE, the system may refuse a private mapping larger than its memory. */
    int access = file->copy_on_write ? PROT_READ | PROT_WRITE : PROT_READ;
    int kind = file->copy_on_write ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
    void *map = mmap(NULL, length, access, kind, file->fd, (off_t)(offset - before));
    if (map == MAP_FAILED)
        return errno;
    file->map = map;
    file->map_size = length;
    file->map_offset = offset - before;
    *base = (const unsigned char *)map + before;
    return 0;
}

bool tmi_file_changed(const tmi_file *file, uint64_t *size_now) {
    struct stat st;
    if (file->memory)
        return false;
    if (fstat(file->fd, &st) != 0)
        return true;
    if (size_now)
        *size_now = (uint64_t)st.st_size;
    return (uint64_t)st.st_size != file->size || st.ST_MTIME.tv_sec != file->mtime[0] ||
           st.ST_MTIME.tv_nsec != file->mtime[1];
}

bool tmi_file_refresh(tmi_file *file) {
    struct stat st;
    const tmi_file before = *file;
    if (file->memory)
        return true;
    if (fstat(file->fd, &st) != 0)
        return false;
    store_stat(file, &st);
    return file->size == before.size &&
           memcmp(file->mtime, before.mtime, sizeof before.mtime) == 0 &&
           memcmp(file->ctime, before.ctime, sizeof before.ctime) == 0;
}

/* Opens a path if it leads to the file that is already open; otherwise returns -1. */
static int open_same(const tmi_file *file, const char *path, int flags) {
    struct stat st, other;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && fstat(file->fd, &other) == 0 && st.st_dev == other.st_dev &&
        st.st_ino == other.st_ino)
        return fd;
    close(fd);
    return -1;
}

/*
 * Opens the same file a second time. Flags and locks belong to the open file description, which the
 * model may share with the caller of tenmap_open_fd. The kernel's name for the descriptor opens the
 * same file even if its path has changed. Returns -1 where there is no such name.
 */
static int open_again(const tmi_file *file, int flags) {
#ifdef __linux__
    static const char name[] = "/proc/self/fd/";
    char path[sizeof name + 20], *at = path + sizeof path;
    if (file->fd < 0)
        return -1;
    *--at = '\0';
    for (unsigned n = (unsigned)file->fd, more = 1; more; more = n /= 10)
        *--at = (char)('0' + n % 10);
    at -= sizeof name - 1;
    memcpy(at, name, sizeof name - 1);
    return open_same(file, at, flags);
#else
    (void)file, (void)flags;
    return -1;
#endif
}

bool tmi_file_locked(const tmi_file *file, const char *path) {
    int fd = open_again(file, 0);
    if (fd < 0 && path && file->fd >= 0)
        fd = open_same(file, path, 0);
    if (fd < 0)
        return false;
    bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd); /* this also releases the lock */
    return locked;
}

int tmi_direct_open(const tmi_file *file) {
#if defined(__linux__) && defined(O_DIRECT)
    return open_again(file, O_DIRECT);
#else
    (void)file;
    return -1;
#endif
}

void tmi_direct_close(int fd) {
    if (fd >= 0)
        close(fd);
}

int tmi_map_populate_at_once(const tmi_file *file, uint64_t begin, uint64_t end) {
#ifdef MADV_POPULATE_READ
    int failed;
    do
        failed = madvise(tmi_map_address(file, begin), (size_t)(end - begin), MADV_POPULATE_READ);
    while (failed && errno == EINTR);
    if (!failed || errno != EINVAL)
        return failed ? errno : 0;
#else
    (void)file, (void)begin, (void)end;
#endif
    return ENOTSUP;
}

int tmi_map_release(const tmi_file *file, uint64_t begin, uint64_t end) {
    return madvise(tmi_map_address(file, begin), (size_t)(end - begin), MADV_DONTNEED) ? errno : 0;
}

/*
 * If a page's storage fails, mlock on Linux retries forever and never returns. So this only marks
 * the pages to be locked when they are read in, and the caller populates them.
 */
int tmi_map_lock(const tmi_file *file, uint64_t begin, uint64_t end) {
    void *start = tmi_map_address(file, begin);
    size_t size = (size_t)(end - begin);
#ifdef SYS_mlock2
    enum { LOCK_ON_FAULT = 1 }; /* MLOCK_ONFAULT, Linux 4.4; older kernels return ENOSYS */
    if (syscall(SYS_mlock2, start, size, LOCK_ON_FAULT) == 0)
        return 0;
    if (errno != ENOSYS && errno != EINVAL)
        return errno;
#endif
    return mlock(start, size) ? errno : 0;
}

int tmi_map_unlock(const tmi_file *file, uint64_t begin, uint64_t end) {
    return munlock(tmi_map_address(file, begin), (size_t)(end - begin)) ? errno : 0;
}

uint64_t tmi_lock_limit(const char **remedy) {
    struct rlimit limit;
    *remedy =
        "(RLIMIT_MEMLOCK); raise it with ulimit -l KIB, memlock in "
        "/etc/security/limits.conf, LimitMEMLOCK= of the systemd unit, or give it CAP_IPC_LOCK";
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

/* The kernel's pagemap of this process has 8 bytes for each page; bit 63 means mapped. */
int tmi_memory_mapped(const void *memory, size_t size, uint64_t *bytes) {
#ifdef __linux__
    uint64_t entries[1024], page = tmi_page_size();
    uint64_t begin = (uint64_t)(uintptr_t)memory, end = begin + size;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), failed = 0;
    *bytes = 0;
    if (fd < 0)
        return errno;
    for (uint64_t at = begin - begin % page; at < end && !failed;) {
        uint64_t left = (end - at + page - 1) / page;
        size_t want = (left < 1024 ? (size_t)left : 1024) * sizeof *entries;
        ssize_t n = pread(fd, entries, want, (off_t)(at / page * sizeof *entries));
        if (n < (ssize_t)sizeof *entries)
            failed = n < 0 ? errno : ENOTSUP;
        for (size_t i = 0; !failed && i < (size_t)n / sizeof *entries; i++, at += page)
            if (entries[i] >> 63)
                *bytes += tmi_page_overlap(at, page, begin, end);
    }
    close(fd);
    return failed;
#else
    (void)memory, (void)size;
    *bytes = 0;
    return ENOTSUP;
#endif
}

/* Counts the bytes of the file that are in memory, whoever uses them. */
static int count_cached(void *map, uint64_t map_offset, uint64_t begin, uint64_t end,
                        uint64_t *bytes) {
#ifdef __linux__
    unsigned char there[4096];
#else
    char there[4096]; /* the type that the BSDs and macOS declare */
#endif
    uint64_t page = tmi_page_size();
    for (uint64_t at = begin - begin % page; at < end;) {
        uint64_t left = (end - at + page - 1) / page;
        size_t pages = left < sizeof there ? (size_t)left : sizeof there;
        if (mincore((char *)map + (at - map_offset), (size_t)(pages * page), there) != 0)
            return errno;
        for (size_t i = 0; i < pages; i++, at += page)
            if (there[i] & 1)
                *bytes += tmi_page_overlap(at, page, begin, end);
    }
    return 0;
}

int tmi_file_cached(const tmi_file *file, uint64_t begin, uint64_t end, uint64_t *bytes) {
    *bytes = 0;
    if (file->memory || begin == end)
        return 0;
    if (file->map && !file->copy_on_write) /* pages that were written are not the file's */
        return count_cached(file->map, file->map_offset, begin, end, bytes);
    tmi_file mapped = *file; /* mincore needs a mapping; making one touches no pages */
    const unsigned char *base;
    mapped.map = NULL;
    mapped.copy_on_write = false;
    int failed = tmi_file_map(&mapped, begin, end - begin, &base);
    if (failed)
        return failed;
    failed = count_cached(mapped.map, mapped.map_offset, begin, end, bytes);
    munmap(mapped.map, mapped.map_size);
    return failed;
}

/* Closes `dir`, which may be NULL with errno set. */
static int list_names(DIR *dir, bool (*entry)(void *ctx, const char *name), void *ctx) {
    int failed = 0;
    if (!dir)
        return errno;
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(dir); /* each DIR is used by one thread only */
        if (!e) {
            failed = errno;
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (!entry(ctx, e->d_name))
            break;
    }
    closedir(dir);
    return failed;
}

int tmi_folder_list(const char *path, bool (*entry)(void *ctx, const char *name), void *ctx) {
    return list_names(opendir(path), entry, ctx);
}

/* Opens a new descriptor: duplicates of the folder's own would share its read position. */
int tmi_folder_list_in(const tmi_folder *folder, bool (*entry)(void *ctx, const char *name),
                       void *ctx) {
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    DIR *dir = fdopendir(fd);
    int failed = list_names(dir, entry, ctx);
    if (!dir)
        close(fd);
    return failed;
}

bool tmi_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

unsigned tmi_cpu_count(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 && count < 4096 ? (unsigned)count : 1;
}

long tmi_process(void) {
    return (long)getpid();
}

void tmi_sleep_ms(unsigned milliseconds) {
    struct timespec left = {.tv_sec = (time_t)(milliseconds / 1000),
                            .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/*
 * A blocked signal that a thread raises itself cannot stay pending: the system ends the process
 * without calling the program's handler.
 */
int tmi_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx) {
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t others, before;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before); /* a new thread inherits the mask */
    int failed = pthread_create(thread, NULL, run, ctx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

#endif
