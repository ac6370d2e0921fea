/*
 * Opens files that the tool reads without the library, and tells which files are models or belong
 * to one.
 */
#include "model/model_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

const char *irregular_kind(const struct stat *found) {
    if (S_ISREG(found->st_mode))
        return NULL;
    return S_ISDIR(found->st_mode)    ? "a folder"
           : S_ISFIFO(found->st_mode) ? "a FIFO"
           : S_ISSOCK(found->st_mode) ? "a socket"
                                      : "a device";
}

int open_regular(const char *path, int *fd) {
    struct stat found;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 || fstat(*fd, &found) != 0) {
        int failed = errno;
        if (*fd >= 0)
            close(*fd);
        return fail(EXIT_FAILED, "'%s': %s", path, os_error_text(failed));
    }
    const char *kind = irregular_kind(&found);
    if (!kind)
        return EXIT_FINE;
    close(*fd);
    return fail(EXIT_FAILED, "'%s' is %s, not a file", path, kind);
}

bool begins_as_checkpoint(int folder, const char *name) {
    static const unsigned char zip[] = {'P', 'K', 3, 4};
    /* Protocol 2, then the number by which torch.save marks files of its old format. */
    static const unsigned char old[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c,
                                        0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    unsigned char start[sizeof old] = {0};
    struct stat found;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool regular = fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
    ssize_t got = regular ? read(fd, start, sizeof start) : 0;
    if (fd >= 0)
        close(fd);
    return (got >= (ssize_t)sizeof zip && memcmp(start, zip, sizeof zip) == 0) ||
           (got == (ssize_t)sizeof old && memcmp(start, old, sizeof old) == 0);
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The library chooses which index of a folder it reads, so every index counts. */
static bool is_index_in(const char *folder, const struct stat *found) {
    DIR *list = opendir(folder);
    bool is = false;
    for (struct dirent *e; list && !is && (e = readdir(list));) {
        struct stat entry;
        size_t len = strlen(e->d_name);
        is = len > 5 && strcmp(e->d_name + len - 5, ".json") == 0 && strstr(e->d_name, ".index") &&
             fstatat(dirfd(list), e->d_name, &entry, 0) == 0 && same_file(&entry, found);
    }
    if (list)
        closedir(list);
    return is;
}

bool is_file_of(const tenmap_model *model, const struct stat *found) {
    struct stat part;
    for (size_t i = 0; model && i < tenmap_shard_count(model); i++) {
        int fd = tenmap_shard_at(model, i)->fd;
        if (fd >= 0 && fstat(fd, &part) == 0 && same_file(&part, found))
            return true;
    }
    if (!model || !tenmap_index_json(model, NULL) || stat(tenmap_path(model), &part) != 0)
        return false;
    return S_ISDIR(part.st_mode) ? is_index_in(tenmap_path(model), found) : same_file(&part, found);
}
