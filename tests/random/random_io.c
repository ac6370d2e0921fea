/* A tenmap_io that fails, lies about sizes, and calls the library: see random_models.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "random_models.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"a.safetensors",        "b.safetensors", "g.gguf", "q", "s",
                                    "p-00001-of-00003.gguf"};
static atomic_long objects; /* open objects */
static atomic_long outside; /* reads outside of an object */

typedef struct object {
    int fd;
    uint64_t size;
} object;

static unsigned io_mood; /* percent of calls that go wrong */

static tenmap_status go_wrong(tenmap_error *error) {
    static const tenmap_status statuses[] = {TENMAP_ERR_IO, TENMAP_ERR_NOT_FOUND, 77, -1,
                                             TENMAP_ERR_CANCELLED};
    if (draw_shared(2))
        snprintf(error->message, sizeof error->message, "the store says no");
    else if (draw_shared(2))
        memset(error, 0xff, sizeof *error);
    return statuses[draw_shared(5)];
}

void call_back(void) {
    tenmap_model *own = NULL;
    tenmap_error error;
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", random_folder, names[draw_shared(3)]);
    if (tenmap_open(path, NULL, &own, &error) == TENMAP_OK)
        (void)tenmap_count(own);
    tenmap_close(own);
}

static tenmap_status io_open(void *ctx, const char *path, void **file, uint64_t *size,
                             tenmap_error *error) {
    (void)ctx;
    struct stat st;
    if (draw_shared(100) < io_mood)
        return go_wrong(error);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        return TENMAP_ERR_NOT_FOUND;
    }
    object *o = malloc(sizeof *o);
    *o = (object){fd, (uint64_t)st.st_size};
    if (draw_shared(100) < io_mood)
        o->size = draw_shared(2) ? draw_shared(o->size + 1) : UINT64_MAX >> draw_shared(40);
    *file = o;
    *size = o->size;
    atomic_fetch_add(&objects, 1);
    if (draw_shared(200) < io_mood)
        call_back();
    return TENMAP_OK;
}

static tenmap_status io_read(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                             tenmap_error *error) {
    (void)ctx;
    const object *o = file;
    if (offset > o->size || bytes > o->size - offset)
        atomic_fetch_add(&outside, 1);
    if (draw_shared(100) < io_mood)
        return go_wrong(error);
    ssize_t got = pread(o->fd, dst, bytes, (off_t)(offset & INT64_MAX));
    if (got >= 0 && (size_t)got < bytes) /* bytes past the end, if the size was a lie */
        memset((char *)dst + got, (int)draw_shared(256), bytes - (size_t)got);
    if (draw_shared(400) < io_mood)
        call_back();
    return got < 0 ? TENMAP_ERR_IO : TENMAP_OK;
}

static void io_close(void *ctx, void *file) {
    (void)ctx;
    object *o = file;
    close(o->fd);
    free(o);
    atomic_fetch_sub(&objects, 1);
}

static tenmap_status io_list(void *ctx, const char *path,
                             int (*entry)(void *entry_ctx, const char *name), void *entry_ctx,
                             tenmap_error *error) {
    static const char *const more[] = {"model.safetensors", "x-00001-of-00004.safetensors",
                                       "a-1-of-99999.gguf", "model.safetensors.index.json", ""};
    (void)ctx;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return TENMAP_ERR_NOT_FOUND;
    if (draw_shared(100) < io_mood)
        return go_wrong(error);
    bool ends = draw_shared(100) >= io_mood; /* otherwise it continues though it was told to stop */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (entry(entry_ctx, names[i]) && ends)
            return TENMAP_OK;
    if (draw_shared(100) < io_mood)
        (void)entry(entry_ctx, more[draw_shared(5)]);
    return TENMAP_OK;
}

const tenmap_io *some_io(void) {
    static tenmap_io io = TENMAP_IO_INIT;
    io.open = io_open;
    io.read = io_read;
    io.close = io_close;
    io.list = draw(4) ? io_list : NULL;
    io.preferred_bytes = draw(3) ? 0 : draw_size();
    io_mood = draw(3) ? 0 : (unsigned)draw(20);
    return &io;
}

long random_io_found(void) {
    return atomic_load(&objects) + atomic_load(&outside);
}
