/* A file of a report: buffered, whole or not at all, and never the model itself. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

static bool is_shard_of(const tenmap_model *model, const struct stat *found) {
    for (size_t i = 0; i < tenmap_shard_count(model); i++) {
        struct stat shard;
        int fd = tenmap_shard_at(model, i)->fd;
        if (fd >= 0 && fstat(fd, &shard) == 0 && shard.st_dev == found->st_dev &&
            shard.st_ino == found->st_ino)
            return true;
    }
    return false;
}

static int refuse(const char *path, const report *r) {
    struct stat found;
    if (stat(path, &found) != 0)
        return 0;
    if (S_ISDIR(found.st_mode))
        return fail(EXIT_FAILED, "'%s' is a folder: name the file that is to be written", path);
    if (is_shard_of(r->model, &found) || is_shard_of(r->base, &found))
        return fail(EXIT_USAGE, "'%s' is the model itself: choose another name", path);
    return 0;
}

int report_file_begin(report_file *f, const char *path, const report *r) {
    int status = refuse(path, r);
    if (!status)
        status = outfile_open(&f->file, path);
    if (status)
        return status;
    int fd = dup(f->file.fd);
    f->out = fd < 0 ? NULL : fdopen(fd, "wb");
    if (f->out)
        return 0;
    status = fail(EXIT_FAILED, "%s: could not be opened: %s", path, strerror(errno));
    outfile_abort(&f->file);
    return status;
}

int report_file_commit(report_file *f, uint64_t *bytes) {
    long size = ftell(f->out);
    bool failed = ferror(f->out) != 0;
    failed = fclose(f->out) != 0 || failed;
    f->out = NULL;
    *bytes = size < 0 ? 0 : (uint64_t)size;
    if (!failed)
        return outfile_commit(&f->file);
    int status = fail(EXIT_FAILED, "%s: could not be written: %s", f->file.path, strerror(errno));
    outfile_abort(&f->file);
    return status;
}

void report_file_abort(report_file *f) {
    if (!f->out)
        return;
    fclose(f->out);
    f->out = NULL;
    outfile_abort(&f->file);
}
