/* The guard pages of the tests, by way of VirtualAlloc. */
#ifndef TENMAP_TESTS_WINDOWS_MMAN_H
#define TENMAP_TESTS_WINDOWS_MMAN_H

#include <stddef.h>

enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2 };
enum { MAP_PRIVATE = 1, MAP_ANONYMOUS = 2 };
#define MAP_FAILED ((void *)-1)

void *mmap(void *at, size_t size, int protection, int flags, int fd, long long offset);
int mprotect(void *at, size_t size, int protection);
int munmap(void *at, size_t size);

#endif
