/*
 * Writing files on POSIX: atomic replacement, disk space, copies that the operating system makes.
 * file_write_win32.c is the Windows version.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "os.h"

#ifndef _WIN32

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#endif

#ifndef PATH_MAX
#define PATH_MAX 4096 /* systems without a limit do not define it */
#endif

/* Also used by readers. */

char *tmi_resolve(const char *path) {
    char real[PATH_MAX];
    const char *shown = realpath(path, real) ? real : path;
    return tmi_copy_text(shown, strlen(shown));
}

bool tmi_exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

#ifndef TENMAP_NO_WRITE

/* The most that one copy_file_range requests: Linux stops a little under 2 GiB. */
enum { WRITE_AT_MOST = 1 << 30 };

/* Folders and locations. */

int tmi_folder_open(tmi_folder *folder, const char *path) {
    *folder = TMI_NO_FOLDER;
    do
        folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (folder->fd < 0 && errno == EINTR);
    return folder->fd < 0 ? errno : 0;
}

int tmi_folder_lock(tmi_folder *folder) {
    return tmi_fd_lock(folder->fd);
}

int tmi_folder_sync(const tmi_folder *folder) {
    return tmi_fd_sync(folder->fd);
}

void tmi_folder_close(tmi_folder *folder) {
    if (folder->fd >= 0)
        close(folder->fd);
    *folder = TMI_NO_FOLDER;
}

/* Finds the location of the path as spelled. Takes ownership of `spelled`, which may be NULL. */
static int find_as_spelled(tmi_location *location, char *spelled) {
    *location = TMI_NO_LOCATION;
    location->shown = spelled;
    char *folder = spelled ? tmi_folder_of(spelled) : NULL;
    const char *name = folder ? spelled + tmi_folder_part(spelled) : "";
    location->name = folder ? tmi_copy_text(*name ? name : ".", *name ? strlen(name) : 1) : NULL;
    int failed = location->name ? tmi_folder_open(&location->folder, folder) : ENOMEM;
    free(folder);
    if (failed)
        tmi_location_free(location);
    return failed;
}

int tmi_location_find(tmi_location *location, const char *path, bool follow) {
    *location = TMI_NO_LOCATION;
    if (!*path)
        return ENOENT;
    int failed = follow ? find_as_spelled(location, tmi_resolve(path)) : EACCES;
    struct stat named;
    /*
     * A user without access from the root to the working directory can still be in it, so a path
     * that is not a link is retried as given.
     */
    if (failed == EACCES && (!follow || lstat(path, &named) != 0 || !S_ISLNK(named.st_mode)))
        failed = find_as_spelled(location, tmi_copy_text(path, strlen(path)));
    return failed;
}

void tmi_location_free(tmi_location *location) {
    tmi_folder_close(&location->folder);
    free(location->name);
    free(location->shown);
    *location = TMI_NO_LOCATION;
}

/* Temporary files. */

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether the descriptor's file still has this name in the folder. */
static bool still_named(int folder, const char *name, int fd) {
    struct stat named_now, open_now;
    return fstatat(folder, name, &named_now, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(fd, &open_now) == 0 && same_file(&named_now, &open_now);
}

/* A living writer holds the lock of its file, so an unlocked file is stale. */
void tmi_remove_if_stale(const tmi_folder *folder, const char *name) {
    int fd = openat(folder->fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && still_named(folder->fd, name, fd))
        (void)unlinkat(folder->fd, name, 0);
    close(fd);
}

/*
 * Another writer's search for stale files may find and remove the new file before it is locked. It
 * then has lost its name, and the next try uses another one. The same happens if somebody else who
 * may read the file has locked it, or if the file system does not recognize it; then the file is
 * removed here.
 */
static int create_temporary(tmi_atomic_file *target, mode_t mode) {
    int failed = 0, folder = target->location.folder.fd;
    for (int tries = 0; tries < 100; tries++) {
        tmi_temp_name(target->temp, sizeof target->temp, target->location.name);
        int fd = openat(folder, target->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        failed = fd < 0 ? errno : 0;
        /* It may have been created all the same, and nobody else uses the name. */
        if (failed && failed != EEXIST)
            (void)unlinkat(folder, target->temp, 0);
        if (failed == EEXIST || failed == EINTR)
            continue;
        if (failed)
            return failed;
        /* On a file system without locks, nobody else can take this one either. */
        bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && still_named(folder, target->temp, fd)) {
            target->fd = fd;
            return 0;
        }
        failed = taken ? EWOULDBLOCK : ESTALE;
        (void)unlinkat(folder, target->temp, 0);
        close(fd);
    }
    return failed;
}

/* Whether the file grants nothing that this mode does not. */
static bool grants_no_more(int fd, mode_t mode) {
    struct stat now;
    return fstat(fd, &now) == 0 && (now.st_mode & 0777 & ~mode) == 0;
}

enum { ACL_NONE, ACL_COPIED, ACL_LOST };

/*
 * Gives the new file the old file's access control list, or removes the one inherited from its
 * folder. ACL_LOST if that cannot be done or cannot be determined. Only the POSIX lists of Linux
 * are handled; lists of other systems and of NFS are left alone.
 */
static int copy_acl(int fd, int old) {
#ifdef __linux__
    static const char kind[] = "system.posix_acl_access";
    ssize_t size = fgetxattr(old, kind, NULL, 0);
    if (size < 0 && (errno == ENODATA || errno == EOPNOTSUPP || errno == ENOSYS))
        return fremovexattr(fd, kind) == 0 || errno == ENODATA || errno == EOPNOTSUPP ||
                       errno == ENOSYS
                   ? ACL_NONE
                   : ACL_LOST;
    char *list = size > 0 ? malloc((size_t)size) : NULL;
    if (list)
        size = fgetxattr(old, kind, list, (size_t)size);
    bool done = list && size > 0 && fsetxattr(fd, kind, list, (size_t)size, 0) == 0;
    free(list);
    return done ? ACL_COPIED : ACL_LOST;
#else
    (void)fd, (void)old;
    return ACL_NONE;
#endif
}

/* The old file's mode, without rights for users who had none on the old file. */
static mode_t new_file_mode(int fd, const struct stat *old, int list) {
    struct stat now;
    mode_t mode = old->st_mode & 0777, both = mode & mode >> 3 & 07;
    bool group_kept = fstat(fd, &now) == 0 && now.st_gid == old->st_gid;
    if (group_kept && list != ACL_LOST)
        return mode;
    /*
     * With an access control list the group bits are its mask, and the list may exclude users by
     * name.
     */
    if (list != ACL_NONE)
        return mode & 0700;
    /*
     * Members of the old group are now "others", and members of the new group were "others" before.
     */
    return (mode_t)((mode & 0700) | both << 3 | both);
}

/*
 * Gives the new file the owner, list and mode of the old one. `like` is open on the old file, or -1
 * if it cannot be opened. An owner that may not be set is left as it is. Before this call only the
 * owner has access to the new file.
 */
static int copy_attributes(int fd, int like, const struct stat *old) {
    if (fchown(fd, old->st_uid, old->st_gid) != 0)
        (void)!fchown(fd, (uid_t)-1, old->st_gid);
    mode_t mode = new_file_mode(fd, old, like >= 0 ? copy_acl(fd, like) : ACL_LOST);
    if (fchmod(fd, mode) == 0)
        return 0;
    int failed = errno; /* the file system may not support setting modes */
    return grants_no_more(fd, mode) ? 0 : failed;
}

bool tmi_is_special(const tmi_folder *folder, const char *name) {
    struct stat st;
    return fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode) &&
           !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode);
}

/*
 * Checks whether a file can be placed there. If a link is there, its target is checked, although
 * the link itself would be replaced.
 */
static int check_location(const tmi_location *location, struct stat *old, bool *replaces) {
    struct stat named;
    *replaces = false;
    if (fstatat(location->folder.fd, location->name, &named, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENAMETOOLONG ? ENAMETOOLONG : 0;
    if (tmi_is_special(&location->folder, location->name))
        return TMI_NOT_A_FILE;
    if (fstatat(location->folder.fd, location->name, old, 0) != 0)
        return 0;
    *replaces = S_ISREG(old->st_mode);
    return S_ISDIR(old->st_mode) ? EISDIR : 0;
}

/*
 * Removes what dead writers left in the location's folder, then creates the temporary file there.
 */
static int start_atomic_file(tmi_atomic_file *target, int like) {
    const tmi_location *location = &target->location;
    struct stat old;
    bool replaces;
    int own = -1, failed = check_location(location, &old, &replaces);
    if (failed)
        return failed;
    tmi_each_temp(&location->folder, location->name, tmi_remove_if_stale);
    if (like >= 0 && fstat(like, &old) != 0)
        return errno;
    bool known = like >= 0 || replaces;
    failed = create_temporary(target, known ? old.st_mode & 0700 : 0666);
    if (failed || !known)
        return failed;
    if (like < 0)
        own = openat(location->folder.fd, location->name,
                     O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    failed = copy_attributes(target->fd, like < 0 ? own : like, &old);
    tmi_fd_close(own);
    return failed;
}

int tmi_atomic_file_begin(tmi_atomic_file *target, const char *path, bool follow) {
    *target = TMI_NO_ATOMIC_FILE;
    int failed = tmi_location_find(&target->location, path, follow);
    if (!failed)
        failed = start_atomic_file(target, -1);
    if (failed)
        tmi_atomic_file_discard(target);
    return failed;
}

int tmi_atomic_file_begin_in(tmi_atomic_file *target, const tmi_folder *folder, const char *name,
                             const char *shown, int like) {
    *target = TMI_NO_ATOMIC_FILE;
    target->location.name = tmi_copy_text(name, strlen(name));
    target->location.shown = tmi_copy_text(shown, strlen(shown));
    target->location.folder.fd = fcntl(folder->fd, F_DUPFD_CLOEXEC, 0);
    int failed = target->location.folder.fd < 0 ? errno : 0;
    if (!target->location.name || !target->location.shown)
        failed = ENOMEM;
    if (!failed)
        failed = start_atomic_file(target, like);
    if (failed)
        tmi_atomic_file_discard(target);
    return failed;
}

static void close_atomic_file(tmi_atomic_file *target) {
    if (target->fd >= 0)
        close(target->fd);
    tmi_location_free(&target->location);
    *target = TMI_NO_ATOMIC_FILE;
}

int tmi_atomic_file_commit(tmi_atomic_file *target, bool *replaced) {
    const tmi_location *location = &target->location;
    int failed = tmi_fd_sync(target->fd);
    *replaced = false;
    if (!failed && target->expected &&
        (!tmi_fd_is_at(target->expected->fd, &location->folder, location->name) ||
         tmi_file_changed(target->expected, NULL)))
        failed = TMI_NOT_AS_OPENED;
    if (!failed &&
        renameat(location->folder.fd, target->temp, location->folder.fd, location->name) != 0)
        failed = errno;
    if (failed) {
        tmi_atomic_file_discard(target);
        return failed;
    }
    *replaced = true;
    failed = tmi_folder_sync(&location->folder);
    close_atomic_file(target);
    return failed;
}

void tmi_atomic_file_discard(tmi_atomic_file *target) {
    struct stat named, own;
    int folder = target->location.folder.fd;
    bool anothers = target->fd >= 0 &&
                    fstatat(folder, target->temp, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                    fstat(target->fd, &own) == 0 && !same_file(&named, &own);
    if (target->fd >= 0 && !anothers) /* if that cannot be determined, the name is ours */
        (void)unlinkat(folder, target->temp, 0);
    close_atomic_file(target);
}

/* Bytes. */

int tmi_fd_reserve(int fd, uint64_t size) {
    if (size > INT64_MAX)
        return EOVERFLOW;
#ifdef __linux__
    int failed;
    do
        failed = size && fallocate(fd, 0, 0, (off_t)size) != 0 ? errno : 0;
    while (failed == EINTR);
    if (failed && failed != EOPNOTSUPP && failed != ENOSYS && failed != EINVAL)
        return failed;
    if (!failed && size)
        return 0;
#endif
#ifdef __APPLE__
    fstore_t room = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE};
    room.fst_length = (off_t)size;
    if (size && fcntl(fd, F_PREALLOCATE, &room) != 0 && errno == ENOSPC)
        return ENOSPC;
#endif
    return ftruncate(fd, (off_t)size) == 0 ? 0 : errno;
}

/*
 * Starts writing these bytes to disk while the next ones are computed, so that the final fsync has
 * little left to do. This is only a hint, and only for pieces large enough to be worth a request to
 * the disk.
 */
static void start_writeback(int fd, uint64_t offset, size_t size) {
#ifdef __linux__
    enum { LEAST_WRITEBACK = 4 << 20 };
    if (size >= LEAST_WRITEBACK)
        (void)sync_file_range(fd, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd, (void)offset, (void)size;
#endif
}

int tmi_fd_write(int fd, uint64_t offset, const void *src, size_t size) {
    enum { AT_ONCE = 32 << 20 };
    const char *at = src;
    while (size > 0) {
        size_t part = size < AT_ONCE ? size : AT_ONCE;
        ssize_t n = pwrite(fd, at, part, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        start_writeback(fd, offset, (size_t)n);
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

/*
 * Network file systems may report only at close that they could not store a file. Closing a
 * duplicate descriptor asks for that report while the original still holds the lock.
 */
static int close_duplicate(int fd) {
    int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (second < 0 || close(second) == 0 || errno == EINTR)
        return 0;
    return errno;
}

/*
 * On macOS fsync leaves the bytes in the drive's cache, so F_FULLFSYNC comes first; it fails on
 * file systems that do not support it.
 */
int tmi_fd_sync(int fd) {
    int failed;
#ifdef __APPLE__
    if (fcntl(fd, F_FULLFSYNC) == 0)
        return close_duplicate(fd);
#endif
    do
        failed = fsync(fd) == 0 ? 0 : errno;
    while (failed == EINTR);
    return failed ? failed : close_duplicate(fd);
}

#if defined(__linux__) && defined(__GLIBC__)
#if __GLIBC__ == 2 && __GLIBC_MINOR__ < 27
/* Older C libraries lack the function, and kernels before 4.5 the call. */
static ssize_t old_copy_file_range(int from, off_t *in, int to, off_t *out, size_t size,
                                   unsigned flags) {
#ifdef SYS_copy_file_range
    _Static_assert(sizeof(off_t) == sizeof(int64_t), "the kernel takes offsets of 64 bits");
    return (ssize_t)syscall(SYS_copy_file_range, from, in, to, out, size, flags);
#else
    (void)from, (void)in, (void)to, (void)out, (void)size, (void)flags;
    errno = ENOSYS;
    return -1;
#endif
}
#define copy_file_range old_copy_file_range
#endif
#endif

int tmi_fd_copy(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t size, uint64_t *done) {
    *done = 0;
#ifdef __linux__
    while (*done < size) {
        uint64_t left = size - *done;
        off_t in = (off_t)(from_at + *done), out = (off_t)(to_at + *done);
        ssize_t n = copy_file_range(from, &in, to, &out,
                                    left < WRITE_AT_MOST ? (size_t)left : WRITE_AT_MOST, 0);
        if (n == 0)
            return 0;
        if (n > 0)
            *done += (uint64_t)n;
        else if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
            return errno;
        else if (errno != EINTR)
            return EOPNOTSUPP;
    }
    return 0;
#else
    (void)from, (void)from_at, (void)to, (void)to_at, (void)size;
    return EOPNOTSUPP;
#endif
}

#ifdef __linux__
/* As in <linux/fs.h>: not every C library comes with the kernel's headers. */
typedef struct clone_range {
    int64_t src_fd;
    uint64_t src_offset, src_length, dest_offset;
} clone_range;
#define CLONE_RANGE _IOW(0x94, 13, clone_range)
#endif

int tmi_fd_clone(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t size) {
#ifdef __linux__
    clone_range range = {from, from_at, size, to_at};
    return ioctl(to, CLONE_RANGE, &range) == 0 ? 0 : errno;
#else
    (void)from, (void)from_at, (void)to, (void)to_at, (void)size;
    return EOPNOTSUPP;
#endif
}

uint64_t tmi_fd_block(int fd) {
    struct stat st;
    bool known = fstat(fd, &st) == 0 && st.st_blksize >= 512 && st.st_blksize <= 65536;
    return known && (st.st_blksize & (st.st_blksize - 1)) == 0 ? (uint64_t)st.st_blksize : 65536;
}

/* Files that are changed in place. */

int tmi_fd_identity(int fd, tmi_identity *identity) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    *identity = (tmi_identity){.device = (uint64_t)st.st_dev,
                               .inode = (uint64_t)st.st_ino,
                               .size = (uint64_t)st.st_size,
                               .links = (uint64_t)st.st_nlink,
                               .regular = S_ISREG(st.st_mode)};
    return 0;
}

static int open_no_link(const tmi_folder *folder, const char *name, int access, int *fd) {
    do
        *fd = openat(folder->fd, name, access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? errno : 0;
}

int tmi_fd_open_write(const tmi_folder *folder, const char *name, int *fd) {
    return open_no_link(folder, name, O_RDWR, fd);
}

int tmi_fd_open_read(const tmi_folder *folder, const char *name, int *fd) {
    return open_no_link(folder, name, O_RDONLY, fd);
}

bool tmi_fd_owner_is_trusted(int fd, int other, uint64_t *owner) {
    struct stat mine, others;
    if (fstat(fd, &mine) != 0 || fstat(other, &others) != 0)
        return false;
    *owner = (uint64_t)mine.st_uid;
    return mine.st_uid == others.st_uid || mine.st_uid == geteuid() || mine.st_uid == 0;
}

int tmi_fd_lock(int fd) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0; /* without locks in the file system, editing proceeds unlocked */
    return EWOULDBLOCK;
}

void tmi_fd_close(int fd) {
    if (fd >= 0)
        close(fd);
}

bool tmi_fd_is_at(int fd, const tmi_folder *folder, const char *name) {
    struct stat named_now, open_now;
    return fstatat(folder->fd, name, &named_now, 0) == 0 && fstat(fd, &open_now) == 0 &&
           same_file(&named_now, &open_now);
}

bool tmi_is_absent(const tmi_folder *folder, const char *name) {
    struct stat st;
    return fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 &&
           (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG);
}

int tmi_unlink(const tmi_folder *folder, const char *name) {
    return unlinkat(folder->fd, name, 0) == 0 || errno == ENOENT ? 0 : errno;
}

int tmi_remove(const tmi_folder *folder, const char *name) {
    int failed = tmi_unlink(folder, name);
    return failed ? failed : tmi_folder_sync(folder);
}

#endif
#endif
