/*
 * Bulk loading: every way of reading gives what tenmap_read gives, callbacks are called once,
 * errors name their request, and files that change during a load never give wrong data. The linker
 * redirects pread to the test, which can simulate a file system without direct reads.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

ssize_t __real_pread64(int fd, void *dst, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *dst, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *dst, size_t size, off_t offset);

static atomic_int direct_error; /* what direct reads fail with; 0: they work */
static atomic_long direct_reads, plain_reads;
static atomic_bool coarse;               /* direct reads of less than 4096 bytes are refused */
static atomic_uintptr_t dst_at, dst_end; /* reads directly into this range are counted */
static atomic_long straight;
static atomic_long cut_at = -1; /* the file seems to end here; -1: no cut */

ssize_t __wrap_pread64(int fd, void *dst, size_t size, off_t offset) {
    bool direct = fcntl(fd, F_GETFL) & O_DIRECT;
    atomic_fetch_add(direct ? &direct_reads : &plain_reads, 1);
    if (direct && direct_error) {
        errno = direct_error;
        return -1;
    }
    if (direct && coarse && ((uintptr_t)dst | (uintptr_t)size | (uintptr_t)offset) % 4096) {
        errno = EINVAL;
        return -1;
    }
    if (direct && (uintptr_t)dst >= dst_at && (uintptr_t)dst < dst_end)
        atomic_fetch_add(&straight, (long)size);
    if (cut_at >= 0 && offset + (off_t)size > cut_at)
        size = offset < cut_at ? (size_t)(cut_at - offset) : 0;
    return __real_pread64(fd, dst, size, offset);
}

ssize_t __wrap_pread(int fd, void *dst, size_t size, off_t offset) {
    return __wrap_pread64(fd, dst, size, offset);
}

/* Ways to load: how the model is opened, and the flags of the load. */
static const struct way {
    const char *name;
    uint32_t backend, flags;
    int direct_error;
} ways[] = {{"mapped", TENMAP_BACKEND_MAP, 0, 0},
            {"read", TENMAP_BACKEND_READ, 0, 0},
            {"mapped, read", TENMAP_BACKEND_MAP, TENMAP_LOAD_READ, 0},
            {"mapped, direct", TENMAP_BACKEND_MAP, TENMAP_LOAD_DIRECT, 0},
            {"read, direct", TENMAP_BACKEND_READ, TENMAP_LOAD_READ | TENMAP_LOAD_DIRECT, 0},
            {"direct, EINVAL", TENMAP_BACKEND_READ, TENMAP_LOAD_DIRECT, EINVAL},
            {"direct, EFAULT", TENMAP_BACKEND_MAP, TENMAP_LOAD_DIRECT, EFAULT}};

/* What the callbacks saw. */
typedef struct seen {
    size_t count;
    atomic_int *done;     /* calls of `done` for each request */
    atomic_int *statuses; /* the last status of each */
    uint64_t last, total;
    long progress_calls, cancel_at; /* cancels in this call of progress, from 1 on; 0: never */
    pthread_t caller;
    bool wrong;
} seen;

static void on_done(void *ctx, size_t request, tenmap_status status) {
    seen *s = ctx;
    if (request >= s->count) {
        s->wrong = true;
        return;
    }
    atomic_fetch_add(&s->done[request], 1);
    atomic_store(&s->statuses[request], status);
}

static int on_progress(void *ctx, uint64_t done, uint64_t total) {
    seen *s = ctx;
    s->wrong = s->wrong || !pthread_equal(s->caller, pthread_self()) || done < s->last ||
               done > total || (s->progress_calls == 0 && done != 0);
    s->last = done;
    s->total = total;
    return ++s->progress_calls == s->cancel_at;
}

static seen start_seen(size_t count) {
    seen s = {.count = count, .caller = pthread_self()};
    s.done = calloc(count + 1, sizeof *s.done);
    s.statuses = calloc(count + 1, sizeof *s.statuses);
    return s;
}

static void end_seen(seen *s) {
    for (size_t i = 0; i < s->count; i++)
        assert_int_equal(s->done[i], 1); /* once each, whatever happened */
    assert_false(s->wrong);
    free(s->done);
    free(s->statuses);
}

static tenmap_load_options watched(seen *s, uint32_t threads, uint32_t flags) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.threads = threads;
    options.flags = flags;
    options.progress = on_progress;
    options.done = on_done;
    options.ctx = s;
    return options;
}

/* A model of one file per two tensors: every dtype, 5x7x24 elements each, in an odd order. */
enum { SMALL_ELEMENTS = 5 * 7 * 24 };

static const char *every_dtype_path(void **state, unsigned number) {
    char name[64];
    snprintf(name, sizeof name, "m-%02u-of-%02u.safetensors", number, (last_dtype() + 1) / 2);
    return in_folder(state, name);
}

static void write_every_dtype(void **state) {
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d += 2) {
        char json[512];
        size_t first = (size_t)SMALL_ELEMENTS * tenmap_dtype_bits(d) / 8;
        size_t second = (size_t)SMALL_ELEMENTS * tenmap_dtype_bits(d + 1) / 8; /* or 0 */
        int used =
            snprintf(json, sizeof json,
                     "{\"%s\":{\"dtype\":\"%s\",\"shape\":[5,7,24],\"data_offsets\":[%zu,%zu]}",
                     tenmap_dtype_name(d), tenmap_dtype_name(d), second, second + first);
        if (second)
            used +=
                snprintf(json + used, sizeof json - (size_t)used,
                         ",\"%s\":{\"dtype\":\"%s\",\"shape\":[5,7,24],\"data_offsets\":[0,%zu]}",
                         tenmap_dtype_name(d + 1), tenmap_dtype_name(d + 1), second);
        snprintf(json + used, sizeof json - (size_t)used, "}");
        write_model(every_dtype_path(state, (d + 1) / 2), json, first + second);
    }
}

/* Requests for all tensors of a model, in four shapes each, with space after each destination. */
typedef struct batch {
    tenmap_request *requests;
    size_t count;
    uint64_t begin[3], end[3];
} batch;

enum { SPARE = 16 };

static size_t packed(uint64_t count, tenmap_dtype d) {
    return (size_t)((count * tenmap_dtype_bits(d) + 7) / 8);
}

static void add_request(batch *b, const tenmap_tensor *t, tenmap_dtype as, bool slice) {
    tenmap_request *r = &b->requests[b->count++];
    uint64_t elements = t->nelems;
    *r = (tenmap_request){.tensor = t, .as = as, .flags = TENMAP_CONVERT_SATURATE};
    if (slice) {
        r->begin = b->begin;
        r->end = b->end;
        elements = 1;
        for (int d = 0; d < 3; d++)
            elements *= b->end[d] - b->begin[d];
    }
    r->dst_bytes = packed(elements, as ? as : t->dtype);
    r->dst = malloc(r->dst_bytes + SPARE);
    memset(r->dst, 0xa5, r->dst_bytes + SPARE);
}

static batch make_batch(const tenmap_model *m, const uint64_t *begin, const uint64_t *end) {
    batch b = {calloc(tenmap_count(m) * 4, sizeof(tenmap_request)), 0, {0}, {0}};
    memcpy(b.begin, begin, sizeof b.begin);
    memcpy(b.end, end, sizeof b.end);
    return b;
}

static void fill_batch(batch *b, const tenmap_model *m) {
    for (size_t i = tenmap_count(m); i-- > 0;) { /* backwards: the library puts them in order */
        const tenmap_tensor *t = tenmap_at(m, i);
        add_request(b, t, TENMAP_AS_STORED, false);
        add_request(b, t, TENMAP_AS_STORED, true);
        if (t->dtype != TENMAP_C64) {
            add_request(b, t, TENMAP_F32, false);
            add_request(b, t, TENMAP_F16, true);
        }
    }
}

/* Compares each destination with the result of a separate call. */
static void check_batch(const batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        const tenmap_request *r = &b->requests[i];
        unsigned char *alone = malloc(r->dst_bytes + 1);
        tenmap_status status = r->begin ? tenmap_read_slice(r->tensor, r->begin, r->end, r->as,
                                                            alone, r->dst_bytes, r->flags, NULL)
                                        : tenmap_read(r->tensor, 0, r->tensor->nelems, r->as, alone,
                                                      r->dst_bytes, r->flags, NULL);
        assert_int_equal(status, TENMAP_OK);
        if (memcmp(alone, r->dst, r->dst_bytes) != 0)
            fail_msg("request %zu, %s, is not what a read gives", i, r->tensor->name);
        for (int k = 0; k < SPARE; k++)
            assert_int_equal(((unsigned char *)r->dst)[r->dst_bytes + (size_t)k], 0xa5);
        free(alone);
    }
}

static void free_batch(batch *b) {
    for (size_t i = 0; i < b->count; i++)
        free(b->requests[i].dst);
    free(b->requests);
}

static void load_batch(const tenmap_model *m, batch *b, uint32_t threads, uint32_t flags) {
    tenmap_error error;
    seen s = start_seen(b->count);
    tenmap_load_options options = watched(&s, threads, flags);
    if (tenmap_load(m, b->requests, b->count, &options, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < b->count; i++)
        assert_int_equal(s.statuses[i], TENMAP_OK);
    assert_true(s.progress_calls > 0);
    assert_int_equal(s.last, s.total);
    end_seen(&s);
    check_batch(b);
}

static void every_way_gives_what_single_reads_give(void **state) {
    static const uint64_t begins[][3] = {{0, 0, 0}, {1, 2, 3}, {4, 0, 0}, {0, 3, 23}, {2, 2, 2}};
    static const uint64_t ends[][3] = {{5, 7, 24}, {4, 6, 22}, {5, 7, 24}, {5, 5, 24}, {2, 7, 9}};
    write_every_dtype(state);
    for (size_t w = 0; w < COUNT(ways); w++)
        for (size_t k = 0; k < COUNT(begins); k++)
            for (uint32_t threads = 0; threads < 4; threads++) {
                tenmap_options options = TENMAP_OPTIONS_INIT;
                options.backend = ways[w].backend;
                tenmap_model *m = must_open(*state, &options);
                assert_int_equal(tenmap_count(m), last_dtype());
                batch b = make_batch(m, begins[k], ends[k]);
                fill_batch(&b, m);
                direct_error = ways[w].direct_error;
                load_batch(m, &b, threads, ways[w].flags);
                free_batch(&b);
                tenmap_close(m);
            }
    direct_error = 0;
}

static void memory_and_descriptors_load_too(void **state) {
    write_every_dtype(state);
    const char *path = every_dtype_path(state, 3);
    bytes file = read_whole(path);
    uint64_t begin[3] = {1, 1, 5}, end[3] = {3, 7, 24};
    for (uint32_t flags = 0; flags < 4; flags++) {
        tenmap_model *m = must_open_memory(file, NULL);
        batch b = make_batch(m, begin, end);
        fill_batch(&b, m);
        load_batch(m, &b, 2, flags);
        free_batch(&b);
        tenmap_close(m);

        int fd = memfd_create("model", MFD_CLOEXEC);
        assert_int_equal(write(fd, file.at, file.size), (ssize_t)file.size);
        assert_int_equal(tenmap_open_fd(fd, NULL, &m, NULL), TENMAP_OK);
        b = make_batch(m, begin, end);
        fill_batch(&b, m);
        load_batch(m, &b, 2, flags);
        assert_false(fcntl(fd, F_GETFL) & O_DIRECT); /* the caller's descriptor is as it was */
        free_batch(&b);
        tenmap_close(m);
        close(fd);
    }
    free(file.at);
}

/* Tensors that are cut into pieces, between small ones; 4- and 6-bit ones among them. */
static void write_large(void **state) {
    static const struct {
        const char *name, *dtype, *shape;
        size_t nbytes;
    } parts[] = {{"f4", "F4", "[3,1111112,7]", 11666676},
                 {"s0", "U8", "[3,3,3]", 27},
                 {"f6", "F6_E3M2", "[4,1000,5600]", 16800000},
                 {"bf16", "BF16", "[9,1000,1001]", 18018000},
                 {"s1", "F16", "[1,2,3]", 12},
                 {"u8", "U8", "[2,3000,3001]", 18006000}};
    char json[2048] = "{";
    size_t at = 0;
    for (size_t i = 0; i < COUNT(parts); i++) {
        sprintf(json + strlen(json),
                "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", i ? "," : "",
                parts[i].name, parts[i].dtype, parts[i].shape, at, at + parts[i].nbytes);
        at += parts[i].nbytes;
    }
    strcat(json, "}");
    write_model(in_folder(state, "large.safetensors"), json, at);
}

static void large_requests_are_cut_where_no_byte_is_shared(void **state) {
    NEEDS_FILES();
    write_large(state);
    for (size_t w = 0; w < COUNT(ways); w++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = ways[w].backend;
        tenmap_model *m = must_open(in_folder(state, "large.safetensors"), &options);
        uint64_t begin[3] = {0, 1, 1}, end[3] = {1, 2, 3};
        batch b = make_batch(m, begin, end);
        for (size_t i = 0; i < tenmap_count(m); i++)
            add_request(&b, tenmap_at(m, i), i == 3 ? TENMAP_F32 : TENMAP_AS_STORED, i % 2);
        uint64_t columns[2][3] = {{0, 100, 3}, {2, 2900, 2998}};
        tenmap_request *r = &b.requests[5]; /* a block of u8, several megabytes of it */
        r->begin = columns[0];
        r->end = columns[1];
        r->dst_bytes = (size_t)2 * 2800 * 2995;
        free(r->dst);
        r->dst = malloc(r->dst_bytes + SPARE);
        memset(r->dst, 0xa5, r->dst_bytes + SPARE);
        add_request(&b, tenmap_find(m, "f6"), TENMAP_F8_E4M3, false);
        direct_error = ways[w].direct_error;
        direct_reads = plain_reads = 0;
        load_batch(m, &b, 3, ways[w].flags);
        if (strcmp(ways[w].name, "mapped") == 0)
            assert_int_equal(direct_reads + plain_reads, 0);
        if (ways[w].direct_error)
            assert_true(plain_reads > 0);
        free_batch(&b);
        tenmap_close(m);
    }
    direct_error = 0;
}

static void direct_reads_are_direct_where_the_file_system_has_them(void **state) {
    NEEDS_FILES();
    write_large(state);
    tenmap_model *m = must_open(in_folder(state, "large.safetensors"), NULL);
    int fd = open(in_folder(state, "large.safetensors"), O_RDONLY | O_DIRECT);
    void *block;
    assert_int_equal(posix_memalign(&block, 4096, 4096), 0);
    bool has = fd >= 0 && __real_pread64(fd, block, 4096, 0) == 4096;
    const tenmap_tensor *t = tenmap_find(m, "bf16");
    tenmap_request r = {.tensor = t, .dst = malloc(t->nbytes), .dst_bytes = t->nbytes};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.flags = TENMAP_LOAD_DIRECT;
    direct_reads = plain_reads = 0;
    assert_int_equal(tenmap_load(m, &r, 1, &options, NULL), TENMAP_OK);
    if (has) {
        assert_true(direct_reads >= 4);
        assert_int_equal(plain_reads, 0);
        uint64_t mapped;
        assert_int_equal(tenmap_resident(m, NULL, &mapped, NULL), TENMAP_OK);
        assert_int_equal(mapped, 0);
    } else {
        print_message("           SKIPPED: no direct reads here\n");
    }
    free(r.dst);
    free(block);
    if (fd >= 0)
        close(fd);
    tenmap_close(m);
}

/*
 * A destination with the same position in a disk block as the data gets it without an intermediate
 * copy.
 */
static void direct_reads_go_straight_to_where_they_fit(void **state) {
    NEEDS_FILES();
    write_large(state);
    tenmap_model *m = must_open(in_folder(state, "large.safetensors"), NULL);
    const tenmap_tensor *t = tenmap_find(m, "bf16");
    unsigned char *room = aligned_alloc(4096, (t->nbytes + 3 * 4096) / 4096 * 4096);
    assert_non_null(room);
    tenmap_request r = {.tensor = t, .dst_bytes = t->nbytes};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.flags = TENMAP_LOAD_DIRECT;
    const struct {
        size_t apart; /* between the positions in a block */
        bool coarse, straight;
    } cases[] = {{0, false, true}, {512, false, true}, {512, true, false}, {2, false, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        r.dst = room + (t->file_offset + cases[i].apart) % 4096;
        memset(room, 0, t->nbytes + 4096);
        dst_at = (uintptr_t)r.dst;
        dst_end = dst_at + t->nbytes;
        coarse = cases[i].coarse;
        straight = direct_reads = plain_reads = 0;
        assert_int_equal(tenmap_load(m, &r, 1, &options, NULL), TENMAP_OK);
        assert_memory_equal(r.dst, t->data, t->nbytes);
        if (plain_reads > 0) {
            print_message("           SKIPPED: no direct reads here\n");
            break;
        }
        if (cases[i].straight)
            assert_true((uint64_t)straight + 65536 > t->nbytes);
        else
            assert_int_equal(straight, 0);
    }
    coarse = false;
    dst_at = dst_end = 0;
    free(room);
    tenmap_close(m);
}

static void many_small_requests(void **state) {
    enum { TENSORS = 5000 };
    char *json = malloc(TENSORS * 80), *at = json;
    for (int i = 0; i < TENSORS; i++)
        at += sprintf(at, "%s\"t%d\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[%d,%d]}",
                      i ? "," : "{", i, i % 7, i / 7 * 42 + i % 7 * (i % 7 - 1),
                      i / 7 * 42 + i % 7 * (i % 7 + 1));
    strcpy(at, "}");
    size_t last = TENSORS - 1, data = last / 7 * 42 + last % 7 * (last % 7 + 1);
    write_model(in_folder(state, "many.safetensors"), json, data);
    free(json);
    for (size_t w = 0; w < COUNT(ways); w++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = ways[w].backend;
        tenmap_model *m = must_open(in_folder(state, "many.safetensors"), &options);
        uint64_t none[3] = {0};
        batch b = make_batch(m, none, none);
        for (size_t i = 0; i < TENSORS; i++)
            add_request(&b, tenmap_at(m, i * 1237 % TENSORS), TENMAP_F32, false);
        direct_error = ways[w].direct_error;
        plain_reads = 0;
        load_batch(m, &b, 2, ways[w].flags);
        if (ways[w].backend == TENMAP_BACKEND_READ && !ways[w].flags)
            assert_true(plain_reads < 10 + TENSORS); /* check_batch reads each, the load together */
        free_batch(&b);
        tenmap_close(m);
    }
    direct_error = 0;
}

/* If one request is wrong, nothing is written and no callback is called. */
static void wrong_arguments_are_found_before_a_byte_is_written(void **state) {
    write_every_dtype(state);
    tenmap_model *m = must_open(*state, NULL), *other = must_open(*state, NULL);
    uint64_t begin[3] = {0, 0, 20}, end[3] = {5, 7, 25}, good_end[3] = {5, 7, 24};
    unsigned char first[SMALL_ELEMENTS * 2], dst[SMALL_ELEMENTS * 4];
    const tenmap_tensor *t = tenmap_find(m, "BF16");
    tenmap_request good = {.tensor = t, .dst = dst, .dst_bytes = sizeof dst};
    struct {
        const char *fragment;
        tenmap_status status;
        tenmap_request r;
    } rows[10];
    for (size_t i = 0; i < COUNT(rows); i++)
        rows[i].r = good;
    size_t n = 0;
#define ROW(s, f, change) rows[n].status = TENMAP_ERR_##s, rows[n].fragment = f, rows[n++].r.change
    ROW(ARGUMENT, "request 1: the tensor is NULL", tensor = NULL);
    ROW(ARGUMENT, "another model", tensor = tenmap_find(other, "BF16"));
    ROW(ARGUMENT, "the destination is NULL", dst = NULL);
    ROW(BUFFER, "take 1680 bytes; the destination has 1679", dst_bytes = 1679);
    ROW(ARGUMENT, "reserved", reserved = 1);
    ROW(ARGUMENT, "unknown flags", flags = 64);
    ROW(ARGUMENT, "begin or end of the block is NULL", begin = begin);
    ROW(ARGUMENT, "begin or end of the block is NULL", end = good_end);
    ROW(UNSUPPORTED, "tensor \"BF16\": cannot convert BF16 to I8", as = TENMAP_I8);
    ROW(RANGE, "[20, 25) in dimension 2", begin = begin);
    rows[n - 1].r.end = end;
#undef ROW
    for (size_t i = 0; i < n; i++) {
        tenmap_request list[3] = {good, rows[i].r, good};
        tenmap_error error;
        seen s = start_seen(3);
        tenmap_load_options options = watched(&s, 2, 0);
        list[0].dst = first;
        memset(first, 0x77, sizeof first);
        list[0].dst_bytes = sizeof first;
        assert_int_equal(tenmap_load(m, list, 3, &options, &error), rows[i].status);
        check_error(&error, rows[i].status);
        assert_int_equal(error.index, 1);
        if (!strstr(error.message, rows[i].fragment))
            fail_msg("%s does not hold %s", error.message, rows[i].fragment);
        assert_int_equal(tenmap_load(m, list, 3, &options, NULL), rows[i].status);
        assert_int_equal(s.progress_calls, 0);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(s.done[k]++, 0);
        assert_int_equal(first[0], 0x77);
        end_seen(&s);
    }
    tenmap_close(other);
    tenmap_close(m);
}

static void wrong_options(void **state) {
    write_every_dtype(state);
    tenmap_model *m = must_open(*state, NULL);
    tenmap_error error;
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    struct {
        tenmap_load_options known;
        uint64_t unknown;
    } larger = {TENMAP_LOAD_OPTIONS_INIT, 0};
    tenmap_request r = {.tensor = NULL};
    assert_int_equal(tenmap_load(m, NULL, 0, NULL, &error), TENMAP_OK);
    assert_int_equal(tenmap_load(m, NULL, 1, NULL, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_load(NULL, &r, 0, NULL, &error), TENMAP_OK);
    assert_int_equal(tenmap_load(NULL, &r, 1, NULL, &error), TENMAP_ERR_ARGUMENT);
    options.flags = 4;
    assert_int_equal(tenmap_load(m, NULL, 0, &options, &error), TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "0x4"));
    options.flags = 0;
    options.struct_size = 0;
    assert_int_equal(tenmap_load(m, NULL, 0, &options, &error), TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "TENMAP_LOAD_OPTIONS_INIT"));
    larger.known.struct_size = sizeof larger;
    assert_int_equal(tenmap_load(m, NULL, 0, &larger.known, &error), TENMAP_OK);
    larger.unknown = 1;
    assert_int_equal(tenmap_load(m, NULL, 0, &larger.known, &error), TENMAP_ERR_ARGUMENT);
    options.struct_size = sizeof options;
    options.threads = 1000;
    assert_int_equal(tenmap_load(m, NULL, 0, &options, &error), TENMAP_OK);
    tenmap_close(m);
}

/* All tensors of the large model as F32, in the order of the file. */
static batch large_batch(const tenmap_model *m) {
    uint64_t none[3] = {0};
    batch b = make_batch(m, none, none);
    for (size_t i = 0; i < tenmap_count(m); i++)
        add_request(&b, tenmap_at(m, i), TENMAP_F32, false);
    return b;
}

static void a_load_can_be_cancelled(void **state) {
    write_large(state);
    tenmap_model *m = must_open(in_folder(state, "large.safetensors"), NULL);
    batch b = large_batch(m);
    for (long at = 1; at <= 4; at++)
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            tenmap_error error;
            seen s = start_seen(b.count);
            tenmap_load_options options = watched(&s, threads, 0);
            s.cancel_at = at;
            tenmap_status status = tenmap_load(m, b.requests, b.count, &options, &error);
            if (at == 1 || threads == 1) { /* other threads may finish earlier */
                assert_int_equal(status, TENMAP_ERR_CANCELLED);
                assert_int_equal(s.progress_calls, at); /* and not again */
                assert_non_null(strstr(error.message, "cancelled"));
            }
            size_t finished = 0;
            for (size_t i = 0; i < b.count; i++) {
                finished += s.statuses[i] == TENMAP_OK;
                assert_true(s.statuses[i] == TENMAP_OK || s.statuses[i] == TENMAP_ERR_CANCELLED);
            }
            assert_true(at > 1 || finished == 0);
            end_seen(&s);
        }
    free_batch(&b);
    tenmap_close(m);
}

/* Overwrites the requests and the blocks that they point to when the load begins. */
typedef struct forgetting {
    tenmap_request *requests;
    size_t count;
    uint64_t begin[2], end[2];
} forgetting;

static int forget_requests(void *ctx, uint64_t done, uint64_t total) {
    forgetting *f = ctx;
    (void)total;
    if (done == 0) {
        memset(f->requests, 0, f->count * sizeof *f->requests);
        memset(f->begin, 0xff, sizeof f->begin);
        memset(f->end, 0xff, sizeof f->end);
    }
    return 0;
}

static void requests_are_checked_once_before_a_load_begins(void **state) {
    write_model(in_folder(state, "blocks.safetensors"),
                "{\"t\":{\"dtype\":\"U8\",\"shape\":[3,4],\"data_offsets\":[0,12]}}", 12);
    tenmap_model *m = must_open(in_folder(state, "blocks.safetensors"), NULL);
    const tenmap_tensor *t = tenmap_find(m, "t");
    unsigned char all[12], block[4],
        wanted[4] = {pattern_byte(5), pattern_byte(6), pattern_byte(9), pattern_byte(10)};
    tenmap_request requests[2] = {{.tensor = t, .dst = all, .dst_bytes = sizeof all},
                                  {.tensor = t, .dst = block, .dst_bytes = sizeof block}};
    forgetting f = {requests, 2, {1, 1}, {3, 3}};
    requests[1].begin = f.begin;
    requests[1].end = f.end;
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.progress = forget_requests;
    options.ctx = &f;
    assert_int_equal(tenmap_load(m, requests, 2, &options, NULL), TENMAP_OK);
    for (size_t i = 0; i < sizeof all; i++)
        assert_int_equal(all[i], pattern_byte(i));
    assert_memory_equal(block, wanted, sizeof block);
    tenmap_close(m);
}

static void a_truncated_file_names_the_tensor_and_the_request(void **state) {
    NEEDS_FILES();
    for (size_t w = 0; w < COUNT(ways); w++) {
        write_large(state);
        tenmap_options open_options = TENMAP_OPTIONS_INIT;
        open_options.backend = ways[w].backend;
        const char *path = in_folder(state, "large.safetensors");
        tenmap_model *m = must_open(path, &open_options);
        batch b = large_batch(m);
        tenmap_error error;
        seen s = start_seen(b.count);
        tenmap_load_options options = watched(&s, 2, ways[w].flags);
        direct_error = ways[w].direct_error;
        uint64_t size = tenmap_at(m, 5)->file_offset + 5000000;
        assert_int_equal(truncate(path, (off_t)size), 0);
        assert_int_equal(tenmap_load(m, b.requests, b.count, &options, &error), TENMAP_ERR_IO);
        check_error(&error, TENMAP_ERR_IO);
        char name[64], now[64];
        snprintf(name, sizeof name, "tensor \"%s\"", tenmap_at(m, error.index)->name);
        snprintf(now, sizeof now, "%llu", (unsigned long long)size);
        if (!strstr(error.message, name) || !strstr(error.message, "when it was opened") ||
            !strstr(error.message, now))
            fail_msg("%s: %s", ways[w].name, error.message);
        assert_int_equal(s.statuses[error.index], TENMAP_ERR_IO);
        end_seen(&s);
        free_batch(&b);
        tenmap_close(m);
    }
    direct_error = 0;
}

/*
 * Another program interferes: one try per kind, at a random moment of a load. The kinds of the
 * second half leave the file's bytes alone, so the load must succeed.
 */
enum { KEPT_FROM = 6, KINDS = 10, TRIES = 1000, DATA = 96 << 10 };

typedef struct mischief {
    char path[4096], aside[4096];
    const unsigned char *bad; /* a model of the same size, all other bytes */
    size_t size;
    unsigned seed;
    atomic_int turn; /* 1: go, 0: done, -1: end */
    int kind;
} mischief;

static void overwrite(const mischief *x, size_t from) {
    int fd = open(x->path, O_WRONLY);
    ssize_t n = pwrite(fd, x->bad + from, x->size - from, (off_t)from);
    close(fd);
    assert_true(n > 0);
}

static void do_mischief(mischief *x) {
    size_t at = x->seed % x->size;
    int fd, failed = 0;
    switch (x->kind) {
    case 0:
        failed = truncate(x->path, (off_t)at);
        break;
    case 1:
        failed = truncate(x->path, 0);
        break;
    case 2: /* and grown again: a hole reads as zeros */
        failed = truncate(x->path, (off_t)at) || truncate(x->path, (off_t)x->size);
        break;
    case 3:
        overwrite(x, at);
        break;
    case 4: /* as cp does it */
        fd = open(x->path, O_WRONLY | O_TRUNC);
        failed = write(fd, x->bad, x->size) != (ssize_t)x->size;
        close(fd);
        break;
    case 5: /* longer than it was */
        failed = truncate(x->path, (off_t)(x->size + at + 1));
        break;
    case 6: /* replaced by another */
        fd = open(x->aside, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        failed = write(fd, x->bad, x->size) != (ssize_t)x->size;
        close(fd);
        failed |= rename(x->aside, x->path);
        break;
    case 7:
        failed = rename(x->path, x->aside);
        break;
    case 8:
        failed = chmod(x->path, 0);
        break;
    default:
        failed = unlink(x->path);
    }
    if (failed)
        abort();
}

static void *run_mischief(void *arg) {
    mischief *x = arg;
    for (;;) {
        int turn = atomic_load(&x->turn);
        if (turn < 0)
            return NULL;
        if (turn == 0) {
            sched_yield();
            continue;
        }
        for (unsigned i = x->seed >> 8 & 0x3ff; i > 0; i--)
            (void)atomic_load(&x->turn);
        do_mischief(x);
        atomic_store(&x->turn, 0);
    }
}

/* Writes a good file with an old modification time, so that any later change shows. */
static void write_good(const mischief *x, const bytes *good) {
    struct timespec past[2] = {{1000000000, 0}, {1000000000, 0}};
    unlink(x->path);
    write_file(x->path, good->at, good->size);
    assert_int_equal(utimensat(AT_FDCWD, x->path, past, 0), 0);
}

typedef struct tally {
    int right, refused;
} tally;

static void try_once(mischief *x, const bytes *good, uint32_t backend, uint32_t flags, bool single,
                     tally *count) {
    static const char *const names[] = {"a", "b", "c"};
    unsigned char *dst[3];
    tenmap_options open_options = TENMAP_OPTIONS_INIT;
    tenmap_request requests[3] = {{.tensor = NULL}};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error error = {0};
    tenmap_status status = TENMAP_OK;
    open_options.backend = backend;
    options.flags = flags;
    options.threads = 1 + x->seed % 2;
    write_good(x, good);
    tenmap_model *m = must_open(x->path, &open_options);
    for (int i = 0; i < 3; i++) {
        const tenmap_tensor *t = tenmap_find(m, names[i]);
        dst[i] = malloc(t->nbytes);
        requests[i] = (tenmap_request){.tensor = t, .dst = dst[i], .dst_bytes = t->nbytes};
    }
    atomic_store(&x->turn, 1);
    if (!single)
        status = tenmap_load(m, requests, 3, &options, &error);
    for (int i = 0; single && i < 3 && status == TENMAP_OK; i++)
        status = tenmap_read(requests[i].tensor, 0, requests[i].tensor->nelems, TENMAP_AS_STORED,
                             dst[i], requests[i].dst_bytes, 0, &error);
    while (atomic_load(&x->turn) != 0)
        sched_yield();
    if (status == TENMAP_OK) {
        for (int i = 0; i < 3; i++)
            assert_memory_equal(dst[i], good->at + requests[i].tensor->file_offset,
                                requests[i].dst_bytes);
        count->right++;
    } else {
        check_error(&error, TENMAP_ERR_IO);
        if (x->kind >= KEPT_FROM || !strstr(error.message, "tensor \"") ||
            !strstr(error.message, "when it was opened"))
            fail_msg("kind %d: %s", x->kind, error.message);
        count->refused++;
    }
    for (int i = 0; i < 3; i++)
        free(dst[i]);
    tenmap_close(m);
}

static void files_that_change_under_a_load_are_never_wrong_data(void **state) {
    NEEDS_FILES();
    static const struct {
        const char *name;
        uint32_t backend, flags;
        bool single;
    } rows[] = {{"READ, tenmap_read", TENMAP_BACKEND_READ, 0, true},
                {"READ, tenmap_load", TENMAP_BACKEND_READ, 0, false},
                {"MAP, TENMAP_LOAD_READ", TENMAP_BACKEND_MAP, TENMAP_LOAD_READ, false},
                {"MAP, TENMAP_LOAD_DIRECT", TENMAP_BACKEND_MAP, TENMAP_LOAD_DIRECT, false}};
    char json[512];
    snprintf(json, sizeof json,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
             "\"b\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%d,%d]},"
             "\"c\":{\"dtype\":\"F4\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
             DATA / 4, DATA / 4, DATA / 8, DATA / 4, DATA / 4 * 3, DATA / 2, DATA / 4 * 3, DATA);
    bytes good = make_model(json, DATA), bad = make_model(json, DATA);
    for (size_t i = 0; i < bad.size; i++)
        bad.at[i] ^= 0xff;
    mischief x = {.bad = bad.at, .size = good.size, .seed = 1};
    snprintf(x.path, sizeof x.path, "%s", in_folder(state, "m.safetensors"));
    snprintf(x.aside, sizeof x.aside, "%s", in_folder(state, "aside.safetensors"));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_mischief, &x), 0);
    for (size_t r = 0; r < COUNT(rows); r++) {
        tally count = {0, 0};
        for (int i = 0; i < TRIES; i++) {
            x.seed = x.seed * 1664525u + 1013904223u;
            x.kind = i % KINDS;
            try_once(&x, &good, rows[r].backend, rows[r].flags, rows[r].single, &count);
        }
        print_message("           %s: %d tries, %d right, %d refused\n", rows[r].name, TRIES,
                      count.right, count.refused);
        assert_int_equal(count.right + count.refused, TRIES);
        assert_true(count.right >= TRIES / KINDS * (KINDS - KEPT_FROM));
    }
    atomic_store(&x.turn, -1);
    pthread_join(thread, NULL);
    free(good.at);
    free(bad.at);
}

typedef struct sharing {
    const tenmap_model *model;
    uint32_t flags;
    bool good;
} sharing;

static void *load_all(void *arg) {
    sharing *x = arg;
    size_t count = tenmap_count(x->model);
    tenmap_request *requests = calloc(count, sizeof *requests);
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.threads = 3;
    options.flags = x->flags;
    x->good = true;
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = tenmap_at(x->model, i);
        requests[i] = (tenmap_request){.tensor = t, .dst_bytes = t->nbytes};
        requests[i].dst = malloc(t->nbytes);
    }
    for (int round = 0; round < 10; round++) {
        x->good = x->good && tenmap_advise(x->model, NULL, TENMAP_ADVISE_PREFETCH, NULL) == 0;
        x->good = x->good && tenmap_load(x->model, requests, count, &options, NULL) == TENMAP_OK;
        x->good = x->good && tenmap_advise(x->model, NULL, TENMAP_ADVISE_RELEASE, NULL) == 0;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned char *dst = requests[i].dst, *stored = malloc(requests[i].dst_bytes + 1);
        x->good = x->good && tenmap_read_bytes(requests[i].tensor, 0, requests[i].dst_bytes, stored,
                                               NULL) == TENMAP_OK;
        x->good = x->good && memcmp(dst, stored, requests[i].dst_bytes) == 0;
        free(stored);
        free(dst);
    }
    free(requests);
    return NULL;
}

static void many_threads_load_from_one_model(void **state) {
    write_every_dtype(state);
    tenmap_model *m = must_open(*state, NULL);
    pthread_t threads[6];
    sharing all[6];
    for (unsigned i = 0; i < 6; i++) {
        all[i] = (sharing){m, i % 4, false};
        assert_int_equal(pthread_create(&threads[i], NULL, load_all, &all[i]), 0);
    }
    for (unsigned i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        assert_true(all[i].good);
    }
    tenmap_close(m);
}

/* Another program truncates the file after its size was read and before its header is. */
static void a_file_that_is_cut_while_it_opens_is_no_crash(void **state) {
    NEEDS_FILES();
    const char *path = in_folder(state, "m.safetensors");
    char json[4096] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    memset(json + strlen(json), ' ', sizeof json - strlen(json) - 1);
    write_model(path, json, 4);
    for (uint32_t backend = TENMAP_BACKEND_MAP; backend <= TENMAP_BACKEND_READ; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        cut_at = 1000; /* after the bytes that identify the file, inside the header */
        must_fail(path, &options, TENMAP_ERR_IO, "another program has truncated it");
        cut_at = -1;
        tenmap_close(must_open(path, &options));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_way_gives_what_single_reads_give, empty_folder),
        cmocka_unit_test_setup(memory_and_descriptors_load_too, empty_folder),
        cmocka_unit_test_setup(large_requests_are_cut_where_no_byte_is_shared, empty_folder),
        cmocka_unit_test_setup(direct_reads_are_direct_where_the_file_system_has_them,
                               empty_folder),
        cmocka_unit_test_setup(direct_reads_go_straight_to_where_they_fit, empty_folder),
        cmocka_unit_test_setup(many_small_requests, empty_folder),
        cmocka_unit_test_setup(wrong_arguments_are_found_before_a_byte_is_written, empty_folder),
        cmocka_unit_test_setup(wrong_options, empty_folder),
        cmocka_unit_test_setup(a_load_can_be_cancelled, empty_folder),
        cmocka_unit_test_setup(requests_are_checked_once_before_a_load_begins, empty_folder),
        cmocka_unit_test_setup(a_truncated_file_names_the_tensor_and_the_request, empty_folder),
        cmocka_unit_test_setup(files_that_change_under_a_load_are_never_wrong_data, empty_folder),
        cmocka_unit_test_setup(many_threads_load_from_one_model, empty_folder),
        cmocka_unit_test_setup(a_file_that_is_cut_while_it_opens_is_no_crash, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
