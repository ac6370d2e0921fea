/*
 * Writing files on Windows. Files are found by path, because there is no openat. A file can be
 * replaced and removed while others have it open.
 */
#include "os.h"
#include "win32.h"

#ifdef _WIN32

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>

/* Names. */

/* Removes the "\\?\" prefix of a path; paths that would be too long without it stay as they are. */
static char *strip_path_prefix(const wchar_t *wide) {
    static const wchar_t share_mark[] = L"\\\\?\\UNC\\";
    wchar_t *kept = NULL;
    size_t len = wcslen(wide);
    if (len >= 240 || wcsncmp(wide, L"\\\\?\\", 4) != 0)
        return tmi_narrow_text(wide);
    if (wcsncmp(wide, share_mark, 8) != 0)
        return tmi_narrow_text(wide + 4);
    kept = tmi_calloc(len, sizeof *kept);
    if (!kept)
        return NULL;
    kept[0] = L'\\';
    wcscpy(kept + 1, wide + 7);
    char *out = tmi_narrow_text(kept);
    free(kept);
    return out;
}

char *tmi_resolve(const char *path) {
    int failed;
    char *real = NULL;
    HANDLE handle = tmi_handle_open(path, 0, TMI_SHARE_ALL, FILE_FLAG_BACKUP_SEMANTICS, &failed);
    if (handle != INVALID_HANDLE_VALUE) {
        DWORD room = GetFinalPathNameByHandleW(handle, NULL, 0, VOLUME_NAME_DOS);
        wchar_t *wide = room ? tmi_calloc((size_t)room + 1, sizeof *wide) : NULL;
        if (wide && GetFinalPathNameByHandleW(handle, wide, room + 1, VOLUME_NAME_DOS) <= room)
            real = strip_path_prefix(wide);
        free(wide);
        CloseHandle(handle);
    }
    return real ? real : tmi_copy_text(path, strlen(path));
}

static DWORD attributes_of(const char *path) {
    int failed;
    wchar_t *wide = tmi_wide_path(path, &failed);
    DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return attributes;
}

bool tmi_exists(const char *path) {
    return attributes_of(path) != INVALID_FILE_ATTRIBUTES;
}

/* Locks. */

/*
 * A Windows lock keeps others from reading the bytes it covers. So it covers one byte that no file
 * has, and acts as flock does elsewhere: only those who ask for it notice.
 */
static int lock_handle(HANDLE handle, DWORD kind) {
    OVERLAPPED place = {.Offset = 0xfffffffe, .OffsetHigh = 0x7fffffff};
    if (LockFileEx(handle, kind | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place))
        return 0;
    DWORD code = GetLastError();
    return code == ERROR_LOCK_VIOLATION || code == ERROR_IO_PENDING ? EWOULDBLOCK : 0;
}

/* A lock belongs to the handle, and closing the handle releases it. */
bool tmi_file_locked(const tmi_file *file, const char *path) {
    (void)path;
    HANDLE handle = file->fd < 0 ? INVALID_HANDLE_VALUE
                                 : ReOpenFile(tmi_handle_of(file->fd), GENERIC_READ, TMI_SHARE_ALL,
                                              FILE_FLAG_BACKUP_SEMANTICS);
    if (handle == INVALID_HANDLE_VALUE)
        return false;
    bool locked = lock_handle(handle, 0) == EWOULDBLOCK;
    CloseHandle(handle);
    return locked;
}

#ifndef TENMAP_NO_WRITE

/* The most that one WriteFile requests. */
enum { WIN32_WRITE_AT_MOST = 1 << 30 };

int tmi_fd_lock(int fd) {
    return lock_handle(tmi_handle_of(fd), LOCKFILE_EXCLUSIVE_LOCK);
}

/*
 * The absolute path at this moment, so that a later change of the working directory does not
 * matter.
 */
static char *absolute_path(const char *path) {
    int failed;
    wchar_t *wide = *path ? tmi_wide_path(path, &failed) : NULL;
    DWORD room = wide ? GetFullPathNameW(wide, 0, NULL, NULL) : 0;
    wchar_t *full = room ? tmi_calloc(room, sizeof *full) : NULL;
    char *out = NULL;
    if (full && GetFullPathNameW(wide, room, full, NULL) < room)
        out = tmi_narrow_text(full);
    free(full);
    free(wide);
    return out ? out : tmi_copy_text(path, strlen(path));
}

/* Folders and locations. */

static char *path_in(const tmi_folder *folder, const char *name) {
    return tmi_join_path(folder->path, strlen(folder->path), name, strlen(name));
}

int tmi_folder_open(tmi_folder *folder, const char *path) {
    *folder = TMI_NO_FOLDER;
    if (!tmi_is_folder(path))
        return attributes_of(path) == INVALID_FILE_ATTRIBUTES ? ENOENT : ENOTDIR;
    folder->path = absolute_path(path);
    return folder->path ? 0 : ENOMEM;
}

/*
 * Folders have no locks. A file that nobody else can open, deleted when its handle closes, acts as
 * one.
 */
int tmi_folder_lock(tmi_folder *folder) {
    static const char name[] = ".tenmap-lock";
    int failed = ENOMEM;
    char *file = path_in(folder, name);
    wchar_t *wide = file ? tmi_wide_path(file, &failed) : NULL;
    free(file);
    if (!wide)
        return failed;
    HANDLE handle = CreateFileW(
        wide, GENERIC_READ | GENERIC_WRITE | DELETE, 0, NULL, OPEN_ALWAYS,
        FILE_ATTRIBUTE_HIDDEN | FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    DWORD code = GetLastError();
    free(wide);
    if (handle == INVALID_HANDLE_VALUE)
        return code == ERROR_SHARING_VIOLATION ? EWOULDBLOCK : tmi_errno_of(code);
    folder->fd = tmi_handle_adopt(handle, _O_RDWR, &failed);
    return failed;
}

/* Folders cannot be synced on Windows: flushing the file makes a change in its folder durable. */
int tmi_folder_sync(const tmi_folder *folder) {
    (void)folder;
    return 0;
}

void tmi_folder_close(tmi_folder *folder) {
    if (folder->fd >= 0)
        _close(folder->fd);
    free(folder->path);
    *folder = TMI_NO_FOLDER;
}

/* Splits the full path, not the given one: "C:name" and ".." refer to other folders. */
int tmi_location_find(tmi_location *location, const char *path, bool follow) {
    *location = TMI_NO_LOCATION;
    if (!*path)
        return ENOENT;
    location->shown = follow ? tmi_resolve(path) : tmi_copy_text(path, strlen(path));
    char *full = location->shown ? absolute_path(location->shown) : NULL;
    const char *name = full ? full + tmi_folder_part(full) : "";
    location->folder.path = full ? tmi_folder_of(full) : NULL;
    location->name = full ? tmi_copy_text(*name ? name : ".", *name ? strlen(name) : 1) : NULL;
    free(full);
    if (location->folder.path && location->name)
        return 0;
    tmi_location_free(location);
    return ENOMEM;
}

void tmi_location_free(tmi_location *location) {
    tmi_folder_close(&location->folder);
    free(location->name);
    free(location->shown);
    *location = TMI_NO_LOCATION;
}

/* Temporary files. */

static int unlink_path(const char *path) {
    int failed;
    wchar_t *wide = tmi_wide_path(path, &failed);
    if (!wide)
        return failed;
    failed = DeleteFileW(wide) ? 0 : tmi_errno_of(GetLastError());
    free(wide);
    return failed == ENOENT ? 0 : failed;
}

/* Whether somebody has removed the open file; its name disappears when the last handle closes. */
static bool is_removed(HANDLE handle) {
    FILE_STANDARD_INFO info;
    return GetFileInformationByHandleEx(handle, FileStandardInfo, &info, sizeof info) &&
           info.DeletePending;
}

void tmi_remove_if_stale(const tmi_folder *folder, const char *name) {
    int failed;
    char *path = path_in(folder, name);
    HANDLE handle = path ? tmi_handle_open(path, GENERIC_READ | GENERIC_WRITE, TMI_SHARE_ALL,
                                           FILE_FLAG_OPEN_REPARSE_POINT, &failed)
                         : INVALID_HANDLE_VALUE;
    if (handle != INVALID_HANDLE_VALUE) {
        if (lock_handle(handle, LOCKFILE_EXCLUSIVE_LOCK) == 0 && !is_removed(handle))
            (void)unlink_path(path);
        CloseHandle(handle);
    }
    free(path);
}

/* The handle needs DELETE access to rename its file. */
static int create_one(tmi_atomic_file *target) {
    int failed = ENOMEM;
    tmi_temp_name(target->temp, sizeof target->temp, target->location.name);
    char *path = path_in(&target->location.folder, target->temp);
    wchar_t *wide = path ? tmi_wide_path(path, &failed) : NULL;
    free(path);
    if (!wide)
        return failed;
    HANDLE handle = CreateFileW(wide, GENERIC_READ | GENERIC_WRITE | DELETE, TMI_SHARE_ALL, NULL,
                                CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    failed = handle == INVALID_HANDLE_VALUE ? tmi_errno_of(GetLastError()) : 0;
    free(wide);
    if (failed)
        return failed;
    if (lock_handle(handle, LOCKFILE_EXCLUSIVE_LOCK) != 0 || is_removed(handle)) {
        CloseHandle(handle); /* another writer took it for stale before it was locked */
        return EEXIST;
    }
    target->fd = tmi_handle_adopt(handle, _O_RDWR, &failed);
    return failed;
}

/* Windows devices have reserved names in every folder, so no file in a folder is special. */
bool tmi_is_special(const tmi_folder *folder, const char *name) {
    (void)folder, (void)name;
    return false;
}

/*
 * Counts UTF-16 units, as the limit does. The name is valid UTF-8; no file can have another name.
 */
static bool is_name_too_long(const char *name) {
    size_t units = 0;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        units += *c >= 0xf0 ? 2u : (*c & 0xc0) != 0x80;
    return units > 255;
}

/*
 * Removes what dead writers left in the location's folder, then creates the temporary file there.
 */
static int win32_start_atomic_file(tmi_atomic_file *target) {
    const tmi_location *location = &target->location;
    char *path = path_in(&location->folder, location->name);
    int failed = !path ? ENOMEM : tmi_is_folder(path) ? EISDIR : 0;
    if (!failed && is_name_too_long(location->name))
        failed = ENAMETOOLONG;
    free(path);
    if (!failed)
        tmi_each_temp(&location->folder, location->name, tmi_remove_if_stale);
    for (int tries = 0; !failed && target->fd < 0 && tries < 100; tries++) {
        failed = create_one(target);
        if (failed == EEXIST && tries < 99)
            failed = 0;
    }
    return failed;
}

int tmi_atomic_file_begin(tmi_atomic_file *target, const char *path, bool follow) {
    *target = TMI_NO_ATOMIC_FILE;
    int failed = tmi_location_find(&target->location, path, follow);
    if (!failed)
        failed = win32_start_atomic_file(target);
    if (failed)
        tmi_atomic_file_discard(target);
    return failed;
}

/* `like` is ignored: a new file gets its rights from its folder, as the other file did. */
int tmi_atomic_file_begin_in(tmi_atomic_file *target, const tmi_folder *folder, const char *name,
                             const char *shown, int like) {
    tmi_location *location = &target->location;
    (void)like;
    *target = TMI_NO_ATOMIC_FILE;
    location->folder.path = tmi_copy_text(folder->path, strlen(folder->path));
    location->name = tmi_copy_text(name, strlen(name));
    location->shown = tmi_copy_text(shown, strlen(shown));
    int failed = location->folder.path && location->name && location->shown
                     ? win32_start_atomic_file(target)
                     : ENOMEM;
    if (failed)
        tmi_atomic_file_discard(target);
    return failed;
}

static void win32_close_atomic_file(tmi_atomic_file *target) {
    if (target->fd >= 0)
        _close(target->fd);
    tmi_location_free(&target->location);
    *target = TMI_NO_ATOMIC_FILE;
}

/*
 * Renames the open file over whatever is at the path. POSIX semantics, available from Windows 10 on
 * with NTFS, replace a file that others have open or mapped.
 */
static bool rename_handle(HANDLE handle, const wchar_t *to) {
    size_t bytes = wcslen(to) * sizeof *to;
    size_t room = sizeof(FILE_RENAME_INFO) + bytes + sizeof *to;
    FILE_RENAME_INFO *info = tmi_calloc(1, room);
    if (!info)
        return false;
    /* FileRenameInfoEx, whose first field is a set of flags: replace, POSIX semantics. */
    const FILE_INFO_BY_HANDLE_CLASS extended = (FILE_INFO_BY_HANDLE_CLASS)22;
    const DWORD flags = 0x1 | 0x2;
    memcpy(info, &flags, sizeof flags);
    info->FileNameLength = (DWORD)bytes;
    memcpy(info->FileName, to, bytes);
    bool done = SetFileInformationByHandle(handle, extended, info, (DWORD)room);
    free(info);
    return done;
}

static int move_file(const wchar_t *from, const wchar_t *to) {
    return MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)
               ? 0
               : tmi_errno_of(GetLastError());
}

/*
 * MoveFileExW does not replace a file that somebody has open, but such a file can be renamed. So
 * the old file is renamed, to a name that no search takes for a stale temporary file, and removed
 * as soon as the new one is in its place.
 */
static int move_over_open_file(const wchar_t *from, const wchar_t *to, const char *path) {
    int failed = ENOMEM;
    char *aside_path = tmi_sibling_path(path, ".tenmap-old");
    wchar_t *aside = aside_path ? tmi_wide_path(aside_path, &failed) : NULL;
    free(aside_path);
    if (!aside)
        return failed;
    failed = move_file(to, aside);
    if (!failed) {
        failed = move_file(from, to);
        if (failed)
            (void)move_file(aside, to);
        else
            (void)DeleteFileW(aside);
    }
    free(aside);
    return failed;
}

static int rename_over(HANDLE handle, const char *from, const char *to) {
    int failed = 0;
    wchar_t *wide_to = tmi_wide_path(to, &failed);
    wchar_t *wide_from = wide_to ? tmi_wide_path(from, &failed) : NULL;
    if (wide_from && !rename_handle(handle, wide_to)) {
        failed = move_file(wide_from, wide_to);
        if (failed == EACCES && !(attributes_of(to) & FILE_ATTRIBUTE_READONLY))
            failed = move_over_open_file(wide_from, wide_to, to);
    }
    free(wide_from);
    free(wide_to);
    return failed;
}

/* Flushing the file after the rename also makes the rename durable. */
int tmi_atomic_file_commit(tmi_atomic_file *target, bool *replaced) {
    char *from = path_in(&target->location.folder, target->temp);
    char *to = path_in(&target->location.folder, target->location.name);
    int failed = from && to ? tmi_fd_sync(target->fd) : ENOMEM;
    *replaced = false;
    if (!failed && target->expected &&
        (!tmi_fd_is_at(target->expected->fd, &target->location.folder, target->location.name) ||
         tmi_file_changed(target->expected, NULL)))
        failed = TMI_NOT_AS_OPENED;
    if (!failed)
        failed = rename_over(tmi_handle_of(target->fd), from, to);
    free(from);
    free(to);
    if (failed) {
        tmi_atomic_file_discard(target);
        return failed;
    }
    *replaced = true;
    failed = tmi_fd_sync(target->fd);
    win32_close_atomic_file(target);
    return failed;
}

void tmi_atomic_file_discard(tmi_atomic_file *target) {
    if (target->fd >= 0 && !is_removed(tmi_handle_of(target->fd))) {
        char *path = path_in(&target->location.folder, target->temp);
        if (path)
            (void)unlink_path(path);
        free(path);
    }
    win32_close_atomic_file(target);
}

/* Bytes. */

int tmi_fd_reserve(int fd, uint64_t size) {
    if (size > INT64_MAX)
        return EOVERFLOW;
    FILE_END_OF_FILE_INFO end = {.EndOfFile = {.QuadPart = (LONGLONG)size}};
    HANDLE handle = tmi_handle_of(fd);
    return SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end)
               ? 0
               : tmi_errno_of(GetLastError());
}

int tmi_fd_write(int fd, uint64_t offset, const void *src, size_t size) {
    HANDLE handle = tmi_handle_of(fd);
    const char *at = src;
    while (size > 0) {
        OVERLAPPED place = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
        DWORD part = size < WIN32_WRITE_AT_MOST ? (DWORD)size : WIN32_WRITE_AT_MOST, n = 0;
        if (!WriteFile(handle, at, part, &n, &place))
            return tmi_errno_of(GetLastError());
        if (n == 0)
            return ENOSPC;
        at += n;
        offset += n;
        size -= n;
    }
    return 0;
}

int tmi_fd_sync(int fd) {
    return FlushFileBuffers(tmi_handle_of(fd)) ? 0 : tmi_errno_of(GetLastError());
}

/* Only ReFS can share blocks, and Windows has no call that copies a range of a file. */
int tmi_fd_copy(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t size, uint64_t *done) {
    (void)from, (void)from_at, (void)to, (void)to_at, (void)size;
    *done = 0;
    return EOPNOTSUPP;
}

int tmi_fd_clone(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t size) {
    (void)from, (void)from_at, (void)to, (void)to_at, (void)size;
    return EOPNOTSUPP;
}

uint64_t tmi_fd_block(int fd) {
    (void)fd;
    return 65536;
}

/* Files that are changed in place. */

static int identity_of(HANDLE handle, tmi_identity *identity) {
    BY_HANDLE_FILE_INFORMATION info;
    *identity = (tmi_identity){.regular = false};
    if (!GetFileInformationByHandle(handle, &info))
        return tmi_errno_of(GetLastError());
    *identity = (tmi_identity){.device = info.dwVolumeSerialNumber,
                               .inode = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
                               .size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow,
                               .links = info.nNumberOfLinks,
                               .regular = !(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)};
    return 0;
}

int tmi_fd_identity(int fd, tmi_identity *identity) {
    return identity_of(tmi_handle_of(fd), identity);
}

/*
 * Whether the path is a reparse point that refers to another name, unlike those of compressed or
 * remote files.
 */
static bool is_link(const char *path) {
    int failed;
    FILE_ATTRIBUTE_TAG_INFO tag = {0, 0};
    HANDLE handle = tmi_handle_open(
        path, 0, TMI_SHARE_ALL, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, &failed);
    if (handle == INVALID_HANDLE_VALUE)
        return false;
    bool known = GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag);
    CloseHandle(handle);
    return known && (tag.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) &&
           (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK ||
            tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
}

static int open_no_link(const tmi_folder *folder, const char *name, DWORD access, int flags,
                        int *fd) {
    int failed = ENOMEM;
    HANDLE handle = INVALID_HANDLE_VALUE;
    char *path = path_in(folder, name);
    *fd = -1;
    if (path && is_link(path))
        failed = ELOOP;
    else if (path)
        handle = tmi_handle_open(path, access, TMI_SHARE_ALL, 0, &failed);
    if (handle != INVALID_HANDLE_VALUE)
        *fd = tmi_handle_adopt(handle, flags, &failed);
    free(path);
    return failed;
}

int tmi_fd_open_write(const tmi_folder *folder, const char *name, int *fd) {
    return open_no_link(folder, name, GENERIC_READ | GENERIC_WRITE, _O_RDWR, fd);
}

int tmi_fd_open_read(const tmi_folder *folder, const char *name, int *fd) {
    return open_no_link(folder, name, GENERIC_READ, _O_RDONLY, fd);
}

/* Owners are not checked: rights come from the folder. */
bool tmi_fd_owner_is_trusted(int fd, int other, uint64_t *owner) {
    (void)fd, (void)other;
    *owner = 0;
    return true;
}

void tmi_fd_close(int fd) {
    if (fd >= 0)
        _close(fd);
}

bool tmi_fd_is_at(int fd, const tmi_folder *folder, const char *name) {
    int failed;
    tmi_identity at_path, open_now;
    char *path = path_in(folder, name);
    HANDLE handle =
        path ? tmi_handle_open(path, 0, TMI_SHARE_ALL, FILE_FLAG_BACKUP_SEMANTICS, &failed)
             : INVALID_HANDLE_VALUE;
    free(path);
    if (handle == INVALID_HANDLE_VALUE)
        return false;
    failed = identity_of(handle, &at_path);
    CloseHandle(handle);
    return !failed && tmi_fd_identity(fd, &open_now) == 0 && at_path.device == open_now.device &&
           at_path.inode == open_now.inode;
}

/* A share that cannot be reached, or a folder that may not be read, says nothing about the name. */
bool tmi_is_absent(const tmi_folder *folder, const char *name) {
    int failed;
    char *path = path_in(folder, name);
    wchar_t *wide = path ? tmi_wide_path(path, &failed) : NULL;
    bool refused = wide && GetFileAttributesW(wide) == INVALID_FILE_ATTRIBUTES;
    DWORD code = refused ? GetLastError() : ERROR_SUCCESS;
    free(wide);
    free(path);
    return code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND ||
           code == ERROR_INVALID_NAME || code == ERROR_FILENAME_EXCED_RANGE;
}

int tmi_unlink(const tmi_folder *folder, const char *name) {
    char *path = path_in(folder, name);
    int failed = path ? unlink_path(path) : ENOMEM;
    free(path);
    return failed;
}

int tmi_remove(const tmi_folder *folder, const char *name) {
    return tmi_unlink(folder, name);
}

#endif
#endif
