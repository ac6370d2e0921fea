/* Memory and random numbers from the system on Windows. */
#include "base.h"

#ifdef _WIN32

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

#include <string.h>

enum { WIN32_HUGE_PAGE = 2 << 20 };

size_t tmi_page_size(void) {
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return system.dwPageSize;
}

void *tmi_pages_alloc(size_t size) {
    return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void tmi_pages_free(void *pages, size_t size) {
    (void)size;
    VirtualFree(pages, 0, MEM_RELEASE);
}

void tmi_pages_trim(void *pages, size_t *size, size_t used) {
    size_t page = tmi_page_size();
    size_t kept = (used ? used + page - 1 : page) / page * page;
    if (kept < *size && VirtualFree((char *)pages + kept, *size - kept, MEM_DECOMMIT))
        *size = kept;
}

/* Reserves more addresses than it uses; the page in front stores where the reservation begins. */
void *tmi_aligned_alloc(size_t size) {
    size_t page = tmi_page_size(), align = WIN32_HUGE_PAGE;
    if (size > PTRDIFF_MAX - 4 * align)
        return NULL;
    char *start = VirtualAlloc(NULL, size + 2 * align, MEM_RESERVE, PAGE_READWRITE);
    if (!start)
        return NULL;
    char *memory = start + page;
    memory += (align - (uintptr_t)memory % align) % align;
    if (!VirtualAlloc(memory - page, page + (size ? size : 1), MEM_COMMIT, PAGE_READWRITE)) {
        VirtualFree(start, 0, MEM_RELEASE);
        return NULL;
    }
    memcpy(memory - page, &start, sizeof start);
    return memory;
}

void tmi_aligned_free(void *pages) {
    void *start;
    memcpy(&start, (char *)pages - tmi_page_size(), sizeof start);
    VirtualFree(start, 0, MEM_RELEASE);
}

/*
 * RtlGenRandom, which advapi32 exports under this name. It fails only if memory runs out; then the
 * time and an address are used instead.
 */
BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG size);

void tmi_random(void *dst, size_t size) {
    if (SystemFunction036(dst, (ULONG)size))
        return;
    LARGE_INTEGER now;
    QueryPerformanceCounter(&now);
    uint64_t state = (uint64_t)(uintptr_t)dst ^ (uint64_t)now.QuadPart;
    for (size_t i = 0; i < size; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ((unsigned char *)dst)[i] = (unsigned char)(state >> 56);
    }
}

#endif
