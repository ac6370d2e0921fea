/* Models whose bytes come from the caller's tenmap_io. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io_files.h"
#include "support.h"

#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#define ONE "\"a\":{\"dtype\":\"F32\",\"shape\":[8,4],\"data_offsets\":[0,128]}"
#define TWO "\"b\":{\"dtype\":\"BF16\",\"shape\":[16],\"data_offsets\":[0,32]}"

/* A file, an index with two shards, and a folder that holds both. */
static int make_models(void **state) {
    if (make_folder(state) != 0)
        return 1;
    write_model(in_folder(state, "one.safetensors"), "{" ONE "}", 128);
    write_model(in_folder(state, "x-00001-of-00002.safetensors"), "{" ONE "}", 128);
    write_model(in_folder(state, "x-00002-of-00002.safetensors"), "{" TWO "}", 32);
    write_text(in_folder(state, "model.safetensors.index.json"),
               "{\"weight_map\":{\"a\":\"x-00001-of-00002.safetensors\","
               "\"b\":\"x-00002-of-00002.safetensors\"}}");
    return 0;
}

/* Options that open through `files`; the tenmap_io is the caller's. */
static tenmap_options through(io_files *files, tenmap_io *io) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    *io = io_files_io(files);
    options.io = io;
    return options;
}

static void assert_values(const tenmap_model *m) {
    const tenmap_tensor *a = tenmap_find(m, "a");
    unsigned char data[128];
    tenmap_error error;
    assert_non_null(a);
    assert_int_equal(tenmap_read_bytes(a, 0, sizeof data, data, &error), TENMAP_OK);
    for (size_t i = 0; i < sizeof data; i++)
        assert_int_equal(data[i], pattern_byte(i));
}

static void a_file_an_index_and_a_folder_open(void **state) {
    static const char *const names[] = {"one.safetensors", "model.safetensors.index.json", ""};
    for (size_t i = 0; i < COUNT(names); i++) {
        io_files files = {0};
        tenmap_io io;
        tenmap_options options = through(&files, &io);
        tenmap_model *m = must_open(*names[i] ? in_folder(state, names[i]) : *state, &options);
        assert_int_equal(tenmap_count(m), i == 0 ? 1 : 2);
        assert_values(m);
        tenmap_close(m);
        assert_int_equal(files.opened, files.closed);
        assert_true(files.opened >= 1);
    }
}

static void nothing_is_mapped_and_there_is_no_descriptor(void **state) {
    io_files files = {0};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    tenmap_model *m = must_open(in_folder(state, "one.safetensors"), &options);
    const tenmap_tensor *a = tenmap_find(m, "a");
    tenmap_error error;
    uint64_t size = 1;
    memset(&io, 0, sizeof io); /* it was copied at open */
    assert_null(a->data);
    assert_null(tenmap_view(a, TENMAP_F32, &error));
    assert_int_equal(error.status, TENMAP_ERR_UNSUPPORTED);
    assert_int_equal(tenmap_shard_at(m, 0)->fd, -1);
    assert_null(tenmap_shard_at(m, 0)->base);
    assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_POPULATE, &error), TENMAP_OK);
    assert_int_equal(tenmap_resident(m, NULL, &size, &error), TENMAP_OK);
    assert_int_equal(size, 0);
    assert_int_equal(tenmap_cached(m, NULL, &size, &error), TENMAP_OK);
    assert_int_equal(size, 0);
    assert_values(m);
    tenmap_close(m);
}

/* What follows the path of an index, from '?' on, also follows the paths of its shards. */
static void siblings_keep_what_follows_a_question_mark(void **state) {
    io_files files = {.strip = "?key=1/2"};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    char path[4200];
    snprintf(path, sizeof path, "%s?key=1/2", in_folder(state, "model.safetensors.index.json"));
    tenmap_model *m = must_open(path, &options);
    assert_int_equal(tenmap_count(m), 2);
    assert_non_null(strstr(tenmap_shard_at(m, 1)->path, "x-00002-of-00002.safetensors?key=1/2"));
    tenmap_close(m);
    snprintf(path, sizeof path, "%s?key=1/2", (const char *)*state);
    m = must_open(path, &options);
    assert_int_equal(tenmap_count(m), 2);
    tenmap_close(m);
}

static void without_list_there_are_no_folders(void **state) {
    io_files files = {0};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    io.list = NULL;
    must_fail(*state, &options, TENMAP_ERR_NOT_FOUND, "this store has no such object");
    tenmap_close(must_open(in_folder(state, "model.safetensors.index.json"), &options));
}

/*
 * Every call fails in turn: its status and its message reach the caller, and what was opened is
 * closed.
 */
static void the_sentence_of_a_failing_call_arrives(void **state) {
    static const tenmap_status statuses[] = {TENMAP_ERR_IO, TENMAP_ERR_MEMORY,
                                             TENMAP_ERR_CANCELLED};
    for (size_t s = 0; s < COUNT(statuses); s++)
        for (long n = 1;; n++) {
            io_files files = {.fail_at = n,
                              .fail_with = statuses[s],
                              .message = "the store is closed for the night"};
            tenmap_io io;
            tenmap_options options = through(&files, &io);
            tenmap_model *m = NULL;
            tenmap_error error = {0};
            tenmap_status status = tenmap_open(*state, &options, &m, &error);
            if (status == TENMAP_OK) {
                char data[128];
                status = tenmap_read_bytes(tenmap_find(m, "a"), 0, sizeof data, data, &error);
            } else {
                assert_null(m);
            }
            tenmap_close(m);
            assert_int_equal(files.opened, files.closed);
            if (files.calls < n) {
                assert_int_equal(status, TENMAP_OK);
                break;
            }
            assert_int_equal(status, statuses[s]);
            assert_int_equal(error.status, statuses[s]);
            assert_string_equal(error.message, "the store is closed for the night");
            assert_true(n < 100);
        }
}

static void a_failure_without_a_sentence_gets_one(void **state) {
    io_files files = {.fail_at = 2, .fail_with = 4711};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    tenmap_model *m;
    tenmap_error error;
    assert_int_equal(tenmap_open(in_folder(state, "one.safetensors"), &options, &m, &error),
                     TENMAP_ERR_IO);
    check_error(&error, TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "the tenmap_io returned status 4711 and no message"));
}

/* If an object is shorter than open said, the store's own message is returned. */
static void a_short_answer_is_an_error(void **state) {
    io_files files = {0};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    const char *path = in_folder(state, "short.safetensors");
    write_model(path, "{" ONE "}", 128);
    tenmap_model *m = must_open(path, &options);
    tenmap_error error;
    float values[32];
    write_model(path, "{" ONE "}", 100);
    assert_int_equal(
        tenmap_read(tenmap_find(m, "a"), 0, 32, TENMAP_F32, values, sizeof values, 0, &error),
        TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "the store has only"));
    tenmap_close(m);
    must_fail(path, &options, TENMAP_ERR_FORMAT, "truncated: 85.5% is there, 166 of 194 bytes");
}

static void reads_have_the_size_that_is_preferred(void **state) {
    enum { BYTES = 3 << 20 };
    static const char json[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3145728],"
                               "\"data_offsets\":[0,3145728]}}";
    const char *path = in_folder(state, "large.safetensors");
    unsigned char *data = malloc(BYTES);
    io_files files = {0};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    tenmap_error error;
    assert_non_null(data);
    io.preferred_bytes = 64 << 10;
    write_model(path, json, BYTES);
    tenmap_model *m = must_open(path, &options);
    assert_int_equal(tenmap_read_bytes(tenmap_find(m, "a"), 0, BYTES, data, &error), TENMAP_OK);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(data[i], pattern_byte(i));
    tenmap_request request = {.tensor = tenmap_find(m, "a"), .dst = data, .dst_bytes = BYTES};
    memset(data, 0, BYTES);
    tenmap_load_options load = TENMAP_LOAD_OPTIONS_INIT;
    load.flags = TENMAP_LOAD_DIRECT; /* has no effect here */
    assert_int_equal(tenmap_load(m, &request, 1, &load, &error), TENMAP_OK);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(data[i], pattern_byte(i));
    assert_int_equal(files.largest, 64 << 10);
    tenmap_close(m);
    free(data);
}

typedef struct reader_thread {
    const tenmap_model *model;
    bool good;
} reader_thread;

static void *read_much(void *ctx) {
    reader_thread *r = ctx;
    float values[32], again[32];
    r->good = true;
    for (int i = 0; i < 20; i++) {
        r->good = r->good && tenmap_read(tenmap_find(r->model, "a"), 0, 32, TENMAP_F32, values,
                                         sizeof values, 0, NULL) == TENMAP_OK;
        r->good = r->good && (i == 0 || memcmp(values, again, sizeof values) == 0);
        memcpy(again, values, sizeof values);
    }
    return NULL;
}

static void many_threads_read_at_once(void **state) {
    io_files files = {.delay_us = 1000};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    tenmap_model *m = must_open(*state, &options);
    pthread_t threads[8];
    reader_thread readers[8];
    for (size_t i = 0; i < COUNT(threads); i++) {
        readers[i] = (reader_thread){m, false};
        assert_int_equal(pthread_create(&threads[i], NULL, read_much, &readers[i]), 0);
    }
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_true(readers[i].good);
    }
    assert_true(files.most_at_once > 1);
    tenmap_close(m);
}

/*
 * Small tensors, which are read together with what follows them, between large ones, which are read
 * directly.
 */
static void a_load_reads_no_byte_twice(void **state) {
    enum { PAIRS = 12, SMALL = 100, LARGE = 100000, TENSORS = 2 * PAIRS };
    static char json[8192];
    static unsigned char dst[TENSORS][2 * LARGE];
    size_t len = 0, at = 0;
    for (int i = 0; i < TENSORS; i++) {
        size_t size = i % 2 ? LARGE : SMALL;
        len += (size_t)snprintf(json + len, sizeof json - len,
                                "%c\"t%02d\":{\"dtype\":\"F16\",\"shape\":[%zu],"
                                "\"data_offsets\":[%zu,%zu]}",
                                i ? ',' : '{', i, size / 2, at, at + size);
        at += size;
    }
    snprintf(json + len, sizeof json - len, "}");
    write_model(in_folder(state, "mixed.safetensors"), json, at);
    for (int converted = 0; converted < 3; converted++) {
        io_files files = {0};
        tenmap_io io;
        tenmap_options options = through(&files, &io);
        tenmap_model *m = must_open(in_folder(state, "mixed.safetensors"), &options);
        tenmap_request requests[TENSORS] = {{0}};
        tenmap_error error;
        uint64_t before = files.bytes;
        for (size_t i = 0; i < TENSORS; i++)
            requests[i] = (tenmap_request){.tensor = tenmap_at(m, i),
                                           .as = converted > (int)(i % 3) ? TENMAP_F32 : 0,
                                           .dst = dst[i],
                                           .dst_bytes = sizeof dst[i]};
        assert_int_equal(tenmap_load(m, requests, TENSORS, NULL, &error), TENMAP_OK);
        assert_int_equal(files.bytes - before, at);
        for (size_t i = 0; i < TENSORS && !converted; i++)
            for (size_t b = 0; b < requests[i].tensor->nbytes; b++)
                assert_int_equal(dst[i][b], pattern_byte((size_t)(requests[i].tensor->file_offset -
                                                                  tenmap_at(m, 0)->file_offset) +
                                                         b));
        tenmap_close(m);
    }
}

/* An io whose opens of shards wait for each other, which shows how many run at once. */
typedef struct meeting {
    tenmap_io io; /* which opens */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int inside, most, expected;
} meeting;

static tenmap_status open_together(void *ctx, const char *path, void **file, uint64_t *size,
                                   tenmap_error *error) {
    meeting *m = ctx;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&m->lock);
    m->inside++;
    m->most = m->inside > m->most ? m->inside : m->most;
    pthread_cond_broadcast(&m->changed);
    while (strstr(path, "-of-") && m->most < m->expected &&
           pthread_cond_timedwait(&m->changed, &m->lock, &until) == 0)
        ;
    m->inside--;
    pthread_mutex_unlock(&m->lock);
    return m->io.open(m->io.ctx, path, file, size, error);
}

static tenmap_status read_alone(void *ctx, void *file, uint64_t offset, void *dst, size_t size,
                                tenmap_error *error) {
    meeting *m = ctx;
    return m->io.read(m->io.ctx, file, offset, dst, size, error);
}

static void close_alone(void *ctx, void *file) {
    meeting *m = ctx;
    m->io.close(m->io.ctx, file);
}

/*
 * Opens wait for responses, so many run at once on any number of CPUs, but no more than requested.
 */
static void shards_are_opened_at_once(void **state) {
    enum { SHARDS = 24 };
    static const struct {
        uint32_t threads;
        int expected;
    } cases[] = {{0, 8}, {3, 3}, {1, 1}};
    char json[4096] = "{\"weight_map\":{", name[64], header[128];
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "y-%05d-of-%05d.safetensors", i + 1, (int)SHARDS);
        snprintf(header, sizeof header,
                 "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", i);
        write_model(in_folder(state, name), header, 1);
        sprintf(json + strlen(json), "%s\"t%d\":\"%s\"", i ? "," : "", i, name);
    }
    strcat(json, "}}");
    write_text(in_folder(state, "y.json"), json);
    for (size_t i = 0; i < COUNT(cases); i++) {
        io_files files = {0};
        meeting m = {.io = io_files_io(&files), .expected = cases[i].expected};
        tenmap_io io = m.io;
        tenmap_options options = TENMAP_OPTIONS_INIT;
        pthread_mutex_init(&m.lock, NULL);
        pthread_cond_init(&m.changed, NULL);
        io.open = open_together;
        io.read = read_alone;
        io.close = close_alone;
        io.list = NULL;
        io.ctx = &m;
        options.io = &io;
        options.threads = cases[i].threads;
        tenmap_model *model = must_open(in_folder(state, "y.json"), &options);
        assert_int_equal(tenmap_count(model), SHARDS);
        tenmap_close(model);
        assert_int_equal(m.most, cases[i].expected);
        pthread_cond_destroy(&m.changed);
        pthread_mutex_destroy(&m.lock);
    }
}

static void arguments_are_checked(void **state) {
    io_files files = {0};
    tenmap_io io, whole = io_files_io(&files);
    tenmap_options options = through(&files, &io);
    const char *path = in_folder(state, "one.safetensors");
    bytes file = read_whole(path);
    tenmap_model *m;
    tenmap_error error;
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "options.io works only for models");
    assert_int_equal(tenmap_open_fd(0, &options, &m, &error), TENMAP_ERR_ARGUMENT);
    assert_null(m);
    free(file.at);
    io.open = NULL;
    must_fail(path, &options, TENMAP_ERR_ARGUMENT, "options.io has no open function");
    io = whole;
    io.read = NULL;
    must_fail(path, &options, TENMAP_ERR_ARGUMENT, "options.io has no read function");
    io = whole;
    io.close = NULL;
    must_fail(path, &options, TENMAP_ERR_ARGUMENT, "options.io has no close function");
    io = whole;
    io.struct_size = 8;
    must_fail(path, &options, TENMAP_ERR_ARGUMENT, "TENMAP_IO_INIT");
    io = whole;
    io.reserved[3] = 1;
    must_fail(path, &options, TENMAP_ERR_ARGUMENT, "tenmap_io.reserved must be 0");
    assert_int_equal(files.calls, 0);
}

static void missing_shards_are_named(void **state) {
    io_files files = {0};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    const char *path = in_folder(state, "lacks.index.json");
    write_text(path, "{\"weight_map\":{\"a\":\"x-00001-of-00002.safetensors\","
                     "\"c\":\"gone.safetensors\"}}");
    must_fail(path, &options, TENMAP_ERR_NOT_FOUND, "\"gone.safetensors\"");
    options.flags = TENMAP_OPEN_PARTIAL;
    tenmap_model *m = must_open(path, &options);
    assert_int_equal(tenmap_missing_count(m), 1);
    assert_string_equal(tenmap_missing_at(m, 0), "gone.safetensors");
    tenmap_close(m);
}

/* The header takes one read, whatever its length, because a store may be far away. */
static void opening_takes_few_reads(void **state) {
    io_files files = {0};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    tenmap_close(must_open(in_folder(state, "one.safetensors"), &options));
    assert_int_equal(files.reads, 2);
}

static tenmap_status open_zeros(void *ctx, const char *path, void **file, uint64_t *size,
                                tenmap_error *error) {
    (void)ctx, (void)path, (void)error;
    *file = NULL;
    *size = 16;
    return TENMAP_OK;
}

static tenmap_status read_zeros(void *ctx, void *file, uint64_t offset, void *dst, size_t size,
                                tenmap_error *error) {
    (void)ctx, (void)file, (void)offset, (void)error;
    memset(dst, 0, size);
    return TENMAP_OK;
}

static void close_zeros(void *ctx, void *file) {
    (void)ctx, (void)file;
}

/* The query of an address may be a signature. */
static void errors_do_not_show_the_query_of_an_address(void **state) {
    (void)state;
    tenmap_io io = TENMAP_IO_INIT;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    io.open = open_zeros;
    io.read = read_zeros;
    io.close = close_zeros;
    options.io = &io;
    must_fail("https://h/x?Signature=0123", &options, TENMAP_ERR_FORMAT, "\"https://h/x?...\"");
    must_fail("a?b", &options, TENMAP_ERR_FORMAT, "\"a?b\"");
}

/* A store with an index of one shard, which records the path by which the shard is opened. */
typedef struct lone_index {
    const char *path, *shard;
    char text[256], asked[256];
} lone_index;

static tenmap_status open_lone(void *ctx, const char *path, void **file, uint64_t *size,
                               tenmap_error *error) {
    lone_index *index = ctx;
    if (strcmp(path, index->path) != 0) {
        snprintf(index->asked, sizeof index->asked, "%s", path);
        snprintf(error->message, sizeof error->message, "there is no such object");
        return TENMAP_ERR_NOT_FOUND;
    }
    snprintf(index->text, sizeof index->text, "{\"weight_map\":{\"a\":\"%s\"}}", index->shard);
    *file = index->text;
    *size = strlen(index->text);
    return TENMAP_OK;
}

static tenmap_status read_lone(void *ctx, void *file, uint64_t offset, void *dst, size_t count,
                               tenmap_error *error) {
    (void)ctx, (void)error;
    memcpy(dst, (const char *)file + offset, count);
    return TENMAP_OK;
}

/* Characters with a meaning in web addresses are encoded there, and only there. */
static void names_beside_an_address_are_written_as_addresses_are(void **state) {
    (void)state;
    static const struct {
        const char *index, *shard, *asked;
    } rows[] = {
        {"http://h/d/i.json", "a b.safetensors", "http://h/d/a b.safetensors"},
        {"http://h/d/i.json", "a%20b?c#d.safetensors", "http://h/d/a%2520b%3Fc%23d.safetensors"},
        {"HTTPS://h/i.json?k=/1", "50%.safetensors", "HTTPS://h/50%25.safetensors?k=/1"},
        {"hf://o/m/i.json", "a%20b?c#d.safetensors", "hf://o/m/a%20b?c#d.safetensors"},
        {"s3://b/why?/i.json", "a.safetensors", "s3://b/why?/a.safetensors"},
        {"d/i.json?k", "a%?.safetensors", "d/a%?.safetensors?k"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        lone_index index = {.path = rows[i].index, .shard = rows[i].shard};
        tenmap_io io = TENMAP_IO_INIT;
        tenmap_options options = TENMAP_OPTIONS_INIT;
        io.open = open_lone;
        io.read = read_lone;
        io.close = close_zeros;
        io.ctx = &index;
        options.io = &io;
        must_fail(rows[i].index, &options, TENMAP_ERR_NOT_FOUND, "1 of 1 shards are missing");
        assert_string_equal(index.asked, rows[i].asked);
    }
}

static void ignore_finding(void *ctx, const tenmap_finding *finding) {
    (void)ctx, (void)finding;
}

/* A check closes what it opens, however many threads look for shards. */
static void a_check_closes_what_it_opens(void **state) {
    io_files files = {0};
    tenmap_io io;
    tenmap_options options = through(&files, &io);
    tenmap_error error;
    options.threads = 2;
    if (tenmap_check(in_folder(state, "model.safetensors.index.json"), &options, ignore_finding,
                     NULL, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(files.opened, 5); /* the index, and each shard twice */
    assert_int_equal(files.closed, 5);
}

/* A hostile folder, with names that are meant to use up the memory of those who open it. */
typedef struct long_listing {
    const char
        *of; /* the end of the path that has them; other paths have refs, blobs and snapshots */
    size_t names, length;
} long_listing;

static tenmap_status open_nothing(void *ctx, const char *path, void **file, uint64_t *size,
                                  tenmap_error *error) {
    (void)ctx, (void)path, (void)file, (void)size, (void)error;
    return TENMAP_ERR_NOT_FOUND;
}

static tenmap_status list_long(void *ctx, const char *path,
                               int (*entry)(void *entry_ctx, const char *name), void *entry_ctx,
                               tenmap_error *error) {
    const long_listing *l = ctx;
    static const char *const hub[] = {"refs", "blobs", "snapshots"};
    char *name = malloc(l->length + 1);
    (void)error;
    assert_non_null(name);
    size_t path_len = strlen(path), end_len = strlen(l->of);
    bool here = path_len >= end_len && strcmp(path + path_len - end_len, l->of) == 0;
    for (size_t i = 0; !here && i < COUNT(hub); i++)
        (void)entry(entry_ctx, hub[i]);
    memset(name, 'a', l->length);
    memcpy(name + l->length - 27, "-00001-of-99999.safetensors", 28);
    for (size_t i = 0; here && i < l->names; i++) {
        for (size_t k = 0, n = i; k < 8; k++, n /= 10)
            name[k] = (char)('0' + n % 10);
        (void)entry(entry_ctx, name); /* also after it was told to stop */
    }
    free(name);
    return TENMAP_OK;
}

static void listings_are_bounded(void **state) {
    static const struct {
        long_listing listing;
        tenmap_status status;
        const char *says;
    } rows[] = {
        {{"", 1, 1024}, TENMAP_ERR_IO, "it is a folder where a file is expected"},
        {{"", 1, 1025},
         TENMAP_ERR_LIMIT,
         "lists a file name of 1025 bytes, over the limit of 1024"},
        {{"", 200001, 40}, TENMAP_ERR_LIMIT, "more than 200000 files"},
        {{"/snapshots", 200001, 40}, TENMAP_ERR_LIMIT, "more than 200000 snapshots"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        long_listing listing = rows[i].listing;
        tenmap_io io = TENMAP_IO_INIT;
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_model *m;
        tenmap_error error;
        io.open = open_nothing;
        io.read = read_zeros;
        io.close = close_zeros;
        io.list = list_long;
        io.ctx = &listing;
        options.io = &io;
        check_refused(tenmap_open("folder", &options, &m, &error), &error, rows[i].status,
                      rows[i].says);
    }
}

/* A store with a tensor of 2^55 bytes, all zero. */
static const char vast_json[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[36028797018963968],"
                                "\"data_offsets\":[0,36028797018963968]}}";

static tenmap_status open_vast(void *ctx, const char *path, void **file, uint64_t *size,
                               tenmap_error *error) {
    (void)ctx, (void)path, (void)error;
    *file = NULL;
    *size = 8 + (sizeof vast_json - 1) + (UINT64_C(1) << 55);
    return TENMAP_OK;
}

static tenmap_status read_vast(void *ctx, void *file, uint64_t offset, void *dst, size_t size,
                               tenmap_error *error) {
    static const unsigned char length[8] = {sizeof vast_json - 1};
    (void)ctx, (void)file, (void)error;
    for (size_t i = 0; i < size; i++, offset++)
        ((char *)dst)[i] = offset < 8                          ? (char)length[offset]
                           : offset < 8 + sizeof vast_json - 1 ? vast_json[offset - 8]
                                                               : 0;
    return TENMAP_OK;
}

static int cancel_at_once(void *ctx, uint64_t so_far, uint64_t total) {
    (void)ctx, (void)so_far, (void)total;
    return 1;
}

/* A load of any size may begin: it needs memory only for the reads in progress. */
static void a_vast_tensor_is_begun_in_little_memory(void **state) {
    tenmap_io io = TENMAP_IO_INIT;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_stats_options measuring = TENMAP_STATS_OPTIONS_INIT;
    tenmap_copy_options copying = TENMAP_COPY_OPTIONS_INIT;
    tenmap_save_options saving = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_stats stats;
    tenmap_error error;
    io.open = open_vast;
    io.read = read_vast;
    io.close = close_zeros;
    options.io = &io;
    measuring.progress = copying.progress = cancel_at_once;
    saving.copy = &copying;
    tenmap_model *m = must_open("vast", &options);
    const tenmap_tensor *t = tenmap_at(m, 0);
    check_refused(tenmap_measure(&t, 1, &measuring, &stats, &error), &error, TENMAP_ERR_CANCELLED,
                  "measuring was cancelled");
    tenmap_source source = {.tensor = t};
    const char *folder = in_folder(state, "vast");
    assert_int_equal(mkdir(folder, 0700), 0);
    check_refused(tenmap_save_sharded(folder, &source, 1, &saving, &error), &error,
                  TENMAP_ERR_CANCELLED, "cancelled by the progress function");
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_an_index_and_a_folder_open),
        cmocka_unit_test(nothing_is_mapped_and_there_is_no_descriptor),
        cmocka_unit_test(siblings_keep_what_follows_a_question_mark),
        cmocka_unit_test(without_list_there_are_no_folders),
        cmocka_unit_test(the_sentence_of_a_failing_call_arrives),
        cmocka_unit_test(a_failure_without_a_sentence_gets_one),
        cmocka_unit_test(a_short_answer_is_an_error),
        cmocka_unit_test(reads_have_the_size_that_is_preferred),
        cmocka_unit_test(many_threads_read_at_once),
        cmocka_unit_test(a_load_reads_no_byte_twice),
        cmocka_unit_test(shards_are_opened_at_once),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(missing_shards_are_named),
        cmocka_unit_test(opening_takes_few_reads),
        cmocka_unit_test(errors_do_not_show_the_query_of_an_address),
        cmocka_unit_test(names_beside_an_address_are_written_as_addresses_are),
        cmocka_unit_test(a_check_closes_what_it_opens),
        cmocka_unit_test(listings_are_bounded),
        cmocka_unit_test(a_vast_tensor_is_begun_in_little_memory),
    };
    return cmocka_run_group_tests(tests, make_models, remove_folder);
}
