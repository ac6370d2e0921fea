/*
 * tenmap_detach puts memory in the place of a mapping: the same bytes at the same addresses,
 * before, during and after the call, whatever happens to the file and whichever system call fails.
 * The linker redirects the library's calls to the test.
 *
 *     test_detach RUNS    so many times with readers that never stop (else a few)
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizers replace munlock with a function that does nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Forking with threads is safe for what the child does here. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "die_after_fork=0";
}

/* Each call in turn can fail. */

static atomic_bool armed;
static atomic_long calls, fail_at = -1;
static atomic_int direct_reads, failed_error;

static bool fails(int error) {
    if (!armed || atomic_fetch_add(&calls, 1) != fail_at)
        return false;
    errno = error;
    failed_error = error;
    return true;
}

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset);
int __real_mprotect(void *at, size_t size, int prot);
void *__real_mremap(void *at, size_t old, size_t size, int flags, ...);
ssize_t __real_pread(int fd, void *dst, size_t size, off_t offset);
ssize_t __real_pread64(int fd, void *dst, size_t size, off64_t offset);
void *__real_calloc(size_t count, size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset);
int __wrap_mprotect(void *at, size_t size, int prot);
void *__wrap_mremap(void *at, size_t old, size_t size, int flags, ...);
ssize_t __wrap_pread(int fd, void *dst, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *dst, size_t size, off64_t offset);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) {
    return fails(ENOMEM) ? MAP_FAILED : __real_mmap(at, size, prot, flags, fd, offset);
}

void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset) {
    return fails(ENOMEM) ? MAP_FAILED : __real_mmap64(at, size, prot, flags, fd, offset);
}

int __wrap_mprotect(void *at, size_t size, int prot) {
    return fails(ENOMEM) ? -1 : __real_mprotect(at, size, prot);
}

/* The worst failure: the mapping is gone, and nothing has replaced it. */
static atomic_bool leaves_gap;

void *__wrap_mremap(void *at, size_t old, size_t size, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *to = va_arg(more, void *);
    va_end(more);
    if (!fails(ENOMEM))
        return __real_mremap(at, old, size, flags, to);
    if (leaves_gap)
        munmap(to, size);
    errno = ENOMEM;
    return MAP_FAILED;
}

static void count_direct(int fd) {
    int flags = fcntl(fd, F_GETFL);
    direct_reads += flags >= 0 && (flags & O_DIRECT);
}

ssize_t __wrap_pread(int fd, void *dst, size_t size, off_t offset) {
    count_direct(fd);
    return fails(EIO) ? -1 : __real_pread(fd, dst, size, offset);
}

ssize_t __wrap_pread64(int fd, void *dst, size_t size, off64_t offset) {
    count_direct(fd);
    return fails(EIO) ? -1 : __real_pread64(fd, dst, size, offset);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails(ENOMEM) ? NULL : __real_calloc(count, size);
}

/* The library does without a thread that the system refuses. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg) {
    return fails(EAGAIN) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* A model of two shards, longer than some pieces, that ends in the middle of a page. */

enum { MIB = 1 << 20, FIRST_SIZE = 33 * MIB + 1234, SECOND_SIZE = 3 * MIB + 2 };

static void write_shard(const char *path, const char *name, size_t size, const char *tail) {
    char json[128];
    snprintf(json, sizeof json,
             "{\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}%s}", name, size,
             size, tail);
    write_model(path, json, size);
}

static tenmap_model *open_two(void **state) {
    write_shard(in_folder(state, "model-00001-of-00002.safetensors"), "first", FIRST_SIZE, "  ");
    write_shard(in_folder(state, "model-00002-of-00002.safetensors"), "second", SECOND_SIZE, "");
    return must_open(*state, NULL);
}

/* Checked by stripes, so that a few of them together see every byte. */
static bool stripe_is_right(const tenmap_tensor *t, size_t first, size_t step) {
    const unsigned char *data = t->data;
    for (size_t i = first; i < t->nbytes; i += step)
        if (data[i] != pattern_byte(i))
            return false;
    return true;
}

static bool all_right(const tenmap_model *model) {
    for (size_t i = 0; i < tenmap_count(model); i++)
        if (!stripe_is_right(tenmap_at(model, i), 0, SANITIZED ? 13 : 1)) /* sanitizers are slow */
            return false;
    return true;
}

static uint64_t resident(const tenmap_model *model) {
    uint64_t found;
    tenmap_error e;
    assert_int_equal(tenmap_resident(model, NULL, &found, &e), TENMAP_OK);
    return found;
}

static uint64_t cached(const tenmap_model *model) {
    uint64_t found;
    tenmap_error e;
    assert_int_equal(tenmap_cached(model, NULL, &found, &e), TENMAP_OK);
    return found;
}

/* The number after a name in a file of /proc. */
static uint64_t number_in(const char *file, const char *name) {
    char line[256];
    unsigned long long found = 0;
    FILE *said = fopen(file, "r");
    assert_non_null(said);
    while (fgets(line, sizeof line, said))
        if (strncmp(line, name, strlen(name)) == 0)
            found = strtoull(line + strlen(name), NULL, 10);
    fclose(said);
    return found;
}

static uint64_t locked_bytes(void) {
    return number_in("/proc/self/status", "VmLck:") * 1024;
}

/* Counts page by page, because VmRSS sums per-CPU counters that may be out of date. */
static uint64_t bytes_in_memory(void) {
    return number_in("/proc/self/smaps_rollup", "Rss:") * 1024;
}

/* How often a huge page was requested on this machine and there was none. */
static uint64_t huge_pages_refused(void) {
    return number_in("/proc/vmstat", "thp_fault_fallback ");
}

static size_t count_mappings(void) {
    size_t lines = 0;
    int c;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while ((c = getc(maps)) != EOF)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static void must_detach(tenmap_model *model, uint32_t flags, uint32_t threads) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error e;
    options.flags = flags;
    options.threads = threads;
    tenmap_status status = tenmap_detach(model, &options, &e);
    if (status != TENMAP_OK)
        fail_msg("%s", e.message);
}

/* Every view stays where it is, and the file may go. */

static void ruin_files(void **state) {
    const char *first = in_folder(state, "model-00001-of-00002.safetensors");
    const char *second = in_folder(state, "model-00002-of-00002.safetensors");
    assert_int_equal(truncate(first, 100), 0);
    FILE *over = fopen(second, "r+b");
    assert_non_null(over);
    for (size_t i = 0; i < SECOND_SIZE; i += 4096) {
        static const char junk[4096] = "junk";
        assert_int_equal(fwrite(junk, 1, sizeof junk, over), sizeof junk);
    }
    fclose(over);
    assert_int_equal(unlink(first), 0);
}

static void bytes_stay_when_the_files_go(void **state) {
    static const uint32_t ways[] = {0, TENMAP_LOAD_READ, TENMAP_LOAD_DIRECT};
    for (size_t i = 0; i < COUNT(ways); i++) {
        tenmap_model *m = open_two(state);
        const void *data = tenmap_find(m, "first")->data, *base = tenmap_shard_at(m, 1)->base;
        direct_reads = 0;
        must_detach(m, ways[i], 0);
        assert_ptr_equal(tenmap_find(m, "first")->data, data);
        assert_ptr_equal(tenmap_shard_at(m, 1)->base, base);
        assert_int_equal(tenmap_shard_at(m, 0)->fd, -1);
        assert_int_equal(tenmap_shard_at(m, 1)->fd, -1);
        ruin_files(state);
        assert_true(all_right(m));
        assert_memory_equal((const char *)base + 8, "{\"second\"", 9);
        if (ways[i] != TENMAP_LOAD_DIRECT)
            assert_int_equal(direct_reads, 0);
        tenmap_close(m);
    }
}

static void what_reads_the_model_works_as_before(void **state) {
    tenmap_model *m = open_two(state);
    const tenmap_tensor *t = tenmap_find(m, "second");
    tenmap_error e;
    must_detach(m, 0, 0);
    ruin_files(state);
    unsigned char *dst = malloc(SECOND_SIZE);
    assert_non_null(dst);
    tenmap_request request = {
        .tensor = t, .as = TENMAP_AS_STORED, .dst = dst, .dst_bytes = SECOND_SIZE};
    static const uint32_t ways[] = {0, TENMAP_LOAD_READ, TENMAP_LOAD_DIRECT};
    for (size_t i = 0; i < COUNT(ways); i++) {
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        options.flags = ways[i];
        memset(dst, 0, SECOND_SIZE);
        assert_int_equal(tenmap_load(m, &request, 1, &options, &e), TENMAP_OK);
        assert_memory_equal(dst, t->data, SECOND_SIZE);
    }
    free(dst);
    tenmap_writer *w;
    const char *path = in_folder(state, "copy.safetensors");
    assert_int_equal(tenmap_writer_create(path, NULL, &w, &e), TENMAP_OK);
    size_t id;
    assert_int_equal(tenmap_writer_add(w, "second", TENMAP_CSTR, TENMAP_U8, t->shape, 1, &id, &e),
                     TENMAP_OK);
    assert_int_equal(tenmap_writer_copy(w, id, t, 0, &e), TENMAP_OK);
    assert_int_equal(tenmap_writer_commit(w, &e), TENMAP_OK);
    tenmap_model *copy = must_open(path, NULL);
    assert_true(all_right(copy));
    tenmap_close(copy);
    tenmap_close(m);
}

static void advice_leaves_the_bytes_alone(void **state) {
    static const uint32_t advice[] = {TENMAP_ADVISE_RELEASE, TENMAP_ADVISE_PREFETCH,
                                      TENMAP_ADVISE_POPULATE};
    tenmap_model *m = open_two(state);
    tenmap_error e;
    must_detach(m, 0, 0);
    for (size_t i = 0; i < COUNT(advice); i++)
        assert_int_equal(tenmap_advise(m, NULL, advice[i], &e), TENMAP_OK);
    assert_true(all_right(m));
    assert_int_equal(cached(m), 0);
    assert_int_equal(resident(m), FIRST_SIZE + SECOND_SIZE);
    tenmap_close(m);
}

static void memory_is_counted_once(void **state) {
    tenmap_model *m = open_two(state);
    uint64_t before = bytes_in_memory(); /* without the model's pages, which may vary */
    assert_true(all_right(m));
    size_t mappings = count_mappings();
    must_detach(m, 0, 2);
    uint64_t after = bytes_in_memory();
    assert_true(all_right(m));
    /* A sanitizer uses extra memory for every page that is read. */
    if (!SANITIZED && after > before + FIRST_SIZE + SECOND_SIZE + 4 * MIB)
        fail_msg("%llu bytes in memory, %llu before the model", (unsigned long long)after,
                 (unsigned long long)before);
    if (count_mappings() > mappings + 32)
        fail_msg("%zu mappings became %zu", mappings, count_mappings());
    tenmap_close(m);
    assert_true(bytes_in_memory() + FIRST_SIZE < after);
}

static void locks_are_taken_again(void **state) {
    tenmap_model *m = open_two(state);
    tenmap_error e;
    uint64_t nothing = locked_bytes();
    if (tenmap_advise(m, tenmap_find(m, "second"), TENMAP_ADVISE_LOCK, &e) != TENMAP_OK) {
        print_message("skipped: %s\n", e.message);
        tenmap_close(m);
        skip();
    }
    uint64_t locked = locked_bytes();
    if (SANITIZED || locked == nothing) {
        print_message("skipped: locking does nothing here\n");
        tenmap_close(m);
        skip();
    }
    must_detach(m, 0, 0);
    assert_int_equal(locked_bytes(), locked);
    assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_UNLOCK, &e), TENMAP_OK);
    assert_int_equal(locked_bytes(), nothing);
    assert_true(all_right(m));
    tenmap_close(m);
}

/* Detached parts stay, the rest stays mapped, and a second call continues. */

static atomic_uint_fast64_t stop_after, told_done, told_total;
static atomic_uint shards_told;

static int stop_at(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    told_done = done;
    told_total = total;
    return done > stop_after;
}

static void tell_shard(void *ctx, size_t shard, tenmap_status status) {
    (void)ctx;
    assert_int_equal(status, TENMAP_OK);
    shards_told |= 1u << shard;
}

static void a_cancel_keeps_what_was_moved(void **state) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error e;
    options.threads = 1;
    options.progress = stop_at;
    options.done = tell_shard;
    for (stop_after = 0; stop_after < FIRST_SIZE - 2 * MIB; stop_after += 16 * MIB) {
        tenmap_model *m = open_two(state);
        shards_told = 0;
        assert_int_equal(tenmap_detach(m, &options, &e), TENMAP_ERR_CANCELLED);
        check_error(&e, TENMAP_ERR_CANCELLED);
        assert_true(all_right(m));
        assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_RELEASE, &e), TENMAP_OK);
        assert_true(resident(m) >= told_done - 8 * 4096 && resident(m) < FIRST_SIZE + SECOND_SIZE);
        assert_true(all_right(m));
        assert_true(cached(m) < FIRST_SIZE + SECOND_SIZE);
        assert_int_equal(shards_told, told_done > FIRST_SIZE ? 1 : 0);
        uint64_t before = told_done;
        must_detach(m, 0, 2);
        ruin_files(state);
        assert_true(all_right(m));
        assert_int_equal(resident(m), FIRST_SIZE + SECOND_SIZE);
        assert_true(before > stop_after && before < told_total);
        tenmap_close(m);
    }
}

static void progress_ends_at_the_total(void **state) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error e;
    tenmap_model *m = open_two(state);
    options.progress = stop_at;
    options.done = tell_shard;
    stop_after = UINT64_MAX - 1;
    shards_told = 0;
    assert_int_equal(tenmap_detach(m, &options, &e), TENMAP_OK);
    assert_int_equal(told_done, told_total);
    assert_int_equal(told_total, tenmap_file_size(m));
    assert_int_equal(shards_told, 3);
    assert_int_equal(tenmap_detach(m, &options, &e), TENMAP_OK); /* nothing is left to do */
    assert_int_equal(told_total, 0);
    tenmap_close(m);
}

/* A reader that runs all the time and must find each byte unchanged. */

typedef struct reading {
    const tenmap_model *model;
    atomic_bool stop;
    atomic_ulong wrong, rounds;
} reading;

static void *read_always(void *ctx) {
    reading *r = ctx;
    for (size_t stripe = 0; !r->stop; stripe = (stripe + 1) % 61, r->rounds++)
        for (size_t i = 0; i < tenmap_count(r->model); i++)
            r->wrong += !stripe_is_right(tenmap_at(r->model, i), stripe, 61);
    return NULL;
}

static void begin_reading(reading *r, const tenmap_model *model, pthread_t *threads, size_t count) {
    *r = (reading){.model = model};
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_always, r), 0);
}

static void end_reading(reading *r, pthread_t *threads, size_t count) {
    r->stop = true;
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(r->wrong, 0);
}

/* No failure leaves a gap, a wrong byte, or a leak; the call works the next time. */
static void whichever_call_fails_there_is_no_gap(void **state) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error e;
    bool worked = false;
    options.threads = 2;
    for (int direct = 0; direct < 2; direct++, worked = false)
        for (long at = 0; !worked && at < 200; at++) {
            tenmap_model *m = open_two(state);
            reading r;
            pthread_t reader;
            begin_reading(&r, m, &reader, 1);
            size_t mappings = count_mappings();
            options.flags = direct ? TENMAP_LOAD_DIRECT : 0;
            fail_at = at;
            calls = 0;
            failed_error = 0;
            armed = true;
            tenmap_status status = tenmap_detach(m, &options, &e);
            armed = false;
            worked = failed_error == 0;
            if (worked)
                assert_int_equal(status, TENMAP_OK);
            if (status != TENMAP_OK) { /* the call does without a refused thread or direct read */
                check_error(&e, status);
                assert_true(status == TENMAP_ERR_IO || status == TENMAP_ERR_LIMIT ||
                            status == TENMAP_ERR_MEMORY);
                assert_true(count_mappings() < mappings + 16);
            }
            must_detach(m, 0, 2);
            end_reading(&r, &reader, 1);
            ruin_files(state);
            assert_true(all_right(m));
            tenmap_close(m);
        }
}

/* If the system removes the mapping and then fails, the file is mapped there again. */
static void a_mapping_that_was_lost_comes_back(void **state) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error e;
    options.threads = 1;
    leaves_gap = true;
    for (long at = 0; at < 12; at++) {
        tenmap_model *m = open_two(state);
        fail_at = at;
        calls = 0;
        armed = true;
        (void)tenmap_detach(m, &options, &e);
        armed = false;
        assert_true(all_right(m));
        tenmap_close(m);
    }
    leaves_gap = false;
}

/* KiB of huge pages in the memory between the two addresses. */
static unsigned long huge_kib(const char *begin, const char *end) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[1024], dash, space;
    unsigned long first, behind, kib, sum = 0;
    bool inside = false;
    while (smaps && fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx%c%lx%c", &first, &dash, &behind, &space) == 4 && dash == '-')
            inside = first < (uintptr_t)end && behind > (uintptr_t)begin;
        else if (inside && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
            sum += kib;
    }
    if (smaps)
        fclose(smaps);
    return sum;
}

/* Memory that was allocated in huge pages is still in huge pages after it replaced the mapping. */
static void huge_pages_stay_whole(void **state) {
    enum { BYTES = 16 << 20, MOST_LOST = 4 << 10 };
    char json[128];
    snprintf(json, sizeof json, "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
             (int)BYTES, (int)BYTES);
    write_model(in_folder(state, "large.safetensors"), json, BYTES);
    char *given = tenmap_alloc(BYTES);
    assert_non_null(given);
    memset(given, 1, BYTES);
    unsigned long possible = huge_kib(given, given + BYTES);
    tenmap_free(given);
    if (possible < BYTES >> 10) {
        print_message("SKIPPED: of 16 MiB this system gave %lu KiB in huge pages\n", possible);
        skip();
    }
    tenmap_model *m = must_open(in_folder(state, "large.safetensors"), NULL);
    const tenmap_tensor *t = tenmap_at(m, 0);
    uint64_t refused = huge_pages_refused();
    must_detach(m, 0, 1);
    unsigned long seen = huge_kib(t->data, (const char *)t->data + BYTES);
    print_message("           %lu of %d KiB in huge pages\n", seen, BYTES >> 10);
    if (huge_pages_refused() != refused) {
        print_message("SKIPPED: meanwhile this system had no more huge pages\n");
        tenmap_close(m);
        skip();
    }
    assert_true(seen + MOST_LOST >= BYTES >> 10); /* the ends of the file are not in huge pages */
    tenmap_close(m);
}

static size_t runs = 3;

static void readers_see_no_wrong_byte(void **state) {
    unsigned long rounds = 0;
    for (size_t i = 0; i < runs; i++) {
        tenmap_model *m = open_two(state);
        reading r;
        pthread_t readers[2];
        tenmap_error e;
        begin_reading(&r, m, readers, COUNT(readers));
        if (i % 3 == 1)
            assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_PREFETCH, &e), TENMAP_OK);
        must_detach(m, i % 2 ? TENMAP_LOAD_DIRECT : 0, (uint32_t)(i % 3 + 1));
        if (i % 4 == 3)
            ruin_files(state);
        while (r.rounds < 3)
            usleep(1000);
        end_reading(&r, readers, COUNT(readers));
        rounds += r.rounds;
        tenmap_close(m);
    }
    if (runs > 3)
        print_message("%zu runs, %lu rounds of readers, no wrong byte\n", runs, rounds);
}

/* Others load, copy and advise at the same time. */

typedef struct meddling {
    const tenmap_model *model;
    atomic_bool stop;
    atomic_ulong failed;
} meddling;

static void *meddle(void *ctx) {
    meddling *m = ctx;
    const tenmap_tensor *t = tenmap_find(m->model, "second");
    unsigned char *dst = malloc(SECOND_SIZE);
    tenmap_request request = {
        .tensor = t, .as = TENMAP_AS_STORED, .dst = dst, .dst_bytes = SECOND_SIZE};
    for (uint32_t i = 0; !m->stop; i++) {
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        tenmap_error e;
        uint64_t found;
        options.flags = i % 3; /* mapped, read, direct */
        m->failed += tenmap_load(m->model, &request, 1, &options, &e) != TENMAP_OK ||
                     memcmp(dst, t->data, SECOND_SIZE) != 0;
        m->failed += tenmap_advise(m->model, NULL, i % 3 + 1, &e) != TENMAP_OK;
        m->failed += tenmap_cached(m->model, NULL, &found, &e) != TENMAP_OK;
    }
    free(dst);
    return NULL;
}

static void others_load_and_advise_meanwhile(void **state) {
    for (size_t i = 0; i < runs; i++) {
        tenmap_model *model = open_two(state);
        meddling m = {.model = model};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, meddle, &m), 0);
        usleep(1000 * (unsigned)(i % 7));
        must_detach(model, i % 2 ? TENMAP_LOAD_DIRECT : 0, 2);
        m.stop = true;
        pthread_join(thread, NULL);
        assert_int_equal(m.failed, 0);
        assert_true(all_right(model));
        tenmap_close(model);
    }
}

/* What is refused. */

static void a_file_that_changed_is_an_error(void **state) {
    tenmap_model *m = open_two(state);
    tenmap_error e;
    modify_data(in_folder(state, "model-00002-of-00002.safetensors"));
    assert_int_equal(tenmap_detach(m, NULL, &e), TENMAP_ERR_IO);
    check_error(&e, TENMAP_ERR_IO);
    assert_non_null(strstr(e.message, "modified"));
    assert_int_equal(e.shard, 1);
    assert_true(stripe_is_right(tenmap_find(m, "first"), 0, 1));
    tenmap_close(m);
    m = open_two(state);
    assert_int_equal(truncate(in_folder(state, "model-00001-of-00002.safetensors"), 5 * MIB), 0);
    assert_int_equal(tenmap_detach(m, NULL, &e), TENMAP_ERR_IO);
    assert_non_null(strstr(e.message, "truncated"));
    tenmap_close(m);
}

static void what_is_not_mapped_is_refused(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_error e;
    const char *path = in_folder(state, "small.safetensors");
    write_shard(path, "t", 100, "");
    options.backend = TENMAP_BACKEND_READ;
    tenmap_model *m = must_open(path, &options);
    assert_int_equal(tenmap_detach(m, NULL, &e), TENMAP_ERR_UNSUPPORTED);
    check_error(&e, TENMAP_ERR_UNSUPPORTED);
    tenmap_close(m);
    bytes file = read_whole(path);
    m = must_open_memory(file, NULL);
    assert_int_equal(tenmap_detach(m, NULL, &e), TENMAP_ERR_UNSUPPORTED);
    check_error(&e, TENMAP_ERR_UNSUPPORTED);
    tenmap_close(m);
    free(file.at);
    assert_int_equal(tenmap_detach(NULL, NULL, &e), TENMAP_ERR_ARGUMENT);
}

/*
 * Where models are: inside another file, behind a descriptor, in a child of fork, on a mount that
 * goes away.
 */

static void a_model_inside_a_file_is_detached(void **state) {
    const char *path = in_folder(state, "inside.bin");
    bytes model = make_model(
        "{\"t\":{\"dtype\":\"U8\",\"shape\":[70000],\"data_offsets\":[0,70000]}}", 70000);
    size_t before = 5000, behind = 9000;
    unsigned char *whole = calloc(1, before + model.size + behind);
    assert_non_null(whole);
    memcpy(whole + before, model.at, model.size);
    write_file(path, whole, before + model.size + behind);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.offset = before;
    options.length = model.size;
    int fd = open(path, O_RDONLY);
    tenmap_model *m;
    tenmap_error e;
    assert_int_equal(tenmap_open_fd(fd, &options, &m, &e), TENMAP_OK);
    close(fd);
    must_detach(m, TENMAP_LOAD_DIRECT, 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_true(all_right(m));
    unsigned char some[100];
    assert_int_equal(tenmap_read_bytes(tenmap_at(m, 0), 69900, 100, some, &e), TENMAP_OK);
    assert_int_equal(some[99], pattern_byte(69999));
    tenmap_close(m);
    free(whole);
    free(model.at);
}

static void a_child_has_the_bytes_too(void **state) {
    tenmap_model *m = open_two(state);
    must_detach(m, 0, 0);
    ruin_files(state);
    pid_t child = fork();
    if (child == 0) {
        tenmap_error e;
        bool good = all_right(m) &&
                    tenmap_advise(m, NULL, TENMAP_ADVISE_RELEASE, &e) == TENMAP_OK &&
                    all_right(m) && tenmap_detach(m, NULL, &e) == TENMAP_OK;
        tenmap_close(m);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(all_right(m));
    tenmap_close(m);
}

static void its_mount_may_be_unmounted(void **state) {
    const char *place = in_folder(state, "mount");
    assert_int_equal(mkdir(place, 0700), 0);
    if (mount("tenmap", place, "tmpfs", 0, "size=64m") != 0) {
        print_message("skipped: cannot mount here: %s\n", strerror(errno));
        skip();
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/m.safetensors", place);
    write_shard(path, "t", 3 * MIB + 5, "");
    tenmap_model *m = must_open(path, NULL);
    bool busy = umount(place) != 0 && errno == EBUSY;
    must_detach(m, TENMAP_LOAD_DIRECT, 0);
    int gone = umount(place);
    if (gone != 0)
        (void)umount2(place, MNT_DETACH);
    assert_true(busy);
    assert_int_equal(gone, 0);
    assert_true(all_right(m));
    tenmap_close(m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bytes_stay_when_the_files_go, empty_folder),
        cmocka_unit_test_setup(what_reads_the_model_works_as_before, empty_folder),
        cmocka_unit_test_setup(advice_leaves_the_bytes_alone, empty_folder),
        cmocka_unit_test_setup(memory_is_counted_once, empty_folder),
        cmocka_unit_test_setup(huge_pages_stay_whole, empty_folder),
        cmocka_unit_test_setup(locks_are_taken_again, empty_folder),
        cmocka_unit_test_setup(a_cancel_keeps_what_was_moved, empty_folder),
        cmocka_unit_test_setup(progress_ends_at_the_total, empty_folder),
        cmocka_unit_test_setup(whichever_call_fails_there_is_no_gap, empty_folder),
        cmocka_unit_test_setup(a_mapping_that_was_lost_comes_back, empty_folder),
        cmocka_unit_test_setup(readers_see_no_wrong_byte, empty_folder),
        cmocka_unit_test_setup(others_load_and_advise_meanwhile, empty_folder),
        cmocka_unit_test_setup(a_file_that_changed_is_an_error, empty_folder),
        cmocka_unit_test_setup(what_is_not_mapped_is_refused, empty_folder),
        cmocka_unit_test_setup(a_model_inside_a_file_is_detached, empty_folder),
        cmocka_unit_test_setup(a_child_has_the_bytes_too, empty_folder),
        cmocka_unit_test_setup(its_mount_may_be_unmounted, empty_folder),
    };
    if (argc > 1)
        runs = strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
