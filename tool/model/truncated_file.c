/* Opens a truncated file as if it were whole. */
#include "model/truncated_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"

/* A size that no header exceeds, and that no sum with it overflows. */
#define LARGER_THAN_ALL ((uint64_t)1 << 60)

/* The file that is read as a longer one; the tool opens only one of them. */
typedef struct padded_file {
    uint64_t size, claimed;
} padded_file;
static padded_file padded;

static tenmap_status open_padded(void *ctx, const char *path, void **file, uint64_t *size,
                                 tenmap_error *error) {
    (void)ctx;
    (void)error;
    *file = fopen(path, "rb");
    *size = padded.claimed;
    return *file ? TENMAP_OK : TENMAP_ERR_NOT_FOUND;
}

static tenmap_status read_padded(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                                 tenmap_error *error) {
    uint64_t left = offset < padded.size ? padded.size - offset : 0;
    size_t there = left < bytes ? (size_t)left : bytes;
    (void)ctx;
    (void)error;
    memset((char *)dst + there, 0, bytes - there);
    if (there &&
        (fseeko(file, (off_t)offset, SEEK_SET) != 0 || fread(dst, 1, there, file) != there))
        return TENMAP_ERR_IO;
    return TENMAP_OK;
}

static void close_padded(void *ctx, void *file) {
    (void)ctx;
    fclose(file);
}

/* Opens the file as one of the claimed size. */
static bool open_padded_model(const char *path, const tenmap_options *options, tenmap_model **out) {
    tenmap_io io = TENMAP_IO_INIT;
    tenmap_options with_io = *options;
    io.open = open_padded;
    io.read = read_padded;
    io.close = close_padded;
    with_io.io = &io;
    with_io.threads = 1;
    *out = NULL;
    return tenmap_open(path, &with_io, out, NULL) == TENMAP_OK;
}

/* Remembers the code of the first error. */
static void keep_error(void *ctx, const tenmap_finding *f) {
    uint32_t *code = ctx;
    if (!*code && f->severity == TENMAP_FINDING_ERROR)
        *code = f->code;
}

static uint64_t end_of_data(const tenmap_model *model) {
    uint64_t end = 0;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (t->file_offset + t->nbytes > end)
            end = t->file_offset + t->nbytes;
    }
    return end;
}

bool open_truncated(const char *path, const tenmap_options *options, truncated_file *cut,
                    tenmap_model **out) {
    struct stat s;
    uint32_t code = 0;
    tenmap_options endless = *options;
    *cut = (truncated_file){0};
    *out = NULL;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode) ||
        tenmap_check(path, options, keep_error, &code, NULL) != TENMAP_OK ||
        code != TENMAP_FOUND_TRUNCATED)
        return false;
    /* Nothing else tells where the data ends, so the first open takes any number of bytes. */
    padded = (padded_file){(uint64_t)s.st_size, LARGER_THAN_ALL};
    endless.flags |= TENMAP_OPEN_TRAILING;
    if (!open_padded_model(path, &endless, out))
        return false;
    padded.claimed = end_of_data(*out);
    tenmap_close(*out);
    *cut = (truncated_file){padded.size, padded.claimed};
    return open_padded_model(path, options, out);
}

uint64_t bytes_there(const truncated_file *cut, const tenmap_tensor *t) {
    if (!cut->whole_size || t->file_offset + t->nbytes <= cut->size)
        return t->nbytes;
    return t->file_offset < cut->size ? cut->size - t->file_offset : 0;
}
