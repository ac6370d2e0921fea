/* Memory and random numbers from the system on POSIX; pages_win32.c is the Windows version. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base.h"

#ifndef _WIN32

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h> /* getentropy */
#endif
#if defined(__linux__) && defined(__GLIBC__)
#if __GLIBC__ == 2 && __GLIBC_MINOR__ < 25
#include <sys/syscall.h>
#define GETENTROPY_BY_SYSCALL
#endif
#endif

enum { HUGE_PAGE = 2 << 20 };

size_t tmi_page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Aligned to a huge page, since the kernel uses one only for a whole aligned range. */
void *tmi_pages_alloc(size_t size) {
    if (size > PTRDIFF_MAX - 2 * (size_t)HUGE_PAGE)
        return NULL;
    size_t length = size + HUGE_PAGE;
    char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t page = tmi_page_size();
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

void tmi_pages_free(void *pages, size_t size) {
    munmap(pages, size);
}

/*
 * A separate page in front holds the size. It is too short for a huge page, so it costs only one
 * page.
 */
void *tmi_aligned_alloc(size_t size) {
    size_t page = tmi_page_size();
    if (size > PTRDIFF_MAX - 4 * (size_t)HUGE_PAGE)
        return NULL;
    size = (size + page - 1) / page * page + (size ? 0 : page);
    char *pages = tmi_pages_alloc(size + HUGE_PAGE);
    if (!pages)
        return NULL;
    munmap(pages, HUGE_PAGE - page);
    memcpy(pages + HUGE_PAGE - page, &size, sizeof size);
    return pages + HUGE_PAGE;
}

void tmi_aligned_free(void *pages) {
    size_t size, page = tmi_page_size();
    char *start = (char *)pages - page;
    memcpy(&size, start, sizeof size);
    munmap(start, size + page);
}

void tmi_pages_trim(void *pages, size_t *size, size_t used) {
    size_t page = tmi_page_size();
    size_t kept = (used ? used + page - 1 : page) / page * page;
    if (kept >= *size)
        return;
    if (munmap((char *)pages + kept, *size - kept) == 0)
        *size = kept;
}

/* At most 256 bytes; nonzero if the system has no random numbers. */
static int fill_random(void *dst, size_t size) {
#if !defined(GETENTROPY_BY_SYSCALL)
    return getentropy(dst, size);
#elif defined(SYS_getrandom)
    return syscall(SYS_getrandom, dst, size, 0) == (long)size ? 0 : -1; /* Linux 3.17 */
#else
    (void)dst, (void)size;
    return -1;
#endif
}

/*
 * Uses the system's random numbers if it has them, otherwise ones derived from addresses and time.
 */
void tmi_random(void *dst, size_t size) {
    if (fill_random(dst, size) == 0)
        return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t state = (uint64_t)(uintptr_t)dst ^ (uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec;
    for (size_t i = 0; i < size; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ((unsigned char *)dst)[i] = (unsigned char)(state >> 56);
    }
}

#endif
