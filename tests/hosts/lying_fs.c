/*
 * A file system that lies: the files of a folder, seen through faults that a test asks for
 * (lying.h).
 *
 *     lying_fs MOUNTPOINT FOLDER CONTROL
 *
 * It ends when it is unmounted, and when the process that started it ends. Exit 77: nothing can be
 * mounted here.
 */
#define FUSE_USE_VERSION 31
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "lying.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static lying *lies;
static int folder;

static int result(int returned) {
    return returned < 0 ? -errno : returned;
}

/* 0, or the error with which this call must fail. */
static int lie(enum lying_call call) {
    int number = atomic_fetch_add(&lies->call[call].count, 1) + 1;
    int error = atomic_load(&lies->call[call].error), first = atomic_load(&lies->call[call].first);
    bool now = first == 0 || number == first || (number > first && lies->call[call].again);
    return error && now ? -error : 0;
}

/* "/a/b" as a name in the folder. */
static const char *inside(const char *path) {
    return path[1] ? path + 1 : ".";
}

static bool ends_in(const char *path, const char *ending) {
    size_t len = strlen(path), end = strlen(ending);
    return len >= end && strcmp(path + len - end, ending) == 0;
}

static int lying_getattr(const char *path, struct stat *st, struct fuse_file_info *file) {
    static atomic_llong inode = 1000;
    int failed = lie(LIE_GETATTR);
    if (failed)
        return failed;
    failed = result(file ? fstat((int)file->fh, st)
                         : fstatat(folder, inside(path), st, AT_SYMLINK_NOFOLLOW));
    if (!failed && lies->size_added && ends_in(path, ".safetensors") &&
        atomic_fetch_sub(&lies->true_sizes, 1) <= 0)
        st->st_size += lies->size_added;
    if (lies->same_time)
        st->st_mtim = (struct timespec){1000000000, 0};
    if (lies->new_inodes)
        st->st_ino = (ino_t)atomic_fetch_add(&inode, 1);
    return failed;
}

static void set_way(struct fuse_file_info *file) {
    file->direct_io = lies->direct != 0;
    file->keep_cache = 0;
}

static int lying_open(const char *path, struct fuse_file_info *file) {
    int failed = lie(LIE_OPEN);
    if (failed)
        return failed;
    int fd = openat(folder, inside(path), file->flags & ~O_DIRECT);
    if (fd < 0)
        return -errno;
    file->fh = (uint64_t)fd;
    set_way(file);
    return 0;
}

static int lying_create(const char *path, mode_t mode, struct fuse_file_info *file) {
    int failed = lie(LIE_CREATE);
    if (failed)
        return failed;
    int fd = openat(folder, inside(path), (file->flags & ~O_DIRECT) | O_CREAT, mode);
    if (fd < 0)
        return -errno;
    file->fh = (uint64_t)fd;
    set_way(file);
    return 0;
}

static int lying_read(const char *path, char *dst, size_t size, off_t at,
                      struct fuse_file_info *file) {
    int failed = lie(LIE_READ), most = lies->read_at_most;
    (void)path;
    if (failed)
        return failed;
    return result(
        (int)pread((int)file->fh, dst, most && size > (size_t)most ? (size_t)most : size, at));
}

static int lying_write(const char *path, const char *src, size_t size, off_t at,
                       struct fuse_file_info *file) {
    int failed = lie(LIE_WRITE);
    (void)path;
    return failed ? failed : result((int)pwrite((int)file->fh, src, size, at));
}

static int lying_flush(const char *path, struct fuse_file_info *file) {
    (void)path, (void)file;
    return lie(LIE_FLUSH);
}

static int lying_release(const char *path, struct fuse_file_info *file) {
    (void)path;
    close((int)file->fh);
    return 0;
}

/* Power loss is not tested here, so nothing is synced: that is faster. */
static int lying_fsync(const char *path, int data_only, struct fuse_file_info *file) {
    (void)path, (void)data_only, (void)file;
    return lie(LIE_FSYNC);
}

static int lying_fsyncdir(const char *path, int data_only, struct fuse_file_info *file) {
    (void)path, (void)data_only, (void)file;
    return lie(LIE_FSYNCDIR);
}

static int lying_flock(const char *path, struct fuse_file_info *file, int operation) {
    int failed = lies->only_temporary && !ends_in(path, ".tmp") ? 0 : lie(LIE_FLOCK);
    return failed ? failed : result(flock((int)file->fh, operation | LOCK_NB));
}

static int lying_fallocate(const char *path, int mode, off_t at, off_t size,
                           struct fuse_file_info *file) {
    int failed = lie(LIE_FALLOCATE);
    (void)path;
    return failed ? failed : result(fallocate((int)file->fh, mode, at, size));
}

static int lying_truncate(const char *path, off_t size, struct fuse_file_info *file) {
    int failed = lie(LIE_TRUNCATE);
    if (failed || file)
        return failed ? failed : result(ftruncate((int)file->fh, size));
    int fd = openat(folder, inside(path), O_WRONLY);
    failed = fd < 0 ? -errno : result(ftruncate(fd, size));
    if (fd >= 0)
        close(fd);
    return failed;
}

static ssize_t lying_copy(const char *from_path, struct fuse_file_info *from, off_t from_at,
                          const char *to_path, struct fuse_file_info *to, off_t to_at, size_t size,
                          int flags) {
    int failed = lie(LIE_COPY);
    (void)from_path, (void)to_path;
    if (failed)
        return failed;
    ssize_t n =
        copy_file_range((int)from->fh, &from_at, (int)to->fh, &to_at, size, (unsigned)flags);
    return n < 0 ? -errno : n;
}

static int lying_rename(const char *from, const char *to, unsigned flags) {
    int failed = lie(LIE_RENAME);
    return failed ? failed : result(renameat2(folder, inside(from), folder, inside(to), flags));
}

static int lying_unlink(const char *path) {
    int failed = lie(LIE_UNLINK);
    return failed ? failed : result(unlinkat(folder, inside(path), 0));
}

static int lying_mkdir(const char *path, mode_t mode) {
    return result(mkdirat(folder, inside(path), mode));
}

static int lying_rmdir(const char *path) {
    return result(unlinkat(folder, inside(path), AT_REMOVEDIR));
}

static int lying_chmod(const char *path, mode_t mode, struct fuse_file_info *file) {
    int failed = lie(LIE_CHMOD);
    if (failed)
        return failed;
    return result(file ? fchmod((int)file->fh, mode) : fchmodat(folder, inside(path), mode, 0));
}

static int lying_chown(const char *path, uid_t user, gid_t group, struct fuse_file_info *file) {
    return result(file ? fchown((int)file->fh, user, group)
                       : fchownat(folder, inside(path), user, group, AT_SYMLINK_NOFOLLOW));
}

static int lying_readdir(const char *path, void *names, fuse_fill_dir_t add, off_t at,
                         struct fuse_file_info *file, enum fuse_readdir_flags flags) {
    int failed = lie(LIE_READDIR), fd;
    const struct dirent *e;
    (void)at, (void)file, (void)flags;
    if (failed)
        return failed;
    fd = openat(folder, inside(path), O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return -errno;
    while ((e = readdir(dir)))
        if (add(names, e->d_name, NULL, 0, 0) != 0)
            break;
    closedir(dir);
    return 0;
}

/* The kernel caches no attributes, so that every answer is ours. */
static void *lying_init(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection;
    config->use_ino = 1;
    config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
    config->hard_remove = 1;
    config->nullpath_ok = 0;
    return NULL;
}

static const struct fuse_operations operations = {
    .init = lying_init,
    .getattr = lying_getattr,
    .open = lying_open,
    .create = lying_create,
    .read = lying_read,
    .write = lying_write,
    .flush = lying_flush,
    .release = lying_release,
    .fsync = lying_fsync,
    .fsyncdir = lying_fsyncdir,
    .flock = lying_flock,
    .fallocate = lying_fallocate,
    .truncate = lying_truncate,
    .copy_file_range = lying_copy,
    .rename = lying_rename,
    .unlink = lying_unlink,
    .mkdir = lying_mkdir,
    .rmdir = lying_rmdir,
    .chmod = lying_chmod,
    .chown = lying_chown,
    .readdir = lying_readdir,
};

int main(int count, char **arguments) {
    char name[] = "lying_fs";
    char *own[] = {name, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, own);
    if (count != 4)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int control = open(arguments[3], O_RDWR);
    folder = open(arguments[2], O_RDONLY | O_DIRECTORY);
    lies = mmap(NULL, sizeof *lies, PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);
    if (folder < 0 || control < 0 || lies == MAP_FAILED)
        return 2;
    umask(0);
    struct fuse *fuse = fuse_new(&args, &operations, sizeof operations, NULL);
    if (!fuse || fuse_mount(fuse, arguments[1]) != 0)
        return 77;
    int failed = fuse_loop_mt(fuse, 0);
    fuse_unmount(fuse);
    fuse_destroy(fuse);
    return failed ? 1 : 0;
}
