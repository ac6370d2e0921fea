/*
 * Replaces a file mapping with memory. Linux can move pages; other systems cannot put memory over a
 * mapping without a moment in which readers fault.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "os.h"

#include <errno.h>

unsigned char *tmi_replacement_at(const tmi_replacement *replacement, const tmi_file *file,
                                  uint64_t offset) {
    return replacement->memory + (offset - file->map_offset);
}

#ifdef __linux__

#include <sys/mman.h>
#include <unistd.h>

enum { REPLACEMENT_HUGE_PAGE = 2 << 20 };

/*
 * MAP_NORESERVE, because each move would account for its pages a second time and could be refused
 * when the mapping is already gone.
 */
int tmi_replacement_reserve(tmi_replacement *replacement, const tmi_file *file) {
    size_t page = tmi_page_size();
    if (file->map_size > PTRDIFF_MAX - 2 * (size_t)REPLACEMENT_HUGE_PAGE)
        return ENOMEM;
    size_t size = (file->map_size + page - 1) / page * page, length = size + REPLACEMENT_HUGE_PAGE;
    unsigned char *start = mmap(NULL, length, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return errno;
    size_t before = ((uintptr_t)file->map - (uintptr_t)start) % REPLACEMENT_HUGE_PAGE;
    if (before)
        munmap(start, before);
    munmap(start + before + size, length - before - size);
    replacement->memory = start + before;
#ifdef MADV_HUGEPAGE
    (void)madvise(replacement->memory, size, MADV_HUGEPAGE);
#endif
    return 0;
}

void tmi_replacement_discard(tmi_replacement *replacement, const tmi_file *file, uint64_t begin,
                             uint64_t end) {
    munmap(tmi_replacement_at(replacement, file, begin), (size_t)(end - begin));
}

/* Whether a part of these pages is not mapped. */
static bool has_gap(void *pages, size_t size) {
    return msync(pages, size, MS_ASYNC) != 0 && errno == ENOMEM;
}

/*
 * The kernel removes the mapping and moves the pages under one lock; readers that fault meanwhile
 * wait for it. If it fails between the two, the file is mapped again.
 */
int tmi_replacement_install(tmi_replacement *replacement, const tmi_file *file, uint64_t begin,
                            uint64_t end) {
    unsigned char *from = tmi_replacement_at(replacement, file, begin);
    void *to = tmi_map_address(file, begin);
    size_t size = (size_t)(end - begin);
    if (mprotect(from, size, PROT_READ) != 0)
        return errno;
    if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
        return 0;
    int failed = errno;
    if (has_gap(to, size))
        (void)mmap(to, size, PROT_READ, MAP_SHARED | MAP_FIXED, file->fd, (off_t)begin);
    return failed;
}

void tmi_file_become_memory(tmi_file *file) {
    close(file->fd);
    file->fd = -1;
    file->memory = file->map;
    file->memory_at = file->map_offset;
}

#else

int tmi_replacement_reserve(tmi_replacement *replacement, const tmi_file *file) {
    (void)replacement, (void)file;
    return ENOTSUP;
}

void tmi_replacement_discard(tmi_replacement *replacement, const tmi_file *file, uint64_t begin,
                             uint64_t end) {
    (void)replacement, (void)file, (void)begin, (void)end;
}

int tmi_replacement_install(tmi_replacement *replacement, const tmi_file *file, uint64_t begin,
                            uint64_t end) {
    (void)replacement, (void)file, (void)begin, (void)end;
    return ENOTSUP;
}

void tmi_file_become_memory(tmi_file *file) {
    (void)file;
}

#endif
