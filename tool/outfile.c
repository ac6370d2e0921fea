#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "print.h"

static int fail_errno(const char *path, const char *what) {
    return fail(EXIT_FAILED, "%s: %s: %s", path, what, strerror(errno));
}

/* The mode of the file that gives way, or what the umask leaves. */
static mode_t wanted_mode(const char *path) {
    struct stat old;
    if (stat(path, &old) == 0)
        return old.st_mode & 0777;
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
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
    fchmod(f->fd, wanted_mode(f->path));
    return EXIT_FINE;
}

int outfile_open(outfile *f, const char *path) {
    struct stat old;
    *f = (outfile){path, NULL, STDOUT_FILENO};
    catch_interrupts();
    if (strcmp(path, "-") == 0) {
        fflush(stdout);
        return EXIT_FINE;
    }
    if (stat(path, &old) != 0 || S_ISREG(old.st_mode))
        return open_beside(f);
    f->fd = open(path, O_WRONLY | O_CLOEXEC);
    return f->fd < 0 ? fail_errno(path, "could not be opened") : EXIT_FINE;
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

int outfile_commit(outfile *f) {
    int status = EXIT_FINE;
    if (interrupted())
        status = fail(EXIT_INTERRUPTED, "interrupted; nothing was written");
    else if (f->temporary && (fsync(f->fd) != 0 || rename(f->temporary, f->path) != 0))
        status = fail_errno(f->path, "could not be written");
    if (!status) {
        free(f->temporary);
        f->temporary = NULL;
    }
    outfile_abort(f);
    return status;
}
