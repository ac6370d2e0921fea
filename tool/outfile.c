#include "outfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "infile.h"
#include "print.h"

static int fail_errno(const char *path, const char *what) {
    return fail(EXIT_FAILED, "%s: %s: %s", path, what, os_words(errno));
}

bool outfile_is_stdout(const char *path) {
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    size_t i = 0, count = sizeof names / sizeof names[0];
    while (i < count && strcmp(path, names[i]) != 0)
        i++;
    return i < count;
}

static int fail_there(const char *path) {
    return fail(EXIT_FAILED, "'%s' is there already; --force replaces it", path);
}

int outfile_check(const char *path, bool force, const tenmap_model *const *models, size_t count) {
    struct stat found;
    bool direct = outfile_is_stdout(path);
    if ((direct ? fstat(STDOUT_FILENO, &found) : stat(path, &found)) == 0) {
        const char *kind = direct ? NULL : irregular_kind(&found);
        if (kind)
            return fail(EXIT_FAILED,
                        "'%s' is %s: name the file that is to be written, or - for stdout", path,
                        kind);
        for (size_t i = 0; i < count; i++)
            if (is_file_of(models[i], &found))
                return fail(EXIT_USAGE, "'%s' is the model itself: choose another name", path);
    } /* a link that leads nowhere is there as well */
    return direct || force || lstat(path, &found) != 0 ? EXIT_FINE : fail_there(path);
}

/*
 * The mode of the file that gives way, or what the umask leaves. Where the group cannot be kept, what
 * the old one was allowed is not for another.
 */
static void take_mode(const outfile *f) {
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

static int open_beside(outfile *f) {
    const char *slash = strrchr(f->path, '/');
    size_t folder = slash ? (size_t)(slash - f->path) + 1 : 0;
    text name = {0};
    text_add(&name, f->path, folder);
    text_addf(&name, ".%s.XXXXXX", f->path + folder);
    f->fd = mkstemp(name.bytes);
    if (f->fd < 0) {
        text_free(&name);
        return fail_errno(f->path, "could not be created");
    }
    f->temporary = name.bytes;
    take_mode(f);
    return EXIT_FINE;
}

int outfile_open(outfile *f, const char *path, bool force) {
    *f = (outfile){path, NULL, STDOUT_FILENO, force};
    catch_interrupts();
    if (!outfile_is_stdout(path))
        return open_beside(f);
    fflush(stdout);
    return EXIT_FINE;
}

int outfile_write(outfile *f, const void *bytes, size_t count) {
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

void outfile_abort(outfile *f) {
    if (f->temporary)
        unlink(f->temporary);
    free(f->temporary);
    f->temporary = NULL;
    if (f->fd > STDOUT_FILENO)
        close(f->fd);
    f->fd = -1;
}

/* Without force a link gives the file its name, which, unlike a rename, takes nobody else's. */
static int take_place(const outfile *f) {
    if (fsync(f->fd) != 0)
        return fail_errno(f->path, "could not be written");
    if (!f->force && link(f->temporary, f->path) == 0) {
        unlink(f->temporary);
        return EXIT_FINE;
    }
    if (!f->force && errno == EEXIST)
        return fail_there(f->path);
    /* Either it may be replaced, or the file system has no links. */
    return rename(f->temporary, f->path) == 0 ? EXIT_FINE
                                              : fail_errno(f->path, "could not be written");
}

int outfile_commit(outfile *f) {
    int status = EXIT_FINE;
    if (interrupted())
        status = fail(EXIT_INTERRUPTED, "interrupted; nothing was written");
    else if (f->temporary)
        status = take_place(f);
    if (!status) {
        free(f->temporary);
        f->temporary = NULL;
    }
    outfile_abort(f);
    return status;
}
