/*
 * Whichever allocation fails, the call returns TENMAP_ERR_MEMORY (or a more specific error for some
 * refusals of the system), and nothing leaks. The linker redirects the library's allocations to the
 * functions here.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "model/pickled_values.h"

#include "gguf_files.h"
#include "numpy_files.h"
#include "support.h"
#include "torch_files.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Provided by the linker: calls of x go to __wrap_x, and __real_x is the original. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

static atomic_bool armed;
static atomic_long calls, fail_at; /* the call with this number fails */
static atomic_long live;           /* blocks of malloc that are not freed */
static atomic_int map_error;       /* what mapping a file fails with; 0: it works */

static bool fails(void) {
    return armed && atomic_fetch_add(&calls, 1) == fail_at;
}

void *__wrap_malloc(size_t size) {
    if (fails())
        return NULL;
    void *p = __real_malloc(size);
    live += armed && p;
    return p;
}

void *__wrap_calloc(size_t count, size_t size) {
    if (fails())
        return NULL;
    void *p = __real_calloc(count, size);
    live += armed && p;
    return p;
}

void *__wrap_realloc(void *old, size_t size) {
    if (fails())
        return NULL;
    void *p = __real_realloc(old, size);
    live += armed && p && !old;
    return p;
}

void __wrap_free(void *old) {
    live -= armed && old;
    __real_free(old);
}

static bool map_fails(int fd) {
    if (fails())
        errno = ENOMEM;
    else if (map_error && fd >= 0)
        errno = map_error;
    else
        return false;
    return true;
}

void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) {
    return map_fails(fd) ? MAP_FAILED : __real_mmap(at, size, prot, flags, fd, offset);
}

/* The name of mmap when off_t has 64 bits. */
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset) {
    return map_fails(fd) ? MAP_FAILED : __real_mmap64(at, size, prot, flags, fd, offset);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg) {
    return fails() ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

static size_t mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    size_t count = 0;
    char line[1024];
    while (maps && fgets(line, sizeof line, maps))
        count += strstr(line, "tenmap-test") != NULL;
    if (maps)
        fclose(maps);
    return count;
}

static size_t descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static bool keeps_values; /* of a pickle, instead of naming its tensors */

/* One run with the n-th allocation failing; true once no allocation is left to fail. */
static bool open_with_failure(const char *const *paths, size_t count, const tenmap_options *options,
                              long n) {
    tenmap_error error = {0};
    tenmap_model *model = NULL;
    unsigned char dst[64];
    size_t maps_before = mappings(), fds_before = descriptors();
    fail_at = n;
    calls = 0;
    live = 0;
    armed = true;
    tenmap_status status = keeps_values ? tmi_open_values(paths[0], options, &model, &error)
                           : count == 1 ? tenmap_open(paths[0], options, &model, &error)
                                        : tenmap_open_list(paths, count, options, &model, &error);
    tenmap_status read_status = TENMAP_OK;
    if (status == TENMAP_OK && tenmap_count(model) > 0)
        read_status = tenmap_read(tenmap_at(model, 0), 0, 1, TENMAP_F32, dst, sizeof dst, 0, NULL);
    tenmap_close(model);
    armed = false;
    bool done = calls <= n;
    if (status != TENMAP_OK) {
        assert_null(model);
        check_error(&error, status);
        /* A refused mapping is a limit of the process; a refused thread is not an error. */
        assert_true(status == TENMAP_ERR_MEMORY || status == TENMAP_ERR_LIMIT);
    }
    assert_true(read_status == TENMAP_OK || read_status == TENMAP_ERR_MEMORY);
    assert_int_equal(live, 0);
    assert_int_equal(mappings(), maps_before);
    assert_int_equal(descriptors(), fds_before);
    if (done)
        assert_int_equal(status, TENMAP_OK);
    return done;
}

static void fail_each(const char *what, const char *path, const tenmap_options *options) {
    long n = 0;
    while (!open_with_failure(&path, 1, options, n))
        n++;
    print_message("           %s: %ld allocations\n", what, n);
    assert_true(n > 0);
}

static void every_allocation_may_fail(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    char json[8192] = "{\"__metadata__\":{";
    for (int i = 0; i < 40; i++) /* more than a first growth step */
        sprintf(json + strlen(json), "%s\"k%d\":\"v\"", i ? "," : "", i);
    strcat(json, "},\"z\":{\"dtype\":\"U8\",\"shape\":[2,1,1],\"data_offsets\":[4,6]},"
                 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
    write_model(in_folder(state, "one.safetensors"), json, 6);
    fail_each("a file", in_folder(state, "one.safetensors"), NULL);
    options.backend = TENMAP_BACKEND_READ;
    fail_each("a file, READ", in_folder(state, "one.safetensors"), &options);
    options.backend = TENMAP_BACKEND_MAP;
    options.flags = TENMAP_OPEN_PRIVATE;
    fail_each("a file, PRIVATE", in_folder(state, "one.safetensors"), &options);
}

/* An array in Fortran's order, and an archive whose directory has another order than its data. */
static void every_allocation_of_numpy_files_may_fail(void **state) {
    bytes array = make_npy(1, NPY_DICT("<f4", "True", "(2, 3)"), 24);
    uint64_t size = 30 + strlen("b.npy") + array.size;
    zip_file files[] = {
        {.name = "b.npy", .local_name = "a.npy", .data = array.at, .size = array.size},
        {.name = "a.npy", .local_name = "b.npy", .data = array.at, .size = array.size},
        {.name = "no-array", .data = array.at + 9, .size = array.size - 9}};
    files[0].moved = size;
    files[1].moved = (uint64_t)0 - size;
    bytes archive = make_zip(files, COUNT(files), NULL);
    write_file(in_folder(state, "one.npy"), array.at, array.size);
    fail_each("a .npy file", in_folder(state, "one.npy"), NULL);
    write_file(in_folder(state, "two.npz"), archive.at, archive.size);
    fail_each("a .npz file", in_folder(state, "two.npz"), NULL);
    free(archive.at);
    free(array.at);
}

static void every_allocation_of_a_gguf_file_may_fail(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    gguf_file f;
    bytes small = gguf_small();
    write_file(in_folder(state, "one.gguf"), small.at, small.size);
    fail_each("a GGUF file", in_folder(state, "one.gguf"), NULL);
    gguf_begin(&f, 2, 1); /* out of order, and the first of two */
    gguf_pair(&f, "split.count", TENMAP_VALUE_U16, 2, 2);
    gguf_row(&f, "b", 1, 8, 0, 32);
    gguf_row(&f, "a", 1, 8, 0, 0);
    gguf_data(&f, 64);
    write_file(in_folder(state, "x-00001-of-00002.gguf"), f.out.at, f.out.size);
    options.flags = TENMAP_OPEN_PARTIAL;
    options.threads = 1;
    fail_each("a GGUF file of several", in_folder(state, "x-00001-of-00002.gguf"), &options);
    free(f.out.at);
    free(small.at);
}

/* A strided tensor, one out of order, a view of a storage, and metadata. */
static torch_bytes checkpoint_values(bool legacy) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2}(");
    pickle_text(&p, "strided");
    pickle_put_tensor(&p, &(pickle_tensor){"1", 24, 0, {6, 4}, {1, 6}, 2, NULL, NULL});
    pickle_text(&p, "plain");
    pickle_vector(&p, "0", 24);
    pickle_text(&p, "view");
    pickle_global(&p, "torch._utils", "_rebuild_tensor");
    TORCH_LITERAL(&p, "((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000NK\x18");
    if (legacy)
        TORCH_LITERAL(&p, "(U\1vK\1K\2t");
    TORCH_LITERAL(&p, "tQK\0K\2\x85K\1\x85tRX\5\0\0\0epochK\3u.");
    return p;
}

static void every_allocation_of_a_pytorch_file_may_fail(void **state) {
    enum { STORAGE = 96 };
    torch_bytes values = checkpoint_values(false);
    bytes file = make_checkpoint(&values, 2, STORAGE);
    write_file(in_folder(state, "one.pt"), file.at, file.size);
    fail_each("a PyTorch file", in_folder(state, "one.pt"), NULL);
    free(file.at);
    values = checkpoint_values(true);
    file = make_legacy(&values, 2, STORAGE, NULL);
    write_file(in_folder(state, "old.pt"), file.at, file.size);
    fail_each("a PyTorch file from before 1.6", in_folder(state, "old.pt"), NULL);
    free(file.at);
}

static void every_allocation_of_a_sharded_model_may_fail(void **state) {
    char index[8192] = "{\"weight_map\":{", name[64], json[128];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "m-%02d-of-20.safetensors", i + 1);
        snprintf(json, sizeof json,
                 "{\"t%d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", i);
        if (i != 7)
            write_model(in_folder(state, name), json, 4);
        sprintf(index + strlen(index), "%s\"t%d\":\"%s\"", i ? "," : "", i, name);
    }
    strcat(index, "}}");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_PARTIAL;
    options.threads = 1;
    fail_each("a numbered set", *state, &options);
    write_text(in_folder(state, "model.safetensors.index.json"), index);
    fail_each("an index", *state, &options);
    options.threads = 3;
    fail_each("an index, on threads", *state, &options);
}

/* Loads and advice on an open model, with the n-th allocation failing; true once none is left. */
static bool use_with_failure(const tenmap_model *model, uint32_t flags, long n) {
    enum { COUNT_AT_MOST = 64 };
    tenmap_request requests[COUNT_AT_MOST];
    const tenmap_tensor *tensors[COUNT_AT_MOST];
    tenmap_error error = {0};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    size_t count = tenmap_count(model), fds_before = descriptors();
    assert_true(count <= COUNT_AT_MOST);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = tenmap_at(model, i);
        size_t size = (size_t)tensors[i]->nelems * sizeof(float);
        requests[i] = (tenmap_request){.tensor = tensors[i], .as = TENMAP_F32, .dst_bytes = size};
        requests[i].dst = malloc(size);
    }
    options.threads = 3;
    options.flags = flags;
    fail_at = n;
    calls = 0;
    live = 0;
    armed = true;
    tenmap_status status = tenmap_load(model, requests, count, &options, &error);
    if (status == TENMAP_OK)
        status = tenmap_advise_list(model, tensors, count, TENMAP_ADVISE_POPULATE, &error);
    if (status == TENMAP_OK)
        status = tenmap_advise(model, NULL, TENMAP_ADVISE_RELEASE, &error);
    void *memory = tenmap_alloc(100);
    tenmap_free(memory);
    armed = false;
    for (size_t i = 0; i < count; i++)
        free(requests[i].dst);
    bool done = calls <= n;
    if (status != TENMAP_OK)
        check_error(&error, TENMAP_ERR_MEMORY);
    assert_int_equal(live, 0);
    assert_int_equal(descriptors(), fds_before);
    if (done)
        assert_true(status == TENMAP_OK && memory);
    return done;
}

static void every_allocation_of_a_load_may_fail(void **state) {
    char name[64], json[160];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "m-%02d-of-20.safetensors", i + 1);
        snprintf(json, sizeof json,
                 "{\"t%d\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", i,
                 i == 3 ? 3000000 : 4, i == 3 ? 6000000 : 8);
        write_model(in_folder(state, name), json, i == 3 ? 6000000 : 8);
    }
    for (uint32_t backend = 0; backend < 2; backend++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            tenmap_options options = TENMAP_OPTIONS_INIT;
            options.backend = backend;
            tenmap_model *model = must_open(*state, &options);
            long n = 0;
            while (!use_with_failure(model, flags, n))
                n++;
            print_message("           backend %u, flags %u: %ld allocations\n", backend, flags, n);
            assert_true(n > 3);
            tenmap_close(model);
        }
}

/*
 * Derives a model of every kind of tensor and reads all of it, with the n-th allocation failing;
 * true once none is left to fail.
 */
static bool derive_with_failure(const tenmap_model *from, long n) {
    const tenmap_tensor *w = tenmap_find(from, "w"), *b = tenmap_find(from, "b");
    const tenmap_tensor *a = tenmap_find(from, "a");
    const uint64_t begin[2] = {1, 1}, end[2] = {30, 40};
    const uint32_t order[2] = {1, 0};
    const tenmap_term move[2] = {{.tensor = w, .begin = begin, .end = end},
                                 {.tensor = w, .begin = begin, .end = end}};
    const tenmap_term sum[2] = {
        {.tensor = w, .factor = 1, .begin = begin, .end = end, .flags = TENMAP_TERM_TRANSPOSED},
        {.tensor = w, .factor = 1, .begin = begin, .end = end, .flags = TENMAP_TERM_TRANSPOSED}};
    const tenmap_term low[3] = {
        {.tensor = w, .factor = 1}, {.tensor = b, .factor = 1}, {.tensor = a}};
    const tenmap_derived d[3] = {
        {.name = "m", .op = TENMAP_DERIVE_CONCAT, .n = 2, .terms = move, .order = order},
        {.name = "s", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = sum, .order = order},
        {.name = "l", .op = TENMAP_DERIVE_LOW_RANK, .n = 3, .terms = low}};
    static float dst[64 * 64];
    tenmap_error error = {0};
    tenmap_model *model = NULL;
    fail_at = n;
    calls = 0;
    live = 0;
    armed = true;
    tenmap_status status = tenmap_derive(d, 3, NULL, &model, &error);
    assert_true((status == TENMAP_OK) == (model != NULL));
    for (size_t i = 0; i < 3 && status == TENMAP_OK; i++)
        status = tenmap_read(tenmap_at(model, i), 0, tenmap_at(model, i)->nelems, TENMAP_F32, dst,
                             sizeof dst, 0, &error);
    tenmap_close(model);
    armed = false;
    bool done = calls <= n;
    if (status != TENMAP_OK)
        check_error(&error, TENMAP_ERR_MEMORY);
    assert_int_equal(live, 0);
    if (done)
        assert_int_equal(status, TENMAP_OK);
    return done;
}

static void every_allocation_of_derived_tensors_may_fail(void **state) {
    const char *path = in_folder(state, "model.safetensors");
    write_model(path,
                "{\"w\":{\"dtype\":\"BF16\",\"shape\":[40,50],\"data_offsets\":[0,4000]},"
                "\"b\":{\"dtype\":\"F32\",\"shape\":[40,2],\"data_offsets\":[4000,4320]},"
                "\"a\":{\"dtype\":\"F32\",\"shape\":[2,50],\"data_offsets\":[4320,4720]}}",
                4720);
    for (uint32_t backend = 0; backend < 2; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        tenmap_model *from = must_open(path, &options);
        long n = 0;
        while (!derive_with_failure(from, n))
            n++;
        print_message("           backend %u: %ld allocations\n", backend, n);
        assert_true(n > 12);
        tenmap_close(from);
    }
}

/* Reads that need a buffer: of many elements, of runs that are far apart, from a descriptor. */
/* The number of pages in this process's address space. */
static size_t pages_mapped(void) {
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (statm) {
        assert_int_equal(fscanf(statm, "%lu", &pages), 1);
        fclose(statm);
    }
    return pages;
}

/* The caller's allocator for a take, which fails like the library's. */
static void *take_alloc(void *ctx, size_t size, size_t alignment) {
    void **taken = ctx;
    *taken = malloc(size + alignment);
    return *taken ? (char *)*taken + alignment - (uintptr_t)*taken % alignment : NULL;
}

static void take_dealloc(void *ctx, void *memory, size_t size) {
    void **taken = ctx;
    (void)memory, (void)size;
    free(*taken);
}

/*
 * One take with the n-th allocation failing, into an arena of its own, or appended to another, from
 * the caller's allocator; true once none is left to fail.
 */
static bool take_with_failure(const tenmap_model *model, long n, bool append) {
    static unsigned char dst[64];
    static const uint64_t begin[1] = {5}, end[1] = {37};
    char long_name[400];
    memset(long_name, 'n', sizeof long_name);
    memcpy(long_name + 390, "%u", 3);
    tenmap_want wants[4] = {
        {.name = "large", .as = TENMAP_F32},
        {.name = long_name, .flags = TENMAP_WANT_OPTIONAL, .numbers = 1, .layer = 70000},
        {.name = "large"},
        {.name = "large", .rank = 1, .begin = begin, .end = end, .dst = dst, .dst_bytes = 64}};
    tenmap_want small = {.name = "large", .rank = 1, .begin = begin, .end = end};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_arena *before = NULL, *arena;
    tenmap_error error = {0};
    void *taken = NULL;
    size_t fds_before = descriptors();
    small.flags = TENMAP_WANT_COPY;
    if (append) {
        assert_int_equal(tenmap_take(model, &small, 1, NULL, &before, &error), TENMAP_OK);
        options.append = before;
        options.alloc = take_alloc;
        options.dealloc = take_dealloc;
        options.alloc_ctx = &taken;
    }
    options.threads = 3;
    fail_at = n;
    calls = 0;
    live = 0;
    armed = true;
    tenmap_status status = tenmap_take(model, wants, 4, &options, &arena, &error);
    bool done = calls <= n;
    if (status == TENMAP_OK && !append)
        tenmap_arena_free(arena);
    armed = false;
    if (status != TENMAP_OK) {
        check_error(&error, TENMAP_ERR_MEMORY);
        assert_null(arena);
        for (size_t i = 0; i < 4; i++)
            assert_true(!wants[i].data && !wants[i].nbytes);
    } else {
        assert_non_null(arena);
        assert_true(!append || arena == before);
    }
    assert_int_equal(live, append && status == TENMAP_OK ? 2 : 0); /* what was appended */
    tenmap_arena_free(before);
    assert_int_equal(descriptors(), fds_before);
    if (done)
        assert_int_equal(status, TENMAP_OK);
    return done;
}

static void every_allocation_of_a_take_may_fail(void **state) {
    enum { LARGE_BYTES = 12 << 20, PAGES_OF_LEAKS = 300 << 8 }; /* the arena has 24 MiB */
    const char *path = in_folder(state, "large.safetensors");
    char json[128];
    snprintf(json, sizeof json,
             "{\"large\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
             LARGE_BYTES / 2, LARGE_BYTES);
    write_model(path, json, LARGE_BYTES);
    for (uint32_t backend = TENMAP_BACKEND_MAP; backend <= TENMAP_BACKEND_READ; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        tenmap_model *model = must_open(path, &options);
        size_t before = pages_mapped();
        long n = 0;
        while (!take_with_failure(model, n, false))
            n++;
        assert_true(n >= 6);
        while (n++ < 40) /* enough of them that a leaked arena shows */
            take_with_failure(model, n % 8, false);
        for (n = 0; !take_with_failure(model, n, true); n++)
            ;
        assert_true(n >= 6);
        assert_true(pages_mapped() < before + PAGES_OF_LEAKS);
        tenmap_close(model);
    }
}

static void every_allocation_of_a_read_may_fail(void **state) {
    enum { ROWS = 600, ROW = 1000 };
    static float out[ROWS * ROW];
    const uint64_t begin[] = {0, 7}, end[] = {ROWS, 500};
    write_model(in_folder(state, "m.safetensors"),
                "{\"t\":{\"dtype\":\"BF16\",\"shape\":[600,1000],\"data_offsets\":[0,1200000]}}",
                (size_t)ROWS * ROW * 2);
    for (uint32_t backend = 0; backend < 2; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        tenmap_model *model = must_open(in_folder(state, "m.safetensors"), &options);
        const tenmap_tensor *t = tenmap_at(model, 0);
        bool done = false;
        for (long n = 0; !done; n++) {
            tenmap_error error = {0};
            fail_at = n;
            calls = live = 0;
            armed = true;
            tenmap_status status =
                tenmap_read(t, 0, t->nelems, TENMAP_F32, out, sizeof out, 0, &error);
            if (status == TENMAP_OK)
                status = tenmap_read_slice(t, begin, end, TENMAP_F32, out, sizeof out, 0, &error);
            armed = false;
            done = calls <= n;
            if (status != TENMAP_OK)
                check_error(&error, TENMAP_ERR_MEMORY);
            assert_true(done ? status == TENMAP_OK : status == TENMAP_ERR_MEMORY);
            assert_int_equal(live, 0);
        }
        tenmap_close(model);
    }
}

/* Of headers, which are read again, and of values, in pieces on threads. */
static void every_allocation_of_a_fingerprint_may_fail(void **state) {
    write_model(in_folder(state, "m.safetensors"),
                "{\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8);
    bytes small = gguf_small();
    write_file(in_folder(state, "m.gguf"), small.at, small.size);
    free(small.at);
    for (unsigned way = 0; way < 8; way++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = way & 1 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        tenmap_model *m =
            must_open(in_folder(state, way & 2 ? "m.gguf" : "m.safetensors"), &options);
        bool done = false;
        for (long n = 0; !done; n++) {
            uint8_t out[32] = {7};
            tenmap_error error = {0};
            fail_at = n;
            calls = live = 0;
            armed = true;
            tenmap_status status = tenmap_fingerprint(m, way >> 2, out, &error);
            armed = false;
            done = calls <= n;
            assert_true(!done || status == TENMAP_OK);
            if (status != TENMAP_OK) { /* a thread that does not start is not needed */
                check_error(&error, TENMAP_ERR_MEMORY);
                assert_int_equal(out[0], 7);
            }
            assert_int_equal(live, 0);
            assert_true(!done || n > 0); /* something was there to fail */
        }
        tenmap_close(m);
    }
}

static void every_allocation_of_a_prefetch_may_fail(void **state) {
    write_model(in_folder(state, "m.safetensors"),
                "{\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8);
    bool done = false;
    for (long n = 0; !done; n++) {
        tenmap_model *model = must_open(in_folder(state, "m.safetensors"), NULL);
        tenmap_error error = {0};
        fail_at = n;
        calls = 0;
        live = 0;
        armed = true;
        tenmap_status status = tenmap_advise(model, NULL, TENMAP_ADVISE_PREFETCH, &error);
        armed = false;
        done = calls <= n;
        if (status != TENMAP_OK) /* memory, or a thread */
            check_error(&error, n < 2 ? TENMAP_ERR_MEMORY : TENMAP_ERR_IO);
        assert_true(!done || status == TENMAP_OK);
        assert_true(done || status != TENMAP_OK);
        tenmap_close(model);
    }
}

/* Large enough for the tables to come from the system instead of malloc. */
static void every_allocation_of_a_checkpoint_s_values_may_fail(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2");
    pickle_vector(&p, "0", 4);
    TORCH_LITERAL(&p, ".");
    bytes file = make_checkpoint(&p, 1, 16);
    write_file(in_folder(state, "one.pt"), file.at, file.size);
    keeps_values = true;
    fail_each("the values of a checkpoint", in_folder(state, "one.pt"), NULL);
    keeps_values = false;
    free(file.at);
}

static void every_allocation_of_a_large_header_may_fail(void **state) {
    enum { TENSORS = 60000 };
    char *json = malloc(TENSORS * 100 + 100), *at = json;
    *at++ = '{';
    for (int i = TENSORS - 1; i >= 0; i--) /* backwards, so that it is sorted too */
        at += sprintf(
            at,
            "\"layers.%d.weight\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[%d,%d]}%s", i,
            i, i + 1, i ? "," : "}");
    write_model(in_folder(state, "large.safetensors"), json, TENSORS);
    free(json);
    fail_each("a large header", in_folder(state, "large.safetensors"), NULL);
}

/* Names so long at first that the table of names has to grow. */
static void every_allocation_of_a_growing_table_may_fail(void **state) {
    enum { TENSORS = 600, LONG = 60 };
    char *json = malloc(TENSORS * 180), *at = json, name[128];
    memset(name, 'n', sizeof name);
    for (int i = 0; i < TENSORS; i++)
        at += sprintf(at, "%c\"%.*s%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                      i ? ',' : '{', i < LONG ? 100 : 0, name, i, i, i + 1);
    strcpy(at, "}");
    write_model(in_folder(state, "m.safetensors"), json, TENSORS);
    free(json);
    fail_each("a growing table", in_folder(state, "m.safetensors"), NULL);
}

/* What is allocated after the tensors are known: their header order, and aliases. */
static void every_allocation_of_other_names_may_fail(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_ALIASES;
    write_model(in_folder(state, "m.safetensors"),
                "{\"__metadata__\":{\"b\":\"a\"},"
                "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
                "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                3);
    write_text(in_folder(state, "m.json"),
               "{\"metadata\":{\"d\":\"c\"},"
               "\"weight_map\":{\"a\":\"m.safetensors\",\"c\":\"m.safetensors\"}}");
    fail_each("other names", in_folder(state, "m.safetensors"), &options);
    fail_each("other names in an index", in_folder(state, "m.json"), &options);
}

static void every_allocation_of_a_list_may_fail(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    static char text[5][4096];
    const char *const paths[] = {text[0], text[1], text[2], text[3], text[4]};
    for (size_t i = 0; i < COUNT(paths); i++) {
        char name[16], json[256];
        snprintf(name, sizeof name, "f%zu", i);
        snprintf(text[i], sizeof text[i], "%s", in_folder(state, name));
        snprintf(json, sizeof json,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                 "\"b%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}}",
                 i);
        if (i == 1)
            write_text(text[i], "{\"weight_map\":{\"a\":\"f0\",\"c\":\"none\"}}");
        else if (i != 3)
            write_model(text[i], json, 5);
    }
    options.flags = TENMAP_OPEN_PARTIAL | TENMAP_OPEN_LATER_WINS;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        long n = 0;
        options.threads = threads;
        while (!open_with_failure(paths, COUNT(paths), &options, n))
            n++;
        print_message("           a list, on %u threads: %ld allocations\n", threads, n);
        assert_true(n > 10);
    }
}

static void every_allocation_of_a_hub_s_cache_may_fail(void **state) {
    static const char *const folders[] = {"c", "c/refs", "c/snapshots", "c/snapshots/one",
                                          "c/snapshots/two"};
    for (size_t i = 0; i < COUNT(folders); i++)
        assert_int_equal(mkdir(in_folder(state, folders[i]), 0700), 0);
    write_text(in_folder(state, "c/refs/main"), "two");
    write_model(in_folder(state, "c/snapshots/two/m.safetensors"),
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    bool done = false;
    for (long n = 0; !done; n++) {
        tenmap_error error = {0};
        tenmap_model *model = NULL;
        fail_at = n;
        calls = live = 0;
        armed = true;
        tenmap_status status = tenmap_open(in_folder(state, "c"), NULL, &model, &error);
        tenmap_close(model);
        armed = false;
        done = calls <= n;
        assert_int_equal(live, 0);
        assert_true(!done || status == TENMAP_OK);
        assert_true(done || status == TENMAP_OK || status == TENMAP_ERR_MEMORY ||
                    status == TENMAP_ERR_LIMIT);
        if (status != TENMAP_OK)
            check_error(&error, status);
    }
}

static void every_allocation_of_an_unknown_dtype_may_fail(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    char json[2048] = "{\"a\":{\"dtype\":\"Q\",\"data_offsets\":[0,4],\"shape\":[1";
    for (int i = 0; i < 100; i++)
        strcat(json, ",1");
    strcat(json, "]},\"b\":{\"dtype\":\"R\",\"data_offsets\":[4,6],\"shape\":[2]}}");
    write_model(in_folder(state, "m.safetensors"), json, 6);
    options.flags = TENMAP_OPEN_LENIENT;
    for (long n = 0;; n++) {
        tenmap_error error = {0};
        tenmap_model *model = NULL;
        fail_at = n;
        calls = live = 0;
        armed = true;
        tenmap_status status =
            tenmap_open(in_folder(state, "m.safetensors"), &options, &model, &error);
        tenmap_close(model);
        armed = false;
        assert_int_equal(live, 0);
        if (calls <= n) {
            assert_int_equal(status, TENMAP_OK);
            break;
        }
        if (status != TENMAP_OK) /* a realloc that only shrinks may fail */
            check_error(&error, status);
    }
}

static void a_file_system_that_maps_nothing_is_named_with_the_way_out(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    write_model(path, "{}", 0);
    tenmap_model *model = NULL;
    tenmap_error error = {0};
    map_error = ENODEV;
    tenmap_status status = tenmap_open(path, NULL, &model, &error);
    check_error(&error, status);
    assert_int_equal(error.os_error, ENODEV);
    assert_non_null(strstr(error.message, "cannot map the file (open it to be read, not mapped): "
                                          "this file system cannot map files"));
    assert_null(strstr(strstr(error.message, "mapped") + 1, "mapped")); /* said once */
    options.backend = TENMAP_BACKEND_READ;
    tenmap_close(must_open(path, &options));
    map_error = 0;
}

/* Writing: every allocation of each way to change a folder that holds a model. */

typedef tenmap_status change(const char *folder, const tenmap_model *from, tenmap_error *e);

static tenmap_status write_all(const char *folder, const tenmap_model *from, tenmap_error *e) {
    char path[4200];
    tenmap_writer *w;
    snprintf(path, sizeof path, "%s/written.safetensors", folder);
    tenmap_status status = tenmap_writer_create(path, NULL, &w, e);
    if (status != TENMAP_OK)
        return status;
    for (int i = 0; status == TENMAP_OK && i < 40; i++) {
        char name[16];
        uint64_t n = tenmap_at(from, 0)->nelems;
        snprintf(name, sizeof name, "n%d", i);
        status = tenmap_writer_metadata(w, name, TENMAP_CSTR, "value", TENMAP_CSTR, e);
        if (status == TENMAP_OK)
            status = tenmap_writer_add(w, name, TENMAP_CSTR, i ? TENMAP_F32 : TENMAP_BF16, &n, 1,
                                       NULL, e);
    }
    for (size_t i = 0; status == TENMAP_OK && i < 40; i++)
        status = tenmap_writer_copy(w, i, tenmap_at(from, 0), 0, e);
    if (status == TENMAP_OK)
        return tenmap_writer_commit(w, e);
    tenmap_writer_abort(w);
    return status;
}

static tenmap_status edit_one(const char *folder, uint32_t flags, tenmap_error *e) {
    char path[4200];
    static unsigned turn;
    tenmap_edit edit = {"k0", TENMAP_CSTR, turn++ % 2 ? "a" : "b", TENMAP_CSTR, NULL};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    options.flags = flags;
    snprintf(path, sizeof path, "%s/one.safetensors", folder);
    return tenmap_edit_metadata(path, &edit, 1, &options, NULL, e);
}

static tenmap_status edit_there(const char *folder, const tenmap_model *from, tenmap_error *e) {
    (void)from;
    return edit_one(folder, 0, e);
}

static tenmap_status edit_anew(const char *folder, const tenmap_model *from, tenmap_error *e) {
    (void)from;
    return edit_one(folder, TENMAP_EDIT_NO_IN_PLACE, e);
}

/* The tensor's current name is looked up while nothing fails. */
static tenmap_status rename_there(const char *folder, const tenmap_model *from, tenmap_error *e) {
    char path[4200], before[64];
    (void)from;
    snprintf(path, sizeof path, "%s/one.safetensors", folder);
    armed = false;
    tenmap_model *m = must_open(path, NULL);
    snprintf(before, sizeof before, "%s", tenmap_at(m, 0)->name);
    tenmap_close(m);
    armed = true;
    const tenmap_renaming names[] = {
        {before, TENMAP_CSTR, strcmp(before, "q") == 0 ? "r" : "q", TENMAP_CSTR}};
    return tenmap_rename(path, names, 1, NULL, 0, NULL, NULL, e);
}

static tenmap_status save_all(const char *folder, const tenmap_model *from, tenmap_error *e) {
    tenmap_source sources[3];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    memset(sources, 0, sizeof sources);
    for (size_t i = 0; i < 3; i++) {
        sources[i].tensor = tenmap_at(from, 0);
        sources[i].name = &"abc"[i];
        sources[i].name_len = 1;
    }
    options.max_shard_bytes = 1;
    return tenmap_save_sharded(folder, sources, 3, &options, e);
}

static void fail_each_change(void **state, const char *what, change *make) {
    tenmap_model *from = must_open(in_folder(state, "one.safetensors"), NULL);
    bool done = false;
    long n = 0;
    for (; !done; n++) {
        tenmap_error error = {0};
        size_t fds_before = descriptors();
        fail_at = n;
        calls = live = 0;
        armed = true;
        tenmap_status status = make(*state, from, &error);
        armed = false;
        done = calls <= n;
        if (status != TENMAP_OK)
            check_error(&error, status);
        if (status != TENMAP_OK && status != TENMAP_ERR_MEMORY)
            fail_msg("%s, allocation %ld: %s", what, n, error.message);
        assert_int_equal(live, 0);
        assert_int_equal(descriptors(), fds_before);
        if (done)
            assert_int_equal(status, TENMAP_OK);
        tenmap_close(must_open(in_folder(state, "one.safetensors"), NULL));
    }
    tenmap_close(from);
    print_message("           %s: %ld allocations\n", what, n - 1);
    assert_true(n > 3);
}

/* The record of an edit that was interrupted before it changed anything, then its repair. */
static tenmap_status repair_one(const char *folder, const tenmap_model *from, tenmap_error *e) {
    char path[4200], record[4200];
    struct stat st;
    uint64_t hash = UINT64_C(14695981039346656037);
    (void)from;
    snprintf(path, sizeof path, "%s/one.safetensors", folder);
    snprintf(record, sizeof record, "%s/.one.safetensors.tenmap-undo", folder);
    armed = false;
    bytes file = read_whole(path);
    size_t n = (size_t)(file.at[0] | file.at[1] << 8), total = 40 + 2 * n + 8;
    uint64_t words[4] = {0, 0, file.size, n};
    unsigned char *r = calloc(1, total);
    words[1] = stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
    memcpy(r, "TENMAPU1", 8);
    for (size_t i = 0; i < sizeof words; i++)
        r[8 + i] = (unsigned char)(words[i / 8] >> (8 * (i % 8)));
    memcpy(r + 40, file.at + 8, n);
    memcpy(r + 40 + n, file.at + 8, n);
    for (size_t i = 0; i < total - 8; i++)
        hash = (hash ^ r[i]) * UINT64_C(1099511628211);
    for (size_t i = 0; i < 8; i++)
        r[total - 8 + i] = (unsigned char)(hash >> (8 * i));
    write_file(record, r, total);
    free(r);
    free(file.at);
    armed = true;
    return tenmap_repair_metadata(path, 0, NULL, e);
}

static void every_allocation_of_writing_may_fail(void **state) {
    write_model(in_folder(state, "one.safetensors"),
                "{\"__metadata__\":{\"k0\":\"v\"},"
                "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                4);
    fail_each_change(state, "a write", write_all);
    fail_each_change(state, "an edit in place", edit_there);
    fail_each_change(state, "an edit that makes a file", edit_anew);
    fail_each_change(state, "a renaming", rename_there);
    fail_each_change(state, "a save in shards", save_all);
    fail_each_change(state, "a repair", repair_one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_allocation_of_writing_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_numpy_files_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_gguf_file_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_pytorch_file_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_sharded_model_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_derived_tensors_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_load_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_take_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_read_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_fingerprint_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_prefetch_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_checkpoint_s_values_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_large_header_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_growing_table_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_other_names_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_list_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_a_hub_s_cache_may_fail, empty_folder),
        cmocka_unit_test_setup(every_allocation_of_an_unknown_dtype_may_fail, empty_folder),
        cmocka_unit_test_setup(a_file_system_that_maps_nothing_is_named_with_the_way_out,
                               empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
