/*
 * Opens a model inside a zip archive, without unpacking it, and lists its tensors: an engine's own
 * files as a tenmap_io. Members must be stored, not compressed.
 *
 *     archive FILE.zip MEMBER      MEMBER is a .safetensors file or an index in the archive
 */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenmap.h>
#include <unistd.h>

typedef struct archive {
    int fd;
    unsigned char *list; /* the central directory */
    size_t list_bytes;
} archive;

typedef struct member {
    uint64_t begin, size;
} member;

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

/* Uses pread, which any thread may call, because it does not move a shared position. */
static int read_at(const archive *a, uint64_t at, void *dst, size_t bytes) {
    char *to = dst;
    while (bytes > 0) {
        ssize_t n = pread(a->fd, to, bytes, (off_t)at);
        if (n <= 0)
            return 0;
        to += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 1;
}

static tenmap_status fail(tenmap_error *error, tenmap_status status, const char *path,
                          const char *what) {
    error->status = status;
    snprintf(error->message, sizeof error->message, "\"%.200s\" in the archive: %s", path, what);
    return status;
}

/*
 * Sizes and offsets of 4 GiB and more are in the extra field after the name: those that do not fit
 * in 32 bits, in this order.
 */
static void widen(const unsigned char *extra, size_t len, uint64_t *size, uint64_t *stored,
                  uint64_t *begin) {
    uint64_t *fields[] = {size, stored, begin};
    for (; len >= 4 && number(extra + 2, 2) + 4 <= len;) {
        size_t used = 4, all = (size_t)number(extra + 2, 2) + 4;
        for (int i = 0; number(extra, 2) == 1 && i < 3 && used + 8 <= all; i++)
            if (*fields[i] == UINT32_MAX) {
                *fields[i] = number(extra + used, 8);
                used += 8;
            }
        extra += all;
        len -= all;
    }
}

static tenmap_status open_member(void *ctx, const char *path, void **file, uint64_t *size,
                                 tenmap_error *error) {
    const archive *a = ctx;
    unsigned char head[30];
    size_t wanted = strlen(path);
    for (size_t at = 0; at + 46 <= a->list_bytes;) {
        const unsigned char *e = a->list + at;
        size_t name = (size_t)number(e + 28, 2), extra = (size_t)number(e + 30, 2);
        size_t all = 46 + name + extra + (size_t)number(e + 32, 2);
        if (number(e, 4) != 0x02014b50 || all > a->list_bytes - at)
            break;
        at += all;
        if (name != wanted || memcmp(e + 46, path, name) != 0)
            continue;
        uint64_t stored = number(e + 20, 4), begin = number(e + 42, 4);
        *size = number(e + 24, 4);
        widen(e + 46 + name, extra, size, &stored, &begin);
        if (number(e + 10, 2) != 0 || stored != *size)
            return fail(error, TENMAP_ERR_UNSUPPORTED, path, "it is compressed; zip -0 stores it");
        member *m = malloc(sizeof *m);
        if (!m || !read_at(a, begin, head, sizeof head)) {
            free(m);
            return fail(error, TENMAP_ERR_IO, path, "it cannot be read");
        }
        m->begin = begin + 30 + number(head + 26, 2) + number(head + 28, 2);
        m->size = *size;
        *file = m;
        return TENMAP_OK;
    }
    return fail(error, TENMAP_ERR_NOT_FOUND, path, "there is no such member");
}

static tenmap_status read_member(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                                 tenmap_error *error) {
    const member *m = file;
    return read_at(ctx, m->begin + offset, dst, bytes)
               ? TENMAP_OK
               : fail(error, TENMAP_ERR_IO, "a member", "the archive ends too early");
}

static void close_member(void *ctx, void *file) {
    (void)ctx;
    free(file);
}

/* The directory is found from the end of the file. */
static int open_archive(archive *a, const char *path) {
    enum { LONGEST_END = 22 + 65535 };
    static unsigned char tail[LONGEST_END];
    unsigned char wide[56];
    a->fd = open(path, O_RDONLY);
    off_t size = a->fd < 0 ? 0 : lseek(a->fd, 0, SEEK_END);
    size_t len = size < LONGEST_END ? (size_t)size : LONGEST_END, at = len < 22 ? 0 : len - 22;
    if (len < 22 || !read_at(a, (uint64_t)size - len, tail, len))
        return 0;
    while (at > 0 && number(tail + at, 4) != 0x06054b50)
        at--;
    uint64_t begin = number(tail + at + 16, 4), bytes = number(tail + at + 12, 4);
    if (at >= 20 && number(tail + at - 20, 4) == 0x07064b50 && /* larger than 4 GiB */
        read_at(a, number(tail + at - 12, 8), wide, sizeof wide)) {
        bytes = number(wide + 40, 8);
        begin = number(wide + 48, 8);
    }
    if (number(tail + at, 4) != 0x06054b50 || bytes > (uint64_t)size)
        return 0;
    a->list_bytes = (size_t)bytes;
    a->list = malloc(a->list_bytes ? a->list_bytes : 1);
    return a->list && read_at(a, begin, a->list, a->list_bytes);
}

int main(int argc, char **argv) {
    archive zip = {-1, NULL, 0};
    tenmap_io io = TENMAP_IO_INIT;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error;
    if (argc != 3 || !open_archive(&zip, argv[1]))
        return fprintf(stderr, "usage: archive FILE.zip MEMBER\n"), 1;
    io.open = open_member;
    io.read = read_member;
    io.close = close_member;
    io.ctx = &zip;
    options.io = &io;
    if (tenmap_open(argv[2], &options, &model, &error) != TENMAP_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        float first = 0;
        if (t->nelems &&
            tenmap_read(t, 0, 1, TENMAP_F32, &first, sizeof first, 0, NULL) != TENMAP_OK)
            first = 0;
        printf("%s %s %llu %g\n", t->name, tenmap_dtype_text(t), (unsigned long long)t->nelems,
               (double)first);
    }
    tenmap_close(model);
    free(zip.list);
    close(zip.fd);
    return 0;
}
