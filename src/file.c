/* The operating system: files, mappings, folders, pages, random bytes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* One pread moves at most this much: Linux stops a little under 2 GiB, macOS refuses more. */
enum { READ_AT_MOST = 1 << 30 };
enum { HUGE_PAGE = 2 << 20 };

static int classify(tmi_file *file, int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    file->kind = S_ISREG(st.st_mode)   ? TMI_FILE_REGULAR
                 : S_ISDIR(st.st_mode) ? TMI_FILE_FOLDER
                                       : TMI_FILE_OTHER;
    file->size = (uint64_t)st.st_size;
    file->fd = fd;
    return 0;
}

/*
 * O_NONBLOCK keeps a pipe without a writer from hanging the open; it means nothing for the regular
 * files that are kept, and is taken back for callers who use the descriptor.
 */
int tmi_file_open(tmi_file *file, const char *path) {
    *file = (tmi_file){.fd = -1};
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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

void tmi_file_memory(tmi_file *file, const void *bytes, size_t size) {
    *file = (tmi_file){.fd = -1, .kind = TMI_FILE_REGULAR, .memory = bytes, .size = size};
}

void tmi_file_close(tmi_file *file) {
    if (file->map)
        munmap(file->map, file->map_size);
    if (file->fd >= 0)
        close(file->fd);
    *file = (tmi_file){.fd = -1};
}

int tmi_file_read(const tmi_file *file, uint64_t offset, void *dst, size_t size, size_t *got) {
    *got = 0;
    if (file->memory) {
        if (offset < file->size) {
            uint64_t left = file->size - offset;
            *got = left < size ? (size_t)left : size;
            memcpy(dst, file->memory + offset, *got);
        }
        return 0;
    }
    while (*got < size) {
        size_t part = size - *got < READ_AT_MOST ? size - *got : READ_AT_MOST;
        if (offset > (uint64_t)INT64_MAX - *got)
            return EOVERFLOW;
        ssize_t n = pread(file->fd, (char *)dst + *got, part, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return 0;
        *got += (size_t)n;
    }
    return 0;
}

int tmi_file_map(tmi_file *file, uint64_t offset, uint64_t size, const unsigned char **base) {
    if (file->memory) {
        *base = file->memory + offset;
        return 0;
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t before = offset % page;
    if (size > SIZE_MAX - before || size + before > PTRDIFF_MAX)
        return ENOMEM;
    size_t length = (size_t)(size + before);
    void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, file->fd, (off_t)(offset - before));
    if (map == MAP_FAILED)
        return errno;
    file->map = map;
    file->map_size = length;
    *base = (const unsigned char *)map + before;
    return 0;
}

int tmi_folder_list(const char *path, bool (*entry)(void *ctx, const char *name), void *ctx) {
    DIR *dir = opendir(path);
    if (!dir)
        return errno;
    int failed = 0;
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

bool tmi_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

size_t tmi_folder_part(const char *path) {
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len;
}

/* Aligned to a huge page, since the kernel uses one only for a whole aligned range. */
void *tmi_pages_take(size_t size) {
    if (size > PTRDIFF_MAX - 2 * (size_t)HUGE_PAGE)
        return NULL;
    size_t length = size + HUGE_PAGE;
    char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = (HUGE_PAGE - (uintptr_t)start % HUGE_PAGE) % HUGE_PAGE;
    size_t kept = (size + page - 1) / page * page;
    if (before)
        munmap(start, before);
    if (length > before + kept)
        munmap(start + before + kept, length - before - kept);
#ifdef MADV_HUGEPAGE
    (void)madvise(start + before, kept, MADV_HUGEPAGE);
#endif
    return start + before;
}

void tmi_pages_give(void *pages, size_t size) {
    munmap(pages, size);
}

void tmi_pages_trim(void *pages, size_t *size, size_t used) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t kept = (used ? used + page - 1 : page) / page * page;
    if (kept >= *size)
        return;
    if (munmap((char *)pages + kept, *size - kept) == 0)
        *size = kept;
}

/* Good randomness where the system has it; unlike addresses and times where it does not. */
void tmi_random(void *dst, size_t size) {
    if (getentropy(dst, size) == 0)
        return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t state = (uint64_t)(uintptr_t)dst ^ (uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec;
    for (size_t i = 0; i < size; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ((unsigned char *)dst)[i] = (unsigned char)(state >> 56);
    }
}

unsigned tmi_cpu_count(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 && count < 4096 ? (unsigned)count : 1;
}

int tmi_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread inherits the mask */
    int failed = pthread_create(thread, NULL, run, ctx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
