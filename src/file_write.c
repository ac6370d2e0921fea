/*
 * The operating system, for writing: files that replace others whole or not at all, room on the
 * disk, copies inside the kernel. POSIX, as file.c is; file_write_win32.c is the same for Windows.
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
#endif

#ifndef PATH_MAX
#define PATH_MAX 4096 /* systems without a limit do not define it */
#endif

/* One pwrite moves at most this much: Linux stops a little under 2 GiB, macOS refuses more. */
enum { WRITE_AT_MOST = 1 << 30 };
char *tmi_resolve(const char *path) {
    char real[PATH_MAX];
    const char *shown = realpath(path, real) ? real : path;
    return tmi_copy_text(shown, strlen(shown));
}

/* Opens the folder that a path is in; -1 and errno. */
static int open_parent(const char *path) {
    char *folder = tmi_folder_of(path);
    if (!folder) {
        errno = ENOMEM;
        return -1;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = errno;
    free(folder);
    errno = failed;
    return fd;
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

/* A writer holds the lock of its file for as long as it lives; a free one has none. */
void tmi_remove_if_stale(const tmi_folder *folder, const char *name) {
    int fd = openat(folder->fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && still_named(folder->fd, name, fd))
        (void)unlinkat(folder->fd, name, 0);
    close(fd);
}

/*
 * Another writer that looks for stale files may find the new one before its lock is taken, and
 * remove it: then it has lost its name, and the next try gets another. So it does if somebody else
 * who may read it has locked it, or if the file system does not know it again; it is not left there.
 */
static int create_temporary(tmi_target *target, mode_t mode) {
    int failed = 0;
    for (int tries = 0; tries < 100; tries++) {
        tmi_temp_name(target->temp, sizeof target->temp, target->path);
        int fd = openat(target->folder, target->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        failed = fd < 0 ? errno : 0;
        if (failed && failed != EEXIST) /* it may be there all the same, and is nobody else's */
            (void)unlinkat(target->folder, target->temp, 0);
        if (failed == EEXIST || failed == EINTR)
            continue;
        if (failed)
            return failed;
        /* Where a file system has no locks, nobody can take this one either. */
        bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && still_named(target->folder, target->temp, fd)) {
            target->fd = fd;
            return 0;
        }
        failed = taken ? EWOULDBLOCK : ESTALE;
        (void)unlinkat(target->folder, target->temp, 0);
        close(fd);
    }
    return failed;
}

/* Whether the file lets nobody do what this mode does not. */
static bool is_no_wider(int fd, mode_t mode) {
    struct stat now;
    return fstat(fd, &now) == 0 && (now.st_mode & 0777 & ~mode) == 0;
}

/* As the file that will be replaced is; an owner that may not be given is left. */
static int take_attributes(int fd, const struct stat *old) {
    mode_t mode = old->st_mode & 0777;
    if (fchown(fd, old->st_uid, old->st_gid) != 0)
        (void)!fchown(fd, (uid_t)-1, old->st_gid);
    if (fchmod(fd, mode) == 0)
        return 0;
    int failed = errno; /* a file system without modes that can be set */
    return is_no_wider(fd, mode) ? 0 : failed;
}

/* Opens the folder and clears it of what dead writers left. */
static int target_folder(tmi_target *target) {
    char *path = tmi_folder_of(target->path);
    if (!path)
        return ENOMEM;
    target->folder = open_parent(target->path);
    int failed = target->folder < 0 ? errno : 0;
    if (!failed)
        tmi_remove_all_stale(&(tmi_folder){path, target->folder}, target->path);
    free(path);
    return failed;
}

/* `like` has the new file's attributes; NULL: the file that it replaces, if there is one. */
static int begin_target(tmi_target *target, const char *path, bool follow,
                        const struct stat *like) {
    struct stat old;
    *target = (tmi_target){.fd = -1, .folder = -1};
    target->path = follow ? tmi_resolve(path) : tmi_copy_text(path, strlen(path));
    if (!target->path)
        return ENOMEM;
    bool replaces = stat(target->path, &old) == 0;
    int failed = replaces && S_ISDIR(old.st_mode) ? EISDIR : 0;
    if (!failed && !target->path[tmi_folder_part(target->path)])
        failed = *target->path ? EISDIR : ENOENT;
    if (!failed)
        failed = target_folder(target);
    if (!like && replaces && S_ISREG(old.st_mode))
        like = &old;
    if (!failed)
        failed = create_temporary(target, like ? like->st_mode & 0777 : 0666);
    if (!failed && like)
        failed = take_attributes(target->fd, like);
    if (failed)
        tmi_target_discard(target);
    return failed;
}

int tmi_target_begin(tmi_target *target, const char *path, bool follow) {
    return begin_target(target, path, follow, NULL);
}

int tmi_target_begin_like(tmi_target *target, const char *path, int like) {
    struct stat st;
    return fstat(like, &st) == 0 ? begin_target(target, path, false, &st) : errno;
}

static void target_close(tmi_target *target) {
    if (target->fd >= 0)
        close(target->fd);
    if (target->folder >= 0)
        close(target->folder);
    free(target->path);
    *target = (tmi_target){.fd = -1, .folder = -1};
}

/* Whether the name still leads to the file that is to be replaced, and nobody has changed it. */
static bool is_as_opened(const tmi_target *target, const char *name) {
    struct stat named_now, open_now;
    if (!target->over)
        return true;
    return fstatat(target->folder, name, &named_now, 0) == 0 &&
           fstat(target->over->fd, &open_now) == 0 && same_file(&named_now, &open_now) &&
           !tmi_file_changed(target->over, NULL);
}

int tmi_target_commit(tmi_target *target, bool *replaced) {
    const char *name = target->path + tmi_folder_part(target->path);
    int failed = tmi_fd_sync(target->fd);
    *replaced = false;
    if (!failed && !is_as_opened(target, name))
        failed = TMI_NOT_AS_OPENED;
    if (!failed && renameat(target->folder, target->temp, target->folder, name) != 0)
        failed = errno;
    if (failed) {
        tmi_target_discard(target);
        return failed;
    }
    *replaced = true;
    failed = tmi_fd_sync(target->folder);
    target_close(target);
    return failed;
}

void tmi_target_discard(tmi_target *target) {
    struct stat named, own;
    bool anothers = target->fd >= 0 &&
                    fstatat(target->folder, target->temp, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                    fstat(target->fd, &own) == 0 && !same_file(&named, &own);
    if (target->fd >= 0 && !anothers) /* where that cannot be told, the name is ours */
        (void)unlinkat(target->folder, target->temp, 0);
    target_close(target);
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

int tmi_fd_write(int fd, uint64_t offset, const void *src, size_t size) {
    const char *at = src;
    while (size > 0) {
        size_t part = size < WRITE_AT_MOST ? size : WRITE_AT_MOST;
        ssize_t n = pwrite(fd, at, part, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

/*
 * Network file systems may say only when a file is closed that they could not store it: closing a
 * second descriptor asks them, while the first still holds the lock.
 */
static int ask_at_close(int fd) {
    int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (second < 0 || close(second) == 0 || errno == EINTR)
        return 0;
    return errno;
}

/* On macOS fsync leaves the bytes in the drive's own cache; file systems without F_FULLFSYNC say so.
 */
int tmi_fd_sync(int fd) {
    int failed;
#ifdef __APPLE__
    if (fcntl(fd, F_FULLFSYNC) == 0)
        return ask_at_close(fd);
#endif
    do
        failed = fsync(fd) == 0 ? 0 : errno;
    while (failed == EINTR);
    return failed ? failed : ask_at_close(fd);
}

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
/* As <linux/fs.h> has it: not every C library comes with the kernel's headers. */
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

/* Files that are changed where they lie. */

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

int tmi_fd_open_write(const char *path, int *fd) {
    do
        *fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? errno : 0;
}

int tmi_fd_open_read(const char *path, int *fd) {
    do
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? errno : 0;
}

bool tmi_fd_owner_answers(int fd, int other, uint64_t *owner) {
    struct stat mine, others;
    if (fstat(fd, &mine) != 0 || fstat(other, &others) != 0)
        return false;
    *owner = (uint64_t)mine.st_uid;
    return mine.st_uid == others.st_uid || mine.st_uid == geteuid() || mine.st_uid == 0;
}

int tmi_fd_lock(int fd) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0; /* where a file system has no locks, editing goes without */
    return EWOULDBLOCK;
}

int tmi_folder_lock(const char *path, int *fd) {
    do
        *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? errno : tmi_fd_lock(*fd);
}

void tmi_fd_close(int fd) {
    if (fd >= 0)
        close(fd);
}

bool tmi_fd_is_at(int fd, const char *path) {
    struct stat at_path, open_now;
    return stat(path, &at_path) == 0 && fstat(fd, &open_now) == 0 && same_file(&at_path, &open_now);
}

bool tmi_exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

bool tmi_is_absent(const char *path) {
    struct stat st;
    return lstat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG);
}

int tmi_sync_folder_of(const char *path) {
    int folder = open_parent(path);
    if (folder < 0)
        return errno;
    int failed = tmi_fd_sync(folder);
    close(folder);
    return failed;
}

int tmi_unlink(const char *path) {
    return unlink(path) == 0 || errno == ENOENT ? 0 : errno;
}

int tmi_remove(const char *path) {
    int failed = tmi_unlink(path);
    return failed ? failed : tmi_sync_folder_of(path);
}

#endif
