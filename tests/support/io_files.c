/* A tenmap_io over the system's files: see io_files.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "io_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether this call is the one that fails. */
static bool fails(io_files *files, tenmap_error *error) {
    if (atomic_fetch_add(&files->calls, 1) + 1 != files->fail_at)
        return false;
    if (files->message)
        snprintf(error->message, sizeof error->message, "%s", files->message);
    return true;
}

/* The path without the part of the address that follows it. */
static void plain_path(const io_files *files, const char *path, char out[4096]) {
    size_t len = files->strip ? strcspn(path, "?") : strlen(path);
    snprintf(out, 4096, "%.*s", (int)len, path);
}

static tenmap_status io_open(void *ctx, const char *path, void **file, uint64_t *size,
                             tenmap_error *error) {
    io_files *files = ctx;
    char plain[4096];
    struct stat st;
    if (fails(files, error))
        return files->fail_with;
    plain_path(files, path, plain);
    if (files->strip && !strstr(path, files->strip))
        return TENMAP_ERR_NOT_FOUND;
    int fd = open(plain, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        snprintf(error->message, sizeof error->message, "%s: this store has no such object", path);
        return TENMAP_ERR_NOT_FOUND;
    }
    atomic_fetch_add(&files->opened, 1);
    *file = (void *)(intptr_t)fd;
    *size = (uint64_t)st.st_size;
    return TENMAP_OK;
}

static void note_most(_Atomic uint64_t *most, uint64_t value) {
    uint64_t old = atomic_load(most);
    while (value > old && !atomic_compare_exchange_weak(most, &old, value))
        ;
}

static tenmap_status io_read(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                             tenmap_error *error) {
    io_files *files = ctx;
    size_t got = 0;
    if (fails(files, error))
        return files->fail_with;
    long now = atomic_fetch_add(&files->at_once, 1) + 1, most = atomic_load(&files->most_at_once);
    while (now > most && !atomic_compare_exchange_weak(&files->most_at_once, &most, now))
        ;
    if (files->delay_us)
        usleep(files->delay_us);
    while (got < bytes) {
        ssize_t n =
            pread((int)(intptr_t)file, (char *)dst + got, bytes - got, (off_t)(offset + got));
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    atomic_fetch_sub(&files->at_once, 1);
    atomic_fetch_add(&files->reads, 1);
    atomic_fetch_add(&files->bytes, got);
    note_most(&files->largest, bytes);
    if (got == bytes)
        return TENMAP_OK;
    snprintf(error->message, sizeof error->message, "the store has only %zu of %zu bytes", got,
             bytes);
    return TENMAP_ERR_IO;
}

static void io_close(void *ctx, void *file) {
    io_files *files = ctx;
    atomic_fetch_add(&files->closed, 1);
    close((int)(intptr_t)file);
}

static tenmap_status io_list(void *ctx, const char *path,
                             int (*entry)(void *entry_ctx, const char *name), void *entry_ctx,
                             tenmap_error *error) {
    io_files *files = ctx;
    char plain[4096];
    if (fails(files, error))
        return files->fail_with;
    plain_path(files, path, plain);
    DIR *dir = opendir(plain);
    const struct dirent *e;
    if (!dir)
        return TENMAP_ERR_NOT_FOUND;
    while ((e = readdir(dir)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            entry(entry_ctx, e->d_name))
            break;
    closedir(dir);
    return TENMAP_OK;
}

tenmap_io io_files_io(io_files *files) {
    tenmap_io io = TENMAP_IO_INIT;
    io.open = io_open;
    io.read = io_read;
    io.close = io_close;
    io.list = io_list;
    io.ctx = files;
    return io;
}
