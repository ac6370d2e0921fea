/* See posix.h. */
#include "posix.h"

#include "sys/mman.h"

#include <stdio.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#undef free
#undef rename
#undef unlink

char *mkdtemp(char *path) {
    char *end = path + strlen(path) - 6;
    for (unsigned tries = 0, number = (unsigned)GetCurrentProcessId() * 1000; tries < 1000;
         tries++) {
        snprintf(end, 7, "%06x", (number + tries) & 0xffffff);
        if (_mkdir(path) == 0)
            return path;
    }
    return NULL;
}

long sysconf(int name) {
    SYSTEM_INFO system;
    (void)name;
    GetSystemInfo(&system);
    return (long)system.dwPageSize;
}

int symlink(const char *to, const char *path) {
    (void)to, (void)path;
    return -1;
}

int link(const char *old, const char *path) {
    return CreateHardLinkA(path, old, NULL) ? 0 : -1;
}

int flock(int fd, int how) {
    OVERLAPPED place = {.Offset = 0xfffffffe, .OffsetHigh = 0x7fffffff};
    DWORD flags = (how & LOCK_NB ? LOCKFILE_FAIL_IMMEDIATELY : 0u) | LOCKFILE_EXCLUSIVE_LOCK;
    return LockFileEx((HANDLE)_get_osfhandle(fd), flags, 0, 1, 0, &place) ? 0 : -1;
}

int windows_rename(const char *from, const char *to) {
    return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) ? 0 : -1;
}

int windows_unlink(const char *path) {
    wchar_t wide[4096], full[4096] = L"\\\\?\\";
    MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 4096);
    DWORD len = GetFullPathNameW(wide, 4000, full + 4, NULL);
    return len > 0 && len < 4000 && DeleteFileW(full) ? 0 : -1;
}

uint64_t windows_inode(const char *path) {
    BY_HANDLE_FILE_INFORMATION info = {0};
    HANDLE handle = CreateFileA(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return 0;
    (void)GetFileInformationByHandle(handle, &info);
    CloseHandle(handle);
    return (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
}

unsigned getuid(void) {
    return 1000;
}

int chown(const char *path, unsigned user, unsigned group) {
    (void)path, (void)user, (void)group;
    return -1;
}

/* malloc's blocks follow a header, so they are never at a multiple of 64 KiB. */
void *aligned_alloc(size_t alignment, size_t size) {
    (void)alignment;
    return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void windows_free(void *memory) {
    if (memory && (uintptr_t)memory % 65536 == 0)
        VirtualFree(memory, 0, MEM_RELEASE);
    else
        free(memory);
}

static DWORD protection_of(int protection) {
    return protection & PROT_WRITE  ? PAGE_READWRITE
           : protection & PROT_READ ? PAGE_READONLY
                                    : PAGE_NOACCESS;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, long long offset) {
    (void)flags, (void)fd, (void)offset;
    void *memory = VirtualAlloc(at, size, MEM_RESERVE | MEM_COMMIT, protection_of(protection));
    return memory ? memory : MAP_FAILED;
}

int mprotect(void *at, size_t size, int protection) {
    DWORD before;
    return VirtualProtect(at, size, protection_of(protection), &before) ? 0 : -1;
}

int munmap(void *at, size_t size) {
    (void)size;
    return VirtualFree(at, 0, MEM_RELEASE) ? 0 : -1;
}
