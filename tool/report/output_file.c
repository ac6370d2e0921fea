/*
 * One output file of a report: buffered, written completely or not at all, and never over the model
 * itself.
 */
#include <errno.h>
#include <unistd.h>

#include "output/output_formats.h"
#include "report.h"

int report_file_begin(report_file *f, const char *path, const char *format, bool force,
                      const report *r) {
    const tenmap_model *const models[] = {r->model, r->base};
    int status = atomic_file_check(path, force, models, 2);
    if (!status)
        status = check_page_name(path, format);
    if (!status)
        status = atomic_file_open(&f->file, path, force);
    if (status)
        return status;
    int fd = dup(f->file.fd);
    f->out = fd < 0 ? NULL : fdopen(fd, "wb");
    if (f->out)
        return 0;
    status = fail(EXIT_FAILED, "%s: could not be opened: %s", path, os_error_text(errno));
    atomic_file_abort(&f->file);
    return status;
}

int report_file_commit(report_file *f, uint64_t *bytes) {
    long size = ftell(f->out);
    bool failed = ferror(f->out) != 0;
    errno = 0;
    failed = fclose(f->out) != 0 || failed;
    f->out = NULL;
    *bytes = size < 0 ? 0 : (uint64_t)size;
    if (!failed)
        return atomic_file_commit(&f->file);
    int status = fail(EXIT_FAILED, "%s: could not be written%s%s", f->file.path, errno ? ": " : "",
                      errno ? os_error_text(errno) : "");
    atomic_file_abort(&f->file);
    return status;
}

void report_file_abort(report_file *f) {
    if (!f->out)
        return;
    fclose(f->out);
    f->out = NULL;
    atomic_file_abort(&f->file);
}
