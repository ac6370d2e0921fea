/*
 * Files, mappings, folders and threads on Windows. Descriptors are those of the C library, so that
 * callers can use them; the work is done on the underlying handles. Windows errors become the
 * corresponding errno.
 */
#include "os.h"
#include "win32.h"

#ifdef _WIN32

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <psapi.h>
#include <stdlib.h>
#include <string.h>

/* Errors. */

static const struct {
    DWORD code;
    int number;
} win32_errors[] = {
    {ERROR_FILE_NOT_FOUND, ENOENT},
    {ERROR_PATH_NOT_FOUND, ENOENT},
    {ERROR_INVALID_NAME, ENOENT},
    {ERROR_BAD_PATHNAME, ENOENT},
    {ERROR_INVALID_DRIVE, ENOENT},
    {ERROR_BAD_NETPATH, ENOENT},
    {ERROR_BAD_NET_NAME, ENOENT},
    {ERROR_DIRECTORY, ENOTDIR},
    {ERROR_ACCESS_DENIED, EACCES},
    {ERROR_SHARING_VIOLATION, EACCES},
    {ERROR_USER_MAPPED_FILE, EACCES},
    {ERROR_WRITE_PROTECT, EROFS},
    {ERROR_FILE_EXISTS, EEXIST},
    {ERROR_ALREADY_EXISTS, EEXIST},
    {ERROR_LOCK_VIOLATION, EWOULDBLOCK},
    {ERROR_INVALID_HANDLE, EBADF},
    {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
    {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
    {ERROR_OUTOFMEMORY, ENOMEM},
    {ERROR_COMMITMENT_LIMIT, ENOMEM},
    {ERROR_NO_SYSTEM_RESOURCES, ENOMEM},
    {ERROR_MAPPED_ALIGNMENT, EINVAL},
    {ERROR_WORKING_SET_QUOTA, ENOMEM},
    {ERROR_DISK_FULL, ENOSPC},
    {ERROR_HANDLE_DISK_FULL, ENOSPC},
    {1295, ENOSPC}, /* ERROR_DISK_QUOTA_EXCEEDED, which not every header has */
    {ERROR_FILE_TOO_LARGE, EFBIG},
    {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
    {ERROR_BUFFER_OVERFLOW, ENAMETOOLONG},
    {ERROR_CANT_RESOLVE_FILENAME, ELOOP},
    {ERROR_NO_UNICODE_TRANSLATION, EILSEQ},
    {ERROR_INVALID_PARAMETER, EINVAL},
    {ERROR_INVALID_FUNCTION, ENOTSUP},
    {ERROR_NOT_SUPPORTED, ENOTSUP},
    {ERROR_CALL_NOT_IMPLEMENTED, ENOTSUP},
};

int tmi_errno_of(DWORD code) {
    for (size_t i = 0; i < sizeof win32_errors / sizeof win32_errors[0]; i++)
        if (win32_errors[i].code == code)
            return win32_errors[i].number;
    return EIO;
}

/* Paths. */

/* Converts UTF-8 to UTF-16. */
static wchar_t *widen(const char *text, int *failed) {
    int len = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    if (len <= 0) {
        *failed = tmi_errno_of(GetLastError());
        return NULL;
    }
    wchar_t *wide = tmi_calloc((size_t)len, sizeof *wide);
    if (!wide)
        *failed = ENOMEM;
    else
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, len);
    return wide;
}

/*
 * The absolute path with the prefix that lifts the limit on its length. GetFullPathNameW resolves
 * dots and slashes first, because the system does not resolve them after the prefix.
 */
static wchar_t *widen_long(const wchar_t *wide, int *failed) {
    static const wchar_t mark[] = L"\\\\?\\", share_mark[] = L"\\\\?\\UNC";
    DWORD room = GetFullPathNameW(wide, 0, NULL, NULL);
    wchar_t *out = room ? tmi_calloc((size_t)room + 8, sizeof *out) : NULL;
    wchar_t *full = room ? tmi_calloc(room, sizeof *full) : NULL;
    *failed = !room ? tmi_errno_of(GetLastError()) : ENOMEM;
    if (out && full && GetFullPathNameW(wide, room, full, NULL) < room) {
        bool is_share = full[0] == L'\\' && full[1] == L'\\';
        wcscpy(out, is_share ? share_mark : mark);
        wcscat(out, is_share ? full + 1 : full);
        *failed = 0;
    }
    free(full);
    if (!*failed)
        return out;
    free(out);
    return NULL;
}

wchar_t *tmi_wide_path(const char *path, int *failed) {
    enum { SHORT_ENOUGH = 240 }; /* folder paths are limited to fewer characters than file paths */
    *failed = 0;
    wchar_t *wide = widen(path, failed);
    bool marked = wide && (wcsncmp(wide, L"\\\\?\\", 4) == 0 || wcsncmp(wide, L"\\\\.\\", 4) == 0);
    if (!wide || marked || GetFullPathNameW(wide, 0, NULL, NULL) <= SHORT_ENOUGH)
        return wide;
    wchar_t *longer = widen_long(wide, failed);
    free(wide);
    return longer;
}

char *tmi_narrow_text(const wchar_t *text) {
    int len = WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text, -1, NULL, 0, NULL, NULL);
    char *out = len > 0 ? malloc((size_t)len) : NULL;
    if (out)
        WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text, -1, out, len, NULL, NULL);
    return out;
}

/* Handles and descriptors. */

HANDLE tmi_handle_open(const char *path, DWORD access, DWORD share, DWORD flags, int *failed) {
    wchar_t *wide = tmi_wide_path(path, failed);
    if (!wide)
        return INVALID_HANDLE_VALUE;
    HANDLE handle = CreateFileW(wide, access, share, NULL, OPEN_EXISTING, flags, NULL);
    *failed = handle == INVALID_HANDLE_VALUE ? tmi_errno_of(GetLastError()) : 0;
    free(wide);
    return handle;
}

HANDLE tmi_handle_of(int fd) {
    return fd < 0 ? INVALID_HANDLE_VALUE : (HANDLE)_get_osfhandle(fd);
}

int tmi_handle_adopt(HANDLE handle, int flags, int *failed) {
    int fd = _open_osfhandle((intptr_t)handle, flags | _O_BINARY | _O_NOINHERIT);
    *failed = fd < 0 ? EMFILE : 0;
    if (fd < 0)
        CloseHandle(handle);
    return fd;
}

/* Files. */

static uint64_t joined(DWORD high, DWORD low) {
    return (uint64_t)high << 32 | low;
}

/* Reads size, times and attributes; times stay in the system's units. */
static int look_at(HANDLE handle, tmi_file *file, DWORD *attributes) {
    BY_HANDLE_FILE_INFORMATION info;
    FILE_BASIC_INFO times;
    if (!GetFileInformationByHandle(handle, &info))
        return tmi_errno_of(GetLastError());
    *attributes = info.dwFileAttributes;
    file->size = joined(info.nFileSizeHigh, info.nFileSizeLow);
    file->mtime[0] = (int64_t)info.ftLastWriteTime.dwHighDateTime;
    file->mtime[1] = (int64_t)info.ftLastWriteTime.dwLowDateTime;
    file->ctime[0] = file->ctime[1] = 0;
    if (GetFileInformationByHandleEx(handle, FileBasicInfo, &times, sizeof times))
        file->ctime[0] = times.ChangeTime.QuadPart;
    return 0;
}

/* Takes ownership of the handle: it becomes the file's descriptor, or is closed. */
static int take_handle(tmi_file *file, HANDLE handle) {
    DWORD attributes;
    int failed = 0;
    file->kind = TMI_FILE_OTHER;
    if (GetFileType(handle) == FILE_TYPE_DISK) {
        failed = look_at(handle, file, &attributes);
        if (!failed)
            file->kind = attributes & FILE_ATTRIBUTE_DIRECTORY ? TMI_FILE_FOLDER : TMI_FILE_REGULAR;
    }
    if (!failed && file->kind == TMI_FILE_REGULAR)
        file->fd = tmi_handle_adopt(handle, _O_RDONLY, &failed);
    else
        CloseHandle(handle);
    return failed;
}

int tmi_file_open(tmi_file *file, const char *path) {
    int failed;
    *file = (tmi_file){.fd = -1};
    /* Backup semantics allow folders to be opened, so that they can be told from files. */
    HANDLE handle =
        tmi_handle_open(path, GENERIC_READ, TMI_SHARE_ALL, FILE_FLAG_BACKUP_SEMANTICS, &failed);
    return handle == INVALID_HANDLE_VALUE ? failed : take_handle(file, handle);
}

int tmi_file_open_in(tmi_file *file, const tmi_folder *folder, const char *name) {
    char *path = tmi_join_path(folder->path, strlen(folder->path), name, strlen(name));
    *file = (tmi_file){.fd = -1};
    int failed = path ? tmi_file_open(file, path) : ENOMEM;
    free(path);
    return failed;
}

/*
 * A duplicate would share the file position of the caller's descriptor, and reads here move it. So
 * the file is opened a second time by its handle, and duplicated only if that is refused.
 */
int tmi_file_dup(tmi_file *file, int fd) {
    *file = (tmi_file){.fd = -1};
    HANDLE theirs = tmi_handle_of(fd), ours = INVALID_HANDLE_VALUE;
    if (theirs == INVALID_HANDLE_VALUE)
        return EBADF;
    if (GetFileType(theirs) == FILE_TYPE_DISK)
        ours = ReOpenFile(theirs, GENERIC_READ, TMI_SHARE_ALL, FILE_FLAG_BACKUP_SEMANTICS);
    if (ours == INVALID_HANDLE_VALUE &&
        !DuplicateHandle(GetCurrentProcess(), theirs, GetCurrentProcess(), &ours, 0, FALSE,
                         DUPLICATE_SAME_ACCESS))
        return tmi_errno_of(GetLastError());
    return take_handle(file, ours);
}

void tmi_file_unmap(tmi_file *file) {
    if (file->map)
        UnmapViewOfFile(file->map);
    file->map = NULL;
}

void tmi_file_close(tmi_file *file) {
    tmi_file_unmap(file);
    if (file->fd >= 0)
        _close(file->fd);
    *file = (tmi_file){.fd = -1};
}

int tmi_fd_read(int fd, uint64_t offset, void *dst, size_t size, size_t *got) {
    OVERLAPPED place = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD n = 0;
    bool done = ReadFile(tmi_handle_of(fd), dst, (DWORD)size, &n, &place);
    *got = done ? n : 0;
    return done || GetLastError() == ERROR_HANDLE_EOF ? 0 : tmi_errno_of(GetLastError());
}

/* Views start at multiples of the allocation granularity, which is larger than a page. */
int tmi_file_map(tmi_file *file, uint64_t offset, uint64_t size, const unsigned char **base) {
    if (file->memory) {
        *base = file->memory + offset;
        return 0;
    }
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    uint64_t before = offset % system.dwAllocationGranularity, start = offset - before;
    if (size > SIZE_MAX - before || size + before > PTRDIFF_MAX)
        return ENOMEM;
    DWORD protection = file->copy_on_write ? PAGE_WRITECOPY : PAGE_READONLY;
    HANDLE section = CreateFileMappingW(tmi_handle_of(file->fd), NULL, protection, 0, 0, NULL);
    if (!section)
        return tmi_errno_of(GetLastError());
    void *view = MapViewOfFile(section, file->copy_on_write ? FILE_MAP_COPY : FILE_MAP_READ,
                               (DWORD)(start >> 32), (DWORD)start, (SIZE_T)(size + before));
    int failed = view ? 0 : tmi_errno_of(GetLastError());
    CloseHandle(section); /* the view keeps it alive */
    if (failed)
        return failed;
    file->map = view;
    file->map_size = (size_t)(size + before);
    file->map_offset = start;
    *base = (const unsigned char *)view + before;
    return 0;
}

bool tmi_file_changed(const tmi_file *file, uint64_t *size_now) {
    DWORD attributes;
    tmi_file now = {.fd = -1};
    if (file->memory)
        return false;
    if (look_at(tmi_handle_of(file->fd), &now, &attributes) != 0)
        return true;
    if (size_now)
        *size_now = now.size;
    return now.size != file->size || memcmp(now.mtime, file->mtime, sizeof now.mtime) != 0;
}

bool tmi_file_refresh(tmi_file *file) {
    const tmi_file before = *file;
    DWORD attributes;
    return file->memory ||
           (look_at(tmi_handle_of(file->fd), file, &attributes) == 0 && file->size == before.size &&
            memcmp(file->mtime, before.mtime, sizeof before.mtime) == 0 &&
            memcmp(file->ctime, before.ctime, sizeof before.ctime) == 0);
}

int tmi_direct_open(const tmi_file *file) {
    int failed;
    if (file->fd < 0)
        return -1;
    HANDLE handle = ReOpenFile(tmi_handle_of(file->fd), GENERIC_READ, TMI_SHARE_ALL,
                               FILE_FLAG_NO_BUFFERING | FILE_FLAG_SEQUENTIAL_SCAN);
    return handle == INVALID_HANDLE_VALUE ? -1 : tmi_handle_adopt(handle, _O_RDONLY, &failed);
}

void tmi_direct_close(int fd) {
    if (fd >= 0)
        _close(fd);
}

/* Pages of a mapping. */

/*
 * Asks the system to read ahead in large pieces. That is only advice, so the caller must touch the
 * pages.
 */
int tmi_map_populate_at_once(const tmi_file *file, uint64_t begin, uint64_t end) {
    uint64_t last = file->map_offset + file->map_size;
    WIN32_MEMORY_RANGE_ENTRY range = {tmi_map_address(file, begin),
                                      (SIZE_T)((end < last ? end : last) - begin)};
    (void)PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
    return ENOTSUP;
}

/* Called for each page of [memory, memory + size) with the system's information about it. */
typedef void page_visit(void *ctx, uint64_t at, const PSAPI_WORKING_SET_EX_BLOCK *page);

static int visit_pages(const void *memory, size_t size, page_visit *visit, void *ctx) {
    PSAPI_WORKING_SET_EX_INFORMATION pages[512];
    uint64_t page = tmi_page_size(), end = (uint64_t)(uintptr_t)memory + size;
    for (uint64_t at = (uint64_t)(uintptr_t)memory / page * page; at < end;) {
        DWORD count = 0;
        for (uint64_t next = at; count < 512 && next < end; next += page)
            pages[count++].VirtualAddress = (void *)(uintptr_t)next;
        if (!K32QueryWorkingSetEx(GetCurrentProcess(), pages, count * (DWORD)sizeof *pages))
            return tmi_errno_of(GetLastError());
        for (DWORD i = 0; i < count; i++, at += page)
            visit(ctx, at, &pages[i].VirtualAttributes);
    }
    return 0;
}

static void note_locked(void *ctx, uint64_t at, const PSAPI_WORKING_SET_EX_BLOCK *page) {
    (void)at;
    *(bool *)ctx |= page->Valid && page->Locked;
}

/* Unlocking pages that are not locked removes them from the working set; this is documented. */
int tmi_map_release(const tmi_file *file, uint64_t begin, uint64_t end) {
    uint64_t last = file->map_offset + file->map_size;
    void *memory = tmi_map_address(file, begin);
    size_t size = (size_t)((end < last ? end : last) - begin);
    bool locked = false;
    if (visit_pages(memory, size, note_locked, &locked) == 0 && locked)
        return EINVAL;
    if (VirtualUnlock(memory, size) || GetLastError() == ERROR_NOT_LOCKED)
        return 0;
    return tmi_errno_of(GetLastError());
}

int tmi_map_lock(const tmi_file *file, uint64_t begin, uint64_t end) {
    uint64_t last = file->map_offset + file->map_size;
    size_t size = (size_t)((end < last ? end : last) - begin);
    return VirtualLock(tmi_map_address(file, begin), size) ? 0 : tmi_errno_of(GetLastError());
}

int tmi_map_unlock(const tmi_file *file, uint64_t begin, uint64_t end) {
    uint64_t last = file->map_offset + file->map_size;
    size_t size = (size_t)((end < last ? end : last) - begin);
    if (VirtualUnlock(tmi_map_address(file, begin), size) || GetLastError() == ERROR_NOT_LOCKED)
        return 0;
    return tmi_errno_of(GetLastError());
}

uint64_t tmi_lock_limit(const char **remedy) {
    SIZE_T least, most;
    *remedy = "(its minimum working set, less a few pages); raise it with SetProcessWorkingSetSize";
    return GetProcessWorkingSetSize(GetCurrentProcess(), &least, &most) ? least : UINT64_MAX;
}

typedef struct page_count {
    uint64_t begin, end, page, bytes;
} page_count;

static void count_page(void *ctx, uint64_t at, const PSAPI_WORKING_SET_EX_BLOCK *page) {
    page_count *count = ctx;
    if (page->Valid)
        count->bytes += tmi_page_overlap(at, count->page, count->begin, count->end);
}

int tmi_memory_mapped(const void *memory, size_t size, uint64_t *bytes) {
    uint64_t begin = (uint64_t)(uintptr_t)memory;
    page_count count = {begin, begin + size, tmi_page_size(), 0};
    int failed = visit_pages(memory, size, count_page, &count);
    *bytes = count.bytes;
    return failed;
}

/* Windows does not expose what its cache holds. */
int tmi_file_cached(const tmi_file *file, uint64_t begin, uint64_t end, uint64_t *bytes) {
    *bytes = 0;
    return file->memory || begin == end ? 0 : ENOTSUP;
}

/* Folders. */

int tmi_folder_list(const char *path, bool (*entry)(void *ctx, const char *name), void *ctx) {
    WIN32_FIND_DATAW found;
    int failed = ENOMEM;
    char *pattern = tmi_join_path(path, strlen(path), "*", 1);
    wchar_t *wide = pattern ? tmi_wide_path(pattern, &failed) : NULL;
    free(pattern);
    if (!wide)
        return failed;
    HANDLE search = FindFirstFileW(wide, &found);
    DWORD code = GetLastError();
    free(wide);
    if (search == INVALID_HANDLE_VALUE)
        return code == ERROR_FILE_NOT_FOUND ? 0 : tmi_errno_of(code);
    bool more = true;
    while (more) {
        char *name = tmi_narrow_text(found.cFileName); /* NULL: no UTF-8 path can reach it */
        if (name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            more = entry(ctx, name);
        free(name);
        if (more && !FindNextFileW(search, &found))
            break;
    }
    code = GetLastError();
    FindClose(search);
    return !more || code == ERROR_NO_MORE_FILES ? 0 : tmi_errno_of(code);
}

int tmi_folder_list_in(const tmi_folder *folder, bool (*entry)(void *ctx, const char *name),
                       void *ctx) {
    return tmi_folder_list(folder->path, entry, ctx);
}

bool tmi_is_folder(const char *path) {
    int failed;
    wchar_t *wide = tmi_wide_path(path, &failed);
    DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY);
}

/* Processors, processes and threads. */

unsigned tmi_cpu_count(void) {
    DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count > 0 && count < 4096 ? (unsigned)count : 1;
}

long tmi_process(void) {
    return (long)GetCurrentProcessId();
}

void tmi_sleep_ms(unsigned milliseconds) {
    Sleep(milliseconds);
}

/* Threads come from winpthreads; there are no signals to block. */
int tmi_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx) {
    return pthread_create(thread, NULL, run, ctx);
}

#endif
