/* Writes a file to a locked temporary beside its final path, then renames it into place. */
#include "output/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "model/model_files.h"
#include "view/print.h"

static int fail_errno(const char *path, const char *what) {
    return fail(EXIT_FAILED, "%s: %s: %s", path, what, os_error_text(errno));
}

bool is_stdout(const char *path) {
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    size_t i = 0, count = sizeof names / sizeof names[0];
    while (i < count && strcmp(path, names[i]) != 0)
        i++;
    return i < count;
}

static int fail_there(const char *path) {
    return fail(EXIT_FAILED, "'%s' already exists; --force replaces it", path);
}

int atomic_file_check(const char *path, bool force, const tenmap_model *const *models,
                      size_t count) {
    struct stat found;
    bool direct = is_stdout(path);
    if ((direct ? fstat(STDOUT_FILENO, &found) : stat(path, &found)) == 0) {
        const char *kind = direct ? NULL : irregular_kind(&found);
        if (kind)
            return fail(EXIT_FAILED, "'%s' is %s: name the file to write, or - for stdout", path,
                        kind);
        for (size_t i = 0; i < count; i++)
            if (is_file_of(models[i], &found))
                return fail(EXIT_USAGE, "'%s' is the model itself: choose another name", path);
    } /* a dangling link also counts as existing */
    return direct || force || lstat(path, &found) != 0 ? EXIT_FINE : fail_there(path);
}

/*
 * Takes the mode of the file being replaced, or what the umask leaves. If its group cannot be kept,
 * the group permissions are dropped, so that another group gains no access.
 */
static void take_mode(const atomic_file *f) {
    struct stat old, made;
    if (lstat(f->path, &old) == 0 && S_ISREG(old.st_mode) && fstat(f->fd, &made) == 0) {
        bool kept = made.st_gid == old.st_gid || fchown(f->fd, (uid_t)-1, old.st_gid) == 0;
        fchmod(f->fd, old.st_mode & (kept ? 0777 : 0707));
        return;
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(f->fd, 0666 & ~mask);
}

/*
 * Temporaries are named .NAME.tenmap-XXXXXX.tmp, with a long NAME cut short. The writer holds a
 * lock on its temporary for as long as it exists, so one without a lock was left by a killed
 * command.
 */
static const char temporary_mark[] = ".tenmap-", temporary_end[] = ".tmp";
enum { LONGEST_STEM = 200, TEMPORARY_RANDOM = 6 };

static bool is_temporary(const char *name) {
    const size_t tail = sizeof temporary_mark + TEMPORARY_RANDOM + sizeof temporary_end - 2;
    size_t len = strlen(name);
    if (name[0] != '.' || len <= tail)
        return false;
    const char *at = name + len - tail;
    return strncmp(at, temporary_mark, sizeof temporary_mark - 1) == 0 &&
           strcmp(name + len - (sizeof temporary_end - 1), temporary_end) == 0 &&
           !memchr(at + sizeof temporary_mark - 1, '.', TEMPORARY_RANDOM);
}

/* Whether the open file has this name in the folder and is a regular file. */
static bool is_named(int folder, const char *name, int fd) {
    struct stat named, own;
    return fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &own) == 0 &&
           S_ISREG(own.st_mode) && named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

static void remove_if_left(int folder, const char *name) {
    int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(folder, name, fd))
        (void)unlinkat(folder, name, 0);
    close(fd);
}

/* Skips the folder that was scanned last, since a command may write many files into one. */
static void remove_leftovers(const char *folder) {
    static dev_t last_device;
    static ino_t last_inode;
    struct stat s;
    DIR *list = opendir(folder);
    if (list && fstat(dirfd(list), &s) == 0 &&
        (s.st_dev != last_device || s.st_ino != last_inode)) {
        last_device = s.st_dev;
        last_inode = s.st_ino;
        for (struct dirent *e; !interrupted() && (e = readdir(list));)
            if (is_temporary(e->d_name))
                remove_if_left(dirfd(list), e->d_name);
    }
    if (list)
        closedir(list);
}

/*
 * Another command may find the file before it is locked and remove it; then another name is tried.
 */
static int create_locked(const text *pattern, char **name) {
    for (int tries = 0; tries < 100; tries++) {
        *name = need_copy(pattern->bytes, pattern->len);
        int fd = mkostemps(*name, sizeof temporary_end - 1, O_CLOEXEC);
        if (fd < 0) {
            int failed = errno;
            free(*name);
            *name = NULL;
            errno = failed;
            return -1;
        }
        bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && is_named(AT_FDCWD, *name, fd))
            return fd;
        unlink(*name);
        close(fd);
        free(*name);
    }
    *name = NULL;
    errno = EBUSY;
    return -1;
}

static int open_temporary(atomic_file *f) {
    const char *slash = strrchr(f->path, '/'), *own = slash ? slash + 1 : f->path;
    size_t stem = strlen(own);
    text name = {0};
    if (stem > LONGEST_STEM)
        for (stem = LONGEST_STEM; stem && ((unsigned char)own[stem] & 0xc0) == 0x80;)
            stem--;
    text_add(&name, f->path, (size_t)(own - f->path));
    text_add(&name, ".", 1);
    remove_leftovers(name.bytes); /* "folder/." */
    text_add(&name, own, stem);
    text_addf(&name, "%sXXXXXX%s", temporary_mark, temporary_end);
    f->fd = create_locked(&name, &f->temporary);
    text_free(&name);
    if (f->fd < 0)
        return fail_errno(f->path, "could not be created");
    take_mode(f);
    return EXIT_FINE;
}

int atomic_file_open(atomic_file *f, const char *path, bool force) {
    *f = (atomic_file){path, NULL, STDOUT_FILENO, force};
    catch_interrupts();
    if (!is_stdout(path))
        return open_temporary(f);
    fflush(stdout);
    return EXIT_FINE;
}

int atomic_file_write(atomic_file *f, const void *bytes, size_t count) {
    const char *at = bytes;
    while (count) {
        if (interrupted())
            return fail(EXIT_INTERRUPTED, "interrupted; nothing was written");
        ssize_t n = write(f->fd, at, count < 1 << 30 ? count : 1 << 30);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(f->path, "could not be written");
        at += n;
        count -= (size_t)n;
    }
    return EXIT_FINE;
}

void atomic_file_abort(atomic_file *f) {
    if (f->temporary)
        unlink(f->temporary);
    free(f->temporary);
    f->temporary = NULL;
    if (f->fd > STDOUT_FILENO)
        close(f->fd);
    f->fd = -1;
}

/*
 * Without force the file gets its name through link(), which, unlike rename(), never replaces an
 * existing file.
 */
static int take_place(const atomic_file *f) {
    if (fsync(f->fd) != 0)
        return fail_errno(f->path, "could not be written");
    if (!f->force && link(f->temporary, f->path) == 0) {
        unlink(f->temporary);
        return EXIT_FINE;
    }
    if (!f->force && errno == EEXIST)
        return fail_there(f->path);
    /* Either replacing is allowed, or the file system has no hard links. */
    return rename(f->temporary, f->path) == 0 ? EXIT_FINE
                                              : fail_errno(f->path, "could not be written");
}

int atomic_file_commit(atomic_file *f) {
    int status = EXIT_FINE;
    if (interrupted())
        status = fail(EXIT_INTERRUPTED, "interrupted; nothing was written");
    else if (f->temporary)
        status = take_place(f);
    if (!status) {
        free(f->temporary);
        f->temporary = NULL;
    }
    atomic_file_abort(f);
    return status;
}
