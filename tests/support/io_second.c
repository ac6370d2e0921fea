/*
 * Lets a test program run a second time with every model behind a tenmap_io: the linker redirects
 * its calls of tenmap_open, _open_list and tenmap_check to these functions, and those of
 * tenmap_open_memory if asked to.
 */
#include "io_files.h"

#include <stdlib.h>
#include <string.h>

tenmap_status __real_tenmap_open(const char *path, const tenmap_options *options,
                                 tenmap_model **model, tenmap_error *error);
tenmap_status __wrap_tenmap_open(const char *path, const tenmap_options *options,
                                 tenmap_model **model, tenmap_error *error);
tenmap_status __real_tenmap_check(const char *path, const tenmap_options *options,
                                  void (*found)(void *ctx, const tenmap_finding *finding),
                                  void *ctx, tenmap_error *error);
tenmap_status __wrap_tenmap_check(const char *path, const tenmap_options *options,
                                  void (*found)(void *ctx, const tenmap_finding *finding),
                                  void *ctx, tenmap_error *error);

tenmap_status __real_tenmap_open_list(const char *const *paths, size_t n,
                                      const tenmap_options *options, tenmap_model **model,
                                      tenmap_error *error);
tenmap_status __wrap_tenmap_open_list(const char *const *paths, size_t n,
                                      const tenmap_options *options, tenmap_model **model,
                                      tenmap_error *error);

static io_files second_files;

/* The same options, with a tenmap_io over the system's files. */
static const tenmap_options *through_io(const tenmap_options *given, tenmap_options *out,
                                        tenmap_io *io) {
    tenmap_options fresh = TENMAP_OPTIONS_INIT;
    if (given && given->struct_size != sizeof fresh)
        return given; /* the test sets io itself */
    *out = given ? *given : fresh;
    *io = io_files_io(&second_files);
    out->io = io;
    return out;
}

tenmap_status __wrap_tenmap_open(const char *path, const tenmap_options *options,
                                 tenmap_model **model, tenmap_error *error) {
    tenmap_options changed;
    tenmap_io io;
    return __real_tenmap_open(path, through_io(options, &changed, &io), model, error);
}

tenmap_status __wrap_tenmap_open_list(const char *const *paths, size_t n,
                                      const tenmap_options *options, tenmap_model **model,
                                      tenmap_error *error) {
    tenmap_options changed;
    tenmap_io io;
    return __real_tenmap_open_list(paths, n, through_io(options, &changed, &io), model, error);
}

tenmap_status __wrap_tenmap_check(const char *path, const tenmap_options *options,
                                  void (*found)(void *ctx, const tenmap_finding *finding),
                                  void *ctx, tenmap_error *error) {
    tenmap_options changed;
    tenmap_io io;
    return __real_tenmap_check(path, through_io(options, &changed, &io), found, ctx, error);
}

/* A tenmap_io whose only object is this memory. */
typedef struct memory_object {
    const char *bytes;
    size_t size;
} memory_object;

static tenmap_status open_memory_object(void *ctx, const char *path, void **file, uint64_t *size,
                                        tenmap_error *error) {
    const memory_object *object = ctx;
    (void)path, (void)error;
    *file = NULL;
    *size = object->size;
    return TENMAP_OK;
}

static tenmap_status read_memory_object(void *ctx, void *file, uint64_t offset, void *dst,
                                        size_t bytes, tenmap_error *error) {
    const memory_object *object = ctx;
    (void)file, (void)error;
    if (offset > object->size || bytes > object->size - offset)
        return TENMAP_ERR_RANGE;
    memcpy(dst, object->bytes + offset, bytes);
    return TENMAP_OK;
}

static void close_memory_object(void *ctx, void *file) {
    (void)file;
    free(ctx);
}

tenmap_status __wrap_tenmap_open_memory(const void *bytes, size_t size,
                                        const tenmap_options *options, tenmap_model **model,
                                        tenmap_error *error);

tenmap_status __wrap_tenmap_open_memory(const void *bytes, size_t size,
                                        const tenmap_options *options, tenmap_model **model,
                                        tenmap_error *error) {
    tenmap_options changed = TENMAP_OPTIONS_INIT;
    tenmap_io io = TENMAP_IO_INIT;
    memory_object *object = malloc(sizeof *object);
    if (!object)
        return TENMAP_ERR_MEMORY;
    *object = (memory_object){bytes, size};
    if (options)
        changed = *options;
    io.open = open_memory_object;
    io.read = read_memory_object;
    io.close = close_memory_object;
    io.ctx = object;
    changed.io = &io;
    return __real_tenmap_open("memory", &changed, model, error);
}
