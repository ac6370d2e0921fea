/*
 * TENMAP_OPEN_PRIVATE: what is written to a private mapping is seen through views, reads, loads and
 * measures, and never reaches the file, which checked reads, copies and fingerprints see.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io_files.h"
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* An FP8 weight with a scale for each row comes after "w", whose data begins at a page. */
enum { ROWS = 512, COLUMNS = 256, W = ROWS * COLUMNS * 4, CODES = 64 * 4, SCALES = 64 * 4 };

static const char *private_file(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    char json[4096 - 8 + 1];
    int used = snprintf(
        json, sizeof json,
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
        "\"q.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[64,4],\"data_offsets\":[%d,%d]},"
        "\"q.weight_scale\":{\"dtype\":\"F32\",\"shape\":[64,1],\"data_offsets\":[%d,%d]}}",
        ROWS, COLUMNS, W, W, W + CODES, W + CODES, W + CODES + SCALES);
    memset(json + used, ' ', sizeof json - 1 - (size_t)used);
    json[sizeof json - 1] = '\0';
    bytes file = make_model(json, W + CODES + SCALES);
    float *w = (float *)(void *)(file.at + 4096), one = 1;
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
        w[i] = (float)(i % 1000);
    for (size_t i = 0; i < CODES; i++)
        file.at[4096 + W + i] = (unsigned char)(i % 100);
    for (size_t i = 0; i < SCALES / 4; i++)
        memcpy(file.at + 4096 + W + CODES + i * 4, &one, 4);
    write_file(path, file.at, file.size);
    free(file.at);
    return path;
}

static tenmap_model *open_private(const char *path) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_PRIVATE | TENMAP_OPEN_DEQUANTIZE;
    return must_open(path, &options);
}

/* The tensor's bytes, to be written. */
static float *writable(const tenmap_tensor *t) {
    return (float *)(uintptr_t)t->data;
}

static float load_first(const tenmap_model *m, const char *name, uint32_t flags) {
    float first[4];
    const uint64_t begin[2] = {0, 0}, end[2] = {1, 4};
    tenmap_request r = {.tensor = tenmap_find(m, name),
                        .as = TENMAP_F32,
                        .dst = first,
                        .dst_bytes = sizeof first,
                        .begin = begin,
                        .end = end};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.flags = flags;
    assert_int_equal(tenmap_load(m, &r, 1, &options, NULL), TENMAP_OK);
    return first[1];
}

/* The second element of "w" and of "q.weight", before and after both are written. */
static const float stored_w = 1, written_w = 5000, written_scale = 64;

static void write_both(const tenmap_model *m) {
    writable(tenmap_find(m, "w"))[1] = written_w;
    writable(tenmap_part_at(tenmap_find(m, "q.weight"), 1))[0] = written_scale;
}

static void what_is_written_is_seen_in_memory_and_not_in_the_file(void **state) {
    const char *path = private_file(state);
    bytes before = read_whole(path);
    tenmap_model *m = open_private(path);
    const tenmap_tensor *w = tenmap_find(m, "w");
    float value, stored_q = load_first(m, "q.weight", 0);
    assert_true(stored_q != 0);
    write_both(m);
    assert_true(((const float *)tenmap_view(w, TENMAP_F32, NULL))[1] == written_w);
    assert_int_equal(tenmap_read(w, 1, 1, TENMAP_F32, &value, 4, 0, NULL), TENMAP_OK);
    assert_true(value == written_w);
    assert_true(load_first(m, "w", 0) == written_w);
    assert_true(load_first(m, "q.weight", 0) == stored_q * written_scale);
    tenmap_stats stats;
    assert_int_equal(tenmap_measure(&w, 1, NULL, &stats, NULL), TENMAP_OK);
    assert_true(stats.max == written_w);
    tenmap_want want = {.name = "w", .as = TENMAP_F64};
    tenmap_arena *arena;
    assert_int_equal(tenmap_take(m, &want, 1, NULL, &arena, NULL), TENMAP_OK);
    assert_true(((const double *)want.data)[1] == written_w);
    tenmap_arena_free(arena);
    for (uint32_t flags = TENMAP_LOAD_READ; flags <= TENMAP_LOAD_DIRECT; flags++) {
        assert_true(load_first(m, "w", flags) == stored_w);
        assert_true(load_first(m, "q.weight", flags) == stored_q);
    }
    bytes after = read_whole(path);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.at, after.at, before.size);
    free(before.at);
    free(after.at);
    tenmap_close(m);
}

static void check_copy(const char *path, float stored_q) {
    tenmap_model *copy = must_open(path, NULL);
    assert_true(load_first(copy, "w", 0) == stored_w);
    assert_true(load_first(copy, "q.weight", 0) == stored_q);
    tenmap_close(copy);
}

static void copies_saves_and_fingerprints_are_those_of_the_file(void **state) {
    const char *path = private_file(state);
    tenmap_model *m = open_private(path);
    uint8_t before[2][32], after[2][32];
    float stored_q = load_first(m, "q.weight", 0);
    for (uint32_t flags = 0; flags <= TENMAP_FINGERPRINT_VALUES; flags++)
        assert_int_equal(tenmap_fingerprint(m, flags, before[flags], NULL), TENMAP_OK);
    write_both(m);
    for (uint32_t flags = 0; flags <= TENMAP_FINGERPRINT_VALUES; flags++)
        assert_int_equal(tenmap_fingerprint(m, flags, after[flags], NULL), TENMAP_OK);
    assert_memory_equal(before, after, sizeof before);
    static const tenmap_dtype dtypes[] = {TENMAP_AS_STORED, TENMAP_F64}; /* as it is; converted */
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        tenmap_source sources[2] = {{.tensor = tenmap_find(m, "w"), .dtype = dtypes[i]},
                                    {.tensor = tenmap_find(m, "q.weight")}};
        const char *out = in_folder(state, i ? "converted" : "copied");
        assert_int_equal(mkdir(out, 0777), 0);
        assert_int_equal(tenmap_save_sharded(out, sources, 2, NULL, NULL), TENMAP_OK);
        check_copy(out, stored_q);
    }
    tenmap_close(m);
}

static void releasing_does_not_undo_writes(void **state) {
    const char *path = private_file(state);
    tenmap_model *m = open_private(path);
    const tenmap_tensor *w = tenmap_find(m, "w");
    write_both(m);
    for (uint32_t advice = TENMAP_ADVISE_POPULATE; advice <= TENMAP_ADVISE_UNLOCK; advice++) {
        assert_int_equal(tenmap_advise(m, NULL, advice, NULL), TENMAP_OK);
        assert_int_equal(tenmap_advise_range(w, 0, W, advice, NULL), TENMAP_OK);
        assert_int_equal(tenmap_advise_list(m, &w, 1, advice, NULL), TENMAP_OK);
        assert_true(writable(w)[1] == written_w);
        assert_true(writable(w)[7] == 7);
    }
    tenmap_error error;
    check_refused(tenmap_detach(m, NULL, &error), &error, TENMAP_ERR_UNSUPPORTED,
                  "would undo what was written");
    assert_true(writable(w)[1] == written_w);
    tenmap_close(m);
}

static void only_mapped_files_can_be_private(void **state) {
    const char *path = private_file(state);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *m;
    options.flags = TENMAP_OPEN_PRIVATE;
    options.backend = TENMAP_BACKEND_READ;
    must_fail(path, &options, TENMAP_ERR_ARGUMENT, "TENMAP_OPEN_PRIVATE");
    options.backend = TENMAP_BACKEND_MAP;
    io_files files = {0};
    tenmap_io io = io_files_io(&files);
    options.io = &io;
    must_fail(path, &options, TENMAP_ERR_ARGUMENT, "TENMAP_OPEN_PRIVATE");
    options.io = NULL;
    bytes file = read_whole(path);
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "TENMAP_OPEN_PRIVATE");
    free(file.at);
    int fd = open(path, O_RDONLY);
    assert_int_equal(tenmap_open_fd(fd, &options, &m, NULL), TENMAP_OK);
    close(fd);
    writable(tenmap_find(m, "w"))[1] = written_w;
    assert_true(load_first(m, "w", 0) == written_w);
    tenmap_close(m);
}

/* Only NORESERVE lets a mapping be larger than memory and swap. */
static void a_model_larger_than_memory_opens(void **state) {
#if SIZE_MAX <= UINT32_MAX || defined(__SANITIZE_THREAD__)
    (void)state;
    print_message("           SKIPPED: 1 TiB does not fit into this address space\n");
#else
    const char *path = in_folder(state, "large.safetensors");
    static const char json[] =
        "{\"t\":{\"dtype\":\"U8\",\"shape\":[1099511627776],\"data_offsets\":[0,1099511627776]}}";
    write_model(path, json, 0);
    if (truncate(path, (off_t)(8 + strlen(json)) + ((off_t)1 << 40)) != 0) {
        print_message("           SKIPPED: the file system has no files of 1 TiB\n");
        return;
    }
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_PRIVATE;
    tenmap_model *m = must_open(path, &options);
    unsigned char *data = (unsigned char *)(uintptr_t)tenmap_at(m, 0)->data;
    data[((size_t)1 << 40) - 1] = 7;
    unsigned char last[2];
    assert_int_equal(tenmap_read_bytes(tenmap_at(m, 0), ((uint64_t)1 << 40) - 2, 2, last, NULL),
                     TENMAP_OK);
    assert_int_equal(last[1], 7);
    tenmap_close(m);
#endif
}

#ifdef __linux__
/* How many bytes of "w" another mapping of the file sees in the page cache. */
static uint64_t cached_for_others(int fd) {
    static unsigned char pages[W / 4096];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), found = 0;
    void *at = mmap(NULL, W, PROT_READ, MAP_SHARED, fd, 4096);
    assert_true(at != MAP_FAILED);
    assert_int_equal(mincore(at, W, pages), 0);
    for (size_t i = 0; i < W / page; i++)
        found += pages[i] & 1;
    assert_int_equal(munmap(at, W), 0);
    return found * page;
}
#endif

/* The system may keep pages that it was asked to drop, and drop others at any time. */
static void pages_that_were_written_do_not_count_as_cached(void **state) {
#ifdef __linux__ /* only there is it known which pages are cached */
    if (sysconf(_SC_PAGESIZE) != 4096) {
        print_message("           SKIPPED: for pages of 4096 bytes\n");
        return;
    }
    const char *path = private_file(state);
    int fd = open(path, O_RDONLY);
    assert_int_equal(fsync(fd), 0);
    tenmap_model *m = open_private(path);
    const tenmap_tensor *w = tenmap_find(m, "w");
    for (size_t i = 0; i < W / 4; i++)
        writable(w)[i] = 1;
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    uint64_t cached = 77, resident = 0, before = cached_for_others(fd);
    assert_int_equal(tenmap_cached(m, w, &cached, NULL), TENMAP_OK);
    assert_true(cached <= before && cached >= cached_for_others(fd));
    assert_int_equal(tenmap_resident(m, w, &resident, NULL), TENMAP_OK);
    assert_int_equal(resident, W);
    if (before == W)
        print_message("           SKIPPED: the file system keeps its pages\n");
    close(fd);
    tenmap_close(m);
#else
    (void)state;
#endif
}

static void a_child_writes_to_its_own_copy(void **state) {
    tenmap_model *m = open_private(private_file(state));
    float *w = writable(tenmap_find(m, "w"));
    pid_t child = fork();
    if (child == 0) {
        w[1] = written_w;
        _exit(load_first(m, "w", 0) == written_w ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(w[1] == stored_w);
    tenmap_close(m);
}

/* Threads apply a low-rank update to rows of their own; others read what nobody writes. */
enum { THREADS = 4 };
static const float b_factor = 0.5f;

typedef struct update {
    const tenmap_model *model;
    size_t thread;
    bool failed;
} update;

static void *apply_rows(void *arg) {
    update *u = arg;
    float *w = writable(tenmap_find(u->model, "w"));
    size_t rows = ROWS / THREADS;
    for (size_t i = u->thread * rows; i < (u->thread + 1) * rows; i++)
        for (size_t k = 0; k < COLUMNS; k++)
            w[i * COLUMNS + k] += b_factor * (float)(i % 7) * (float)(k % 5);
    return NULL;
}

static void *read_weights(void *arg) {
    update *u = arg;
    float values[CODES];
    const tenmap_tensor *q = tenmap_find(u->model, "q.weight");
    for (int i = 0; i < 200 && !u->failed; i++)
        u->failed = tenmap_read(q, 0, CODES, TENMAP_F32, values, sizeof values, 0, NULL) != 0 ||
                    tenmap_advise(u->model, NULL, 1 + (uint32_t)i % 3, NULL) != TENMAP_OK;
    return NULL;
}

static void threads_write_rows_of_their_own_while_others_read(void **state) {
    tenmap_model *m = open_private(private_file(state));
    pthread_t threads[2 * THREADS];
    update updates[2 * THREADS];
    for (size_t i = 0; i < 2 * THREADS; i++) {
        updates[i] = (update){m, i % THREADS, false};
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < THREADS ? apply_rows : read_weights, &updates[i]),
            0);
    }
    for (size_t i = 0; i < 2 * THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(updates[i].failed);
    }
    const float *w = tenmap_view(tenmap_find(m, "w"), TENMAP_F32, NULL);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < COLUMNS; k++)
            assert_true(w[i * COLUMNS + k] == (float)((i * COLUMNS + k) % 1000) +
                                                  b_factor * (float)(i % 7) * (float)(k % 5));
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_written_is_seen_in_memory_and_not_in_the_file, empty_folder),
        cmocka_unit_test_setup(copies_saves_and_fingerprints_are_those_of_the_file, empty_folder),
        cmocka_unit_test_setup(releasing_does_not_undo_writes, empty_folder),
        cmocka_unit_test_setup(only_mapped_files_can_be_private, empty_folder),
        cmocka_unit_test_setup(a_model_larger_than_memory_opens, empty_folder),
        cmocka_unit_test_setup(pages_that_were_written_do_not_count_as_cached, empty_folder),
        cmocka_unit_test_setup(a_child_writes_to_its_own_copy, empty_folder),
        cmocka_unit_test_setup(threads_write_rows_of_their_own_while_others_read, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
