/*
 * Advice and its effect on memory: compares what the library reports with what the kernel reports.
 * The linker redirects the library's madvise to the test, which can simulate a kernel without
 * POPULATE_READ, hold the prefetching thread, or truncate a file at the worst moment.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { HANG = 600 }; /* seconds; even a busy machine is faster */

/*
 * Sanitizers replace mlock with a function that does nothing, and ThreadSanitizer starts no thread
 * after a fork from a process that had threads.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
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

int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
static atomic_bool old_kernel;
static atomic_bool unreadable;        /* populating fails as if storage had failed */
static atomic_bool gated;             /* populating waits until it is let through, one at a time */
static atomic_int allowed, populated; /* how many were let through, how many came */
static atomic_size_t largest;         /* what the library asked realloc for */
static const char *cut_once_mapped;   /* a file that is truncated as soon as its pages are mapped */
static pthread_t main_thread;
static atomic_int faults_on_workers;
static atomic_size_t asked_to_populate; /* bytes */

void *__wrap_realloc(void *old, size_t size) {
    if (size > largest)
        largest = size;
    return __real_realloc(old, size);
}

static void nap(void) {
    nanosleep(&(struct timespec){0, 50000}, NULL);
}

/* Maps the pages and truncates the file before anybody looks. Runs on a worker thread. */
static int map_and_cut(void *at, size_t size) {
    if (pthread_equal(pthread_self(), main_thread))
        while (faults_on_workers == 0)
            nap();
    int failed = __real_madvise(at, size, MADV_POPULATE_READ);
    return truncate(cut_once_mapped, 4096) == 0 ? failed : -1;
}

int __wrap_madvise(void *at, size_t size, int advice) {
    if (advice == MADV_POPULATE_READ)
        asked_to_populate += size;
    if (old_kernel && advice == MADV_POPULATE_READ) {
        errno = EINVAL;
        return -1;
    }
    if (unreadable && advice == MADV_POPULATE_READ) {
        errno = EFAULT;
        return -1;
    }
    if (cut_once_mapped && advice == MADV_POPULATE_READ)
        return map_and_cut(at, size);
    if (gated && advice == MADV_POPULATE_READ) {
        int number = atomic_fetch_add(&populated, 1);
        while (gated && number >= allowed)
            nap();
    }
    return __real_madvise(at, size, advice);
}

/*
 * Three tensors that end in the middle of pages, and a larger one. All of it is less than a huge
 * page, which the kernel can only unmap whole.
 */
enum { A = 50001, B = 70003, C = 60005, D = 1 << 20, ALL = A + B + C + D };

static const char *small_model(void **state) {
    char json[512];
    const char *path = in_folder(state, "m.safetensors");
    snprintf(json, sizeof json,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
             "\"b\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]},"
             "\"c\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]},"
             "\"d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
             A, A, B, A, A + B, C, A + B, A + B + C, D, A + B + C, ALL);
    write_model(path, json, ALL);
    return path;
}

/*
 * A second, locked mapping of the file keeps its pages in memory, and so in all mappings, even if
 * other programs need memory. It uses the system call, because sanitizers replace mlock. If the
 * limit is too low, tests that depend on it are skipped.
 */
static struct {
    void *at;
    size_t size;
} pinned;

static void unpin(void) {
    if (pinned.at)
        munmap(pinned.at, pinned.size);
    pinned.at = NULL;
}

static bool may_pin(const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    unpin();
    pinned.size = (size_t)st.st_size;
    pinned.at = mmap(NULL, pinned.size, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(pinned.at != MAP_FAILED);
    close(fd);
    return syscall(SYS_mlock, pinned.at, pinned.size) == 0;
}

static void pin(const char *path) {
    if (!may_pin(path)) {
        print_message("           SKIPPED: pages cannot be kept here: %s\n", strerror(errno));
        skip();
    }
}

static int start_test(void **state) {
    unpin();
    return empty_folder(state);
}

/* A model whose pages stay in memory. */
static const char *pinned_model(void **state) {
    const char *path = small_model(state);
    pin(path);
    return path;
}

static uint64_t resident(const tenmap_model *m, const char *name) {
    uint64_t count = 77;
    tenmap_error error;
    if (tenmap_resident(m, name ? tenmap_find(m, name) : NULL, &count, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return count;
}

static uint64_t cached(const tenmap_model *m, const char *name) {
    uint64_t count = 77;
    tenmap_error error;
    if (tenmap_cached(m, name ? tenmap_find(m, name) : NULL, &count, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return count;
}

static void advise(const tenmap_model *m, const char *name, uint32_t advice) {
    tenmap_error error;
    if (tenmap_advise(m, name ? tenmap_find(m, name) : NULL, advice, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
}

/* A field of /proc/self/smaps, in bytes, summed over the file's mappings except the pinned one. */
static uint64_t smaps(const char *path, const char *field) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[8192];
    bool ours = false;
    uint64_t sum = 0;
    unsigned long value;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (line[0] < 'A' || line[0] > 'Z') /* the line that begins a mapping: its address */
            ours = strstr(line, path) && strtoul(line, NULL, 16) != (uintptr_t)pinned.at;
        else if (ours && strncmp(line, field, strlen(field)) == 0 &&
                 sscanf(colon + 1, "%lu", &value) == 1)
            sum += value * 1024;
    }
    fclose(f);
    return sum;
}

static size_t page(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * Compares the library's count of the model with the kernel's, which counts whole pages and the
 * header.
 */
static void check_smaps(const tenmap_model *m, const char *path) {
    uint64_t ours = resident(m, NULL), theirs = smaps(path, "Rss");
    if (theirs < ours || theirs - ours > 2 * page())
        fail_msg("resident %llu, smaps %llu", (unsigned long long)ours, (unsigned long long)theirs);
}

static void populated_tensors_are_mapped_and_released_ones_are_not(void **state) {
    const char *path = pinned_model(state);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(resident(m, NULL), 0);
    assert_int_equal(smaps(path, "Rss"), 0);
    advise(m, "d", TENMAP_ADVISE_POPULATE);
    assert_int_equal(resident(m, "d"), D);
    check_smaps(m, path);
    advise(m, "d", TENMAP_ADVISE_RELEASE);
    assert_true(resident(m, "d") < page()); /* the part that shares a page with c */
    check_smaps(m, path);
    assert_int_equal(cached(m, "d"), D); /* the page cache still has them */
    advise(m, NULL, TENMAP_ADVISE_POPULATE);
    assert_int_equal(resident(m, NULL), ALL);
    assert_int_equal(resident(m, "a") + resident(m, "b") + resident(m, "c") + resident(m, "d"),
                     ALL);
    assert_int_equal(cached(m, NULL), ALL);
    check_smaps(m, path);
    advise(m, NULL, TENMAP_ADVISE_RELEASE);
    assert_int_equal(resident(m, NULL), 0);
    assert_int_equal(smaps(path, "Rss"), 0);
    const unsigned char *a = tenmap_find(m, "a")->data;
    assert_int_equal(a[5], pattern_byte(5)); /* views stay valid */
    tenmap_close(m);
}

static void releasing_never_drops_a_neighbors_page(void **state) {
    tenmap_model *m = must_open(pinned_model(state), NULL);
    const tenmap_tensor *ab[] = {tenmap_find(m, "b"), tenmap_find(m, "a"), tenmap_find(m, "b")};
    advise(m, NULL, TENMAP_ADVISE_POPULATE);
    advise(m, "b", TENMAP_ADVISE_RELEASE);
    assert_int_equal(resident(m, "a"), A);
    assert_int_equal(resident(m, "c"), C);
    uint64_t left = resident(m, "b");
    assert_true(left > 0 && left < 2 * page());
    advise(m, "a", TENMAP_ADVISE_RELEASE); /* the first tensor: its page with the header goes too */
    assert_true(resident(m, "a") < page());
    advise(m, NULL, TENMAP_ADVISE_POPULATE);
    assert_int_equal(tenmap_advise_list(m, ab, 3, TENMAP_ADVISE_RELEASE, NULL), TENMAP_OK);
    assert_int_equal(resident(m, "a"), 0); /* the page that both share is inside */
    assert_true(resident(m, "b") < page());
    assert_int_equal(resident(m, "c"), C);
    assert_int_equal(tenmap_advise_list(m, ab, 3, TENMAP_ADVISE_POPULATE, NULL), TENMAP_OK);
    assert_int_equal(resident(m, "a") + resident(m, "b"), A + B);
    tenmap_close(m);
}

/* The middle of "d", as an expert between others: [first, first + size). */
static void check_range(const tenmap_tensor *d, uint64_t first, uint64_t size) {
    const tenmap_model *m = d->model;
    uint64_t inside = 77, before = 77, behind = 77;
    asked_to_populate = 0;
    assert_int_equal(tenmap_advise_range(d, first, size, TENMAP_ADVISE_POPULATE, NULL), TENMAP_OK);
    assert_int_equal(tenmap_resident_range(d, first, size, &inside, NULL), TENMAP_OK);
    assert_int_equal(inside, size);
    assert_true(asked_to_populate <= size + 2 * page()); /* the system may map more around it */
    assert_int_equal(tenmap_cached_range(d, first, size, &inside, NULL), TENMAP_OK);
    assert_int_equal(inside, size);

    advise(m, "d", TENMAP_ADVISE_POPULATE);
    assert_int_equal(tenmap_advise_range(d, first, size, TENMAP_ADVISE_RELEASE, NULL), TENMAP_OK);
    assert_int_equal(tenmap_resident_range(d, 0, first, &before, NULL), TENMAP_OK);
    assert_int_equal(tenmap_resident_range(d, first, size, &inside, NULL), TENMAP_OK);
    assert_int_equal(
        tenmap_resident_range(d, first + size, d->nbytes - first - size, &behind, NULL), TENMAP_OK);
    assert_int_equal(before, first); /* neighbors keep the pages that they share */
    assert_int_equal(behind, d->nbytes - first - size);
    assert_true(inside < 2 * page() && inside <= size);
    assert_int_equal(before + inside + behind, resident(m, "d"));
    advise(m, NULL, TENMAP_ADVISE_RELEASE);
}

static void a_range_is_advised_as_if_it_were_a_tensor(void **state) {
    tenmap_model *m = must_open(pinned_model(state), NULL);
    const tenmap_tensor *d = tenmap_find(m, "d");
    static const uint64_t ranges[][2] = {{100000, 200000},   {99999, 1}, {0, 70000}, {0, D},
                                         {D - 50000, 50000}, {12345, 0}, {D, 0}};
    for (size_t i = 0; i < COUNT(ranges); i++)
        check_range(d, ranges[i][0], ranges[i][1]);
    assert_int_equal(tenmap_advise_range(d, 300000, 300000, TENMAP_ADVISE_PREFETCH, NULL),
                     TENMAP_OK);
    assert_int_equal(tenmap_advise_range(d, 300000, 300000, TENMAP_ADVISE_POPULATE, NULL),
                     TENMAP_OK); /* waits for it */
    uint64_t inside = 0;
    assert_int_equal(tenmap_resident_range(d, 300000, 300000, &inside, NULL), TENMAP_OK);
    assert_int_equal(inside, 300000);
    tenmap_close(m);
}

static void a_locked_range_must_be_unlocked_before_it_is_released(void **state) {
    if (SANITIZED) {
        print_message("           SKIPPED: sanitizers replace munlock\n");
        return;
    }
    tenmap_model *m = must_open(pinned_model(state), NULL);
    const tenmap_tensor *d = tenmap_find(m, "d");
    assert_int_equal(tenmap_advise_range(d, 300000, 300000, TENMAP_ADVISE_LOCK, NULL), TENMAP_OK);
    assert_int_equal(tenmap_advise_range(d, 400000, 50000, TENMAP_ADVISE_RELEASE, NULL),
                     TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_advise_range(d, 300000, 300000, TENMAP_ADVISE_UNLOCK, NULL), TENMAP_OK);
    assert_int_equal(tenmap_advise_range(d, 400000, 50000, TENMAP_ADVISE_RELEASE, NULL), TENMAP_OK);
    tenmap_close(m);
}

static void check_range_refused(const tenmap_tensor *t, uint64_t first, uint64_t size,
                                tenmap_status expected) {
    uint64_t count = 77;
    tenmap_error error;
    for (uint32_t advice = TENMAP_ADVISE_POPULATE; advice <= TENMAP_ADVISE_UNLOCK; advice++)
        assert_int_equal(tenmap_advise_range(t, first, size, advice, &error), expected);
    assert_int_equal(tenmap_resident_range(t, first, size, &count, &error), expected);
    assert_int_equal(tenmap_cached_range(t, first, size, &count, NULL), expected);
    assert_int_equal(count, 77);
}

static void ranges_outside_of_the_tensor_are_refused(void **state) {
    tenmap_model *m = must_open(pinned_model(state), NULL);
    const tenmap_tensor *b = tenmap_find(m, "b");
    check_range_refused(b, B, 1, TENMAP_ERR_RANGE);
    check_range_refused(b, 0, B + 1, TENMAP_ERR_RANGE);
    check_range_refused(b, B + 1, 0, TENMAP_ERR_RANGE);
    check_range_refused(b, 1, UINT64_MAX, TENMAP_ERR_RANGE);
    check_range_refused(b, UINT64_MAX, 1, TENMAP_ERR_RANGE);
    check_range_refused(NULL, 0, 0, TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_advise_range(b, 0, B, 0, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_advise_range(b, 0, B, 6, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_resident_range(b, 0, B, NULL, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_cached_range(b, 0, B, NULL, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(resident(m, NULL), 0);
    tenmap_close(m);
}

static void wait_for(const tenmap_model *m, uint64_t wanted) {
    alarm(HANG);
    while (resident(m, NULL) < wanted)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    alarm(0);
    assert_int_equal(resident(m, NULL), wanted);
}

static void prefetching_goes_on_in_the_background(void **state) {
    tenmap_model *m = must_open(pinned_model(state), NULL);
    advise(m, "d", TENMAP_ADVISE_PREFETCH);
    advise(m, "a", TENMAP_ADVISE_PREFETCH);
    advise(m, "b", TENMAP_ADVISE_PREFETCH);
    advise(m, "c", TENMAP_ADVISE_PREFETCH);
    wait_for(m, ALL);
    advise(m, NULL, TENMAP_ADVISE_RELEASE);
    advise(m, NULL, TENMAP_ADVISE_PREFETCH);
    wait_for(m, ALL);
    tenmap_close(m);
}

/* There is always a waiting span: the queue's size is bounded by how many wait. */
static void a_queue_that_never_empties_does_not_grow(void **state) {
    enum { ROUNDS = 3000, MOST = 16 << 10 };
    tenmap_model *m = must_open(small_model(state), NULL);
    allowed = populated = 0;
    gated = true;
    for (int i = 0; i < 3; i++)
        advise(m, i % 2 ? "a" : "d", TENMAP_ADVISE_PREFETCH);
    largest = 0;
    alarm(HANG);
    for (int i = 0; i < ROUNDS; i++) {
        while (populated < i + 1) /* lets the current span through */
            nap();
        advise(m, i % 2 ? "a" : "d", TENMAP_ADVISE_PREFETCH);
        allowed++;
    }
    alarm(0);
    size_t asked = largest;
    gated = false;
    tenmap_close(m);
    if (asked > MOST)
        fail_msg("%zu bytes for a queue of three spans", asked);
}

/* A sparse model far larger than what can be brought in meanwhile. */
static const char *sparse_model(void **state, uint64_t size) {
    char json[256];
    const char *path = in_folder(state, "sparse.safetensors");
    snprintf(json, sizeof json,
             "{\"t\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[0,%llu]}}",
             (unsigned long long)size, (unsigned long long)size);
    write_model(path, json, 0);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(json) + size)), 0);
    return path;
}

/* From several threads, at places that are done, in progress, and far back in the queue. */
static void *populate_parts(void *arg) {
    const tenmap_model *m = arg;
    for (size_t i = 0; i < tenmap_count(m); i++) {
        const tenmap_tensor *t = tenmap_at(m, i % 3 ? i : tenmap_count(m) - 1 - i);
        if (tenmap_advise(m, t, TENMAP_ADVISE_POPULATE, NULL) != TENMAP_OK)
            return arg;
        (void)*(const volatile char *)t->data;
    }
    return NULL;
}

static void populating_what_is_being_prefetched_waits_for_it(void **state) {
    enum { PART = 5000001, PARTS = 30 };
    char json[4096] = "";
    const char *path = in_folder(state, "parts.safetensors");
    for (int i = 0; i < PARTS; i++)
        sprintf(json + strlen(json),
                "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}",
                i ? "," : "{", i, PART, i * PART, (i + 1) * PART);
    strcat(json, "}");
    write_model(path, json, 0);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(json) + (size_t)PART * PARTS)), 0);
    bool kept = may_pin(path);
    alarm(HANG); /* a hang is a failure */
    for (int round = 0; round < 3; round++) {
        tenmap_model *m = must_open(path, NULL);
        pthread_t threads[3];
        advise(m, NULL, TENMAP_ADVISE_PREFETCH);
        advise(m, "t7", TENMAP_ADVISE_PREFETCH);
        for (size_t i = 0; i < COUNT(threads); i++)
            assert_int_equal(pthread_create(&threads[i], NULL, populate_parts, m), 0);
        for (size_t i = 0; i < COUNT(threads); i++) {
            void *failed;
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
        if (kept)
            assert_int_equal(resident(m, NULL), (uint64_t)PART * PARTS);
        tenmap_close(m);
    }
    alarm(0);
}

static void closing_and_releasing_cancel_what_waits(void **state) {
    const char *path = sparse_model(state, UINT64_C(40) << 30);
    tenmap_model *m = must_open(path, NULL);
    advise(m, NULL, TENMAP_ADVISE_PREFETCH);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    advise(m, NULL, TENMAP_ADVISE_RELEASE);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    assert_true(resident(m, NULL) <= 64 << 20); /* no more than was in progress */
    for (int i = 0; i < 100; i++)
        advise(m, NULL, TENMAP_ADVISE_PREFETCH);
    tenmap_close(m); /* returns before 40 GiB of zeros are read */
}

static void models_that_are_not_mapped_take_every_advice(void **state) {
    const char *path = pinned_model(state);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = TENMAP_BACKEND_READ;
    tenmap_model *m = must_open(path, &options);
    for (uint32_t advice = TENMAP_ADVISE_POPULATE; advice <= TENMAP_ADVISE_UNLOCK; advice++) {
        advise(m, NULL, advice);
        advise(m, "b", advice);
    }
    assert_int_equal(resident(m, NULL), 0);
    assert_int_equal(cached(m, "b"), B);
    assert_int_equal(cached(m, NULL), ALL);
    tenmap_close(m);

    bytes file = read_whole(path);
    m = must_open_memory(file, NULL);
    for (uint32_t advice = TENMAP_ADVISE_POPULATE; advice <= TENMAP_ADVISE_UNLOCK; advice++)
        advise(m, "c", advice);
    assert_int_equal(resident(m, "c"), C);
    assert_int_equal(cached(m, NULL), 0);
    const unsigned char *c = tenmap_find(m, "c")->data;
    assert_int_equal(c[0], pattern_byte(A + B)); /* RELEASE left the caller's bytes alone */
    tenmap_close(m);
    free(file.at);
}

/* Compares with the kernel's page cache after the file was dropped from it. */
static void cached_bytes_are_those_of_the_page_cache(void **state) {
    const char *path = small_model(state);
    tenmap_model *m = must_open(path, NULL);
    int fd = open(path, O_RDONLY);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
    if (cached(m, NULL) > 0) {
        print_message("           SKIPPED: the file system keeps its pages\n");
    } else {
        advise(m, "b", TENMAP_ADVISE_POPULATE);
        pin(path); /* pages that the system took meanwhile return, and stay */
        advise(m, "b", TENMAP_ADVISE_POPULATE);
        assert_int_equal(cached(m, "b"), B);
        assert_int_equal(resident(m, "b"), B);
    }
    tenmap_close(m);
}

static void a_truncated_file_is_an_error_and_not_a_signal(void **state) {
    for (int old = 0; old < 2; old++) {
        const char *path = small_model(state);
        tenmap_error error;
        tenmap_model *m = must_open(path, NULL);
        old_kernel = old;
        assert_int_equal(truncate(path, 100000), 0);
        assert_int_equal(tenmap_advise(m, tenmap_find(m, "c"), TENMAP_ADVISE_POPULATE, &error),
                         TENMAP_ERR_IO);
        check_error(&error, TENMAP_ERR_IO);
        assert_int_equal(error.os_error, EFAULT);
        assert_non_null(strstr(error.message, "tensor \"c\""));
        assert_non_null(strstr(error.message, "m.safetensors"));
        assert_non_null(strstr(error.message, "truncated"));
        assert_non_null(strstr(error.message, "100000 now"));
        assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_POPULATE, &error), TENMAP_ERR_IO);
        assert_non_null(strstr(error.message, "tensor \"b\"")); /* where it stopped */
        if (!SANITIZED)
            assert_int_equal(tenmap_advise(m, tenmap_find(m, "d"), TENMAP_ADVISE_LOCK, &error),
                             TENMAP_ERR_IO);
        advise(m, NULL, TENMAP_ADVISE_PREFETCH); /* in the background nothing reports it */
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        tenmap_close(m);
        old_kernel = false;
    }
}

/* An FP8 weight with a scale for each row; the file ends in the middle of the scales. */
static void an_error_in_any_part_names_the_quantized_weight(void **state) {
    enum { ROWS = 16384, COLUMNS = 4, CODES = ROWS * COLUMNS, SCALES = ROWS * 4 };
    char json[512];
    const char *path = in_folder(state, "q.safetensors");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_error error;
    snprintf(json, sizeof json,
             "{\"b.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
             "\"b.weight_scale\":{\"dtype\":\"F32\",\"shape\":[%d,1],\"data_offsets\":[%d,%d]}}",
             ROWS, COLUMNS, CODES, ROWS, CODES, CODES + SCALES);
    write_model(path, json, CODES + SCALES);
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    tenmap_model *m = must_open(path, &options);
    const tenmap_tensor *t = tenmap_find(m, "b.weight");
    assert_true(t && t->flags & TENMAP_TENSOR_COMPUTED);
    check_range_refused(t, 0, 1, TENMAP_ERR_UNSUPPORTED); /* only its parts have ranges */
    assert_int_equal(
        tenmap_advise_range(tenmap_part_at(t, 1), 0, SCALES / 2, TENMAP_ADVISE_POPULATE, &error),
        TENMAP_OK);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(json) + CODES + SCALES / 2)), 0);
    assert_int_equal(tenmap_advise(m, t, TENMAP_ADVISE_POPULATE, &error), TENMAP_ERR_IO);
    if (!strstr(error.message, "tensor \"b.weight\""))
        fail_msg("%s", error.message);
    tenmap_close(m);
}

static void a_kernel_without_populate_read_is_done_without(void **state) {
    tenmap_model *m = must_open(pinned_model(state), NULL);
    old_kernel = true;
    advise(m, "d", TENMAP_ADVISE_POPULATE);
    assert_int_equal(resident(m, "d"), D);
    advise(m, NULL, TENMAP_ADVISE_RELEASE);
    advise(m, NULL, TENMAP_ADVISE_PREFETCH);
    wait_for(m, ALL);
    tenmap_close(m);
    old_kernel = false;
}

static void locked_pages_stay_and_must_be_unlocked_first(void **state) {
    const char *path = small_model(state);
    if (SANITIZED) {
        print_message("           SKIPPED: sanitizers replace mlock\n");
        return;
    }
    tenmap_model *m = must_open(path, NULL);
    tenmap_error error;
    tenmap_status status = tenmap_advise(m, tenmap_find(m, "b"), TENMAP_ADVISE_LOCK, &error);
    if (status == TENMAP_ERR_LIMIT) {
        print_message("           SKIPPED: %s\n", error.message);
    } else {
        assert_int_equal(status, TENMAP_OK);
        assert_int_equal(resident(m, "b"), B);
        assert_true(smaps(path, "Locked") >= B);
        assert_int_equal(tenmap_advise(m, tenmap_find(m, "b"), TENMAP_ADVISE_RELEASE, &error),
                         TENMAP_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, "TENMAP_ADVISE_UNLOCK"));
        assert_non_null(strstr(error.message, "tensor \"b\""));
        advise(m, NULL, TENMAP_ADVISE_UNLOCK);
        assert_int_equal(smaps(path, "Locked"), 0);
        advise(m, "b", TENMAP_ADVISE_RELEASE);
        assert_true(resident(m, "b") < 2 * page());
    }
    tenmap_close(m);
}

/* In a child that runs as nobody, because root may lock without limit. */
static void a_lock_over_the_limit_says_which_and_how_to_raise_it(void **state) {
    const char *path = small_model(state);
    if (SANITIZED) {
        print_message("           SKIPPED: sanitizers replace mlock\n");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {65536, 65536};
        tenmap_model *m = must_open(path, NULL);
        tenmap_error error = {0};
        int bad = setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (getuid() == 0 && setuid(65534) != 0);
        bad |=
            tenmap_advise(m, tenmap_find(m, "d"), TENMAP_ADVISE_LOCK, &error) != TENMAP_ERR_LIMIT;
        const char *wanted[] = {"tensor \"d\"", "1048576", "RLIMIT_MEMLOCK", "65536", "ulimit -l"};
        for (size_t i = 0; i < COUNT(wanted); i++)
            bad |= !strstr(error.message, wanted[i]);
        if (bad)
            fprintf(stderr, "status %d: %s\n", (int)error.status, error.message);
        tenmap_close(m);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The bytes that this process has locked in all mappings, as the kernel reports. */
static uint64_t locked_bytes(void) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long kib = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmLck: %lu", &kib) == 1)
            break;
    fclose(f);
    return (uint64_t)kib * 1024;
}

/* With "a" locked: a call that must fail, and change nothing about what is locked. */
static bool fails_without_a_trace(const tenmap_model *m, const char *name, tenmap_status wanted) {
    uint64_t before = locked_bytes();
    tenmap_error error = {0};
    const tenmap_tensor *t = name ? tenmap_find(m, name) : NULL;
    tenmap_status status = tenmap_advise(m, t, TENMAP_ADVISE_LOCK, &error);
    uint64_t after = locked_bytes();
    if (status == wanted && before >= A && after == before)
        return true;
    fprintf(stderr, "status %d (%s), %llu bytes locked before, %llu after\n", (int)status,
            error.message, (unsigned long long)before, (unsigned long long)after);
    return false;
}

/*
 * Whether the library also knows the locks: memory that replaces the mapping must be locked again.
 */
static bool detaches_with_its_locks(tenmap_model *m) {
    uint64_t before = locked_bytes();
    tenmap_error error = {0};
    if (tenmap_detach(m, NULL, &error) == TENMAP_OK && locked_bytes() == before)
        return true;
    fprintf(stderr, "%llu bytes locked before tenmap_detach, %llu after %s\n",
            (unsigned long long)before, (unsigned long long)locked_bytes(), error.message);
    return false;
}

/*
 * In children, which begin without locked pages. The second runs as nobody, so that the limit
 * applies.
 */
static void a_failed_lock_leaves_what_was_locked_before_and_no_more(void **state) {
    if (SANITIZED) {
        print_message("           SKIPPED: sanitizers replace mlock\n");
        return;
    }
    for (int over_limit = 0; over_limit < 2; over_limit++) {
        const char *path = small_model(state);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit limit = {65536, 65536};
            tenmap_model *m = must_open(path, NULL);
            bool bad = over_limit && (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
                                      (getuid() == 0 && setuid(65534) != 0));
            if (tenmap_advise(m, tenmap_find(m, "a"), TENMAP_ADVISE_LOCK, NULL) != TENMAP_OK)
                _exit(over_limit ? 1 : 77);
            unreadable = !over_limit;
            tenmap_status wanted = over_limit ? TENMAP_ERR_LIMIT : TENMAP_ERR_IO;
            bad |= !fails_without_a_trace(m, "b", wanted); /* shares a page with each neighbor */
            bad |= !fails_without_a_trace(m, NULL, wanted);
            unreadable = false;
            bad |= !detaches_with_its_locks(m);
            tenmap_close(m);
            _exit(bad);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            print_message("           SKIPPED: pages cannot be locked here\n");
        else
            assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* Simulates a program that wants zeros in place of a file's lost pages. */
static void map_a_page_of_zeros(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    char *at = (char *)((uintptr_t)info->si_addr / page() * page());
    if (mmap(at, page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        (void *)at)
        _exit(9);
    faults_on_workers += !pthread_equal(pthread_self(), main_thread);
}

/* Signals that a thread raises itself cannot stay pending: if blocked, they end the process. */
static void a_sigbus_handler_runs_on_the_librarys_threads(void **state) {
    enum { PART = 64 << 20 };
    const char *path = sparse_model(state, PART);
    if (SANITIZED) {
        print_message("           SKIPPED: sanitizers have signal handlers of their own\n");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_sigaction = map_a_page_of_zeros, .sa_flags = SA_SIGINFO};
        tenmap_model *m = must_open(path, NULL);
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        tenmap_request request = {.tensor = tenmap_find(m, "t"), .dst_bytes = PART};
        request.dst = tenmap_alloc(PART);
        options.threads = 4;
        main_thread = pthread_self();
        cut_once_mapped = path;
        alarm(HANG);
        bool bad = sigaction(SIGBUS, &action, NULL) != 0;
        (void)tenmap_load(m, &request, 1, &options, NULL); /* zeros or an error */
        bad |= faults_on_workers == 0;
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("the program's own handler never ran: it ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The child has no thread to wait for, whatever state the parent's queue was in. */
static void a_forked_child_reads_prefetches_and_closes(void **state) {
    const char *path = sparse_model(state, UINT64_C(20) << 30);
    tenmap_model *m = must_open(path, NULL), *small = must_open(pinned_model(state), NULL);
    for (int i = 0; i < 50; i++)
        advise(m, NULL, TENMAP_ADVISE_PREFETCH);
    advise(small, "a", TENMAP_ADVISE_PREFETCH);
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(HANG); /* a child that waits forever is a failure, not a hang */
            const unsigned char *d = tenmap_find(small, "d")->data;
            int bad = d[3] != pattern_byte(A + B + C + 3);
            if (round > 0 && !SANITIZED) {
                advise(small, "a", TENMAP_ADVISE_RELEASE);
                advise(small, NULL, TENMAP_ADVISE_PREFETCH);
                while (resident(small, NULL) < ALL)
                    nanosleep(&(struct timespec){0, 5000000}, NULL);
                bad |= resident(small, NULL) != ALL;
            }
            tenmap_close(small);
            tenmap_close(m);
            _exit(bad);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    tenmap_close(small);
    tenmap_close(m);
}

static void wrong_arguments(void **state) {
    tenmap_model *m = must_open(pinned_model(state), NULL), *other = must_open(*state, NULL);
    const tenmap_tensor *b = tenmap_find(m, "b"), *list[] = {b, NULL, tenmap_find(other, "b")};
    tenmap_error error;
    uint64_t count = 77;
    assert_int_equal(tenmap_advise(NULL, NULL, TENMAP_ADVISE_POPULATE, &error),
                     TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_advise(m, b, 0, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_advise(m, b, 6, &error), TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "6"));
    assert_int_equal(tenmap_advise(m, list[2], TENMAP_ADVISE_LOCK, &error), TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "another model"));
    assert_int_equal(tenmap_advise_list(m, list, 2, TENMAP_ADVISE_RELEASE, &error),
                     TENMAP_ERR_ARGUMENT);
    assert_int_equal(error.index, 1);
    list[1] = b;
    assert_int_equal(tenmap_advise_list(m, list, 3, TENMAP_ADVISE_RELEASE, &error),
                     TENMAP_ERR_ARGUMENT);
    assert_int_equal(error.index, 2);
    assert_int_equal(tenmap_advise_list(m, NULL, 1, TENMAP_ADVISE_RELEASE, &error),
                     TENMAP_ERR_ARGUMENT);
    advise(m, "b", TENMAP_ADVISE_POPULATE);
    assert_int_equal(tenmap_advise_list(m, NULL, 0, TENMAP_ADVISE_RELEASE, NULL), TENMAP_OK);
    assert_int_equal(resident(m, "b"), B); /* an empty list does not mean all tensors */
    assert_int_equal(tenmap_resident(m, b, NULL, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_resident(NULL, NULL, &count, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_cached(m, list[2], &count, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(count, 77);
    tenmap_close(other);
    tenmap_close(m);
}

static void *advise_and_use(void *arg) {
    const tenmap_model *m = arg;
    static const char *const names[] = {"a", "b", "c", "d"};
    uint64_t count;
    for (int i = 0; i < 200; i++) {
        const tenmap_tensor *t = tenmap_find(m, names[i % 4]);
        unsigned char dst[64];
        if (tenmap_advise(m, t, 1 + (uint32_t)i % 3, NULL) != TENMAP_OK ||
            tenmap_read(t, 100, 64, TENMAP_U8, dst, 64, 0, NULL) != TENMAP_OK ||
            dst[0] != ((const unsigned char *)t->data)[100] ||
            tenmap_resident(m, t, &count, NULL) != TENMAP_OK)
            return arg;
    }
    return NULL;
}

static void threads_may_advise_the_same_tensors(void **state) {
    tenmap_model *m = must_open(small_model(state), NULL);
    pthread_t threads[6];
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, advise_and_use, m), 0);
    for (size_t i = 0; i < COUNT(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    tenmap_close(m);
}

/* Offsets inside a larger file: the mapping begins in the middle of somebody else's page. */
static void models_inside_larger_files_round_the_same_way(void **state) {
    bytes file = read_whole(small_model(state));
    size_t before = 10000;
    unsigned char *larger = calloc(1, before + file.size + 5000);
    memcpy(larger + before, file.at, file.size);
    const char *path = in_folder(state, "larger.bin");
    write_file(path, larger, before + file.size + 5000);
    pin(path);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.offset = before;
    options.length = file.size;
    tenmap_model *m = must_open(path, &options);
    advise(m, NULL, TENMAP_ADVISE_POPULATE);
    assert_int_equal(resident(m, NULL), ALL);
    check_smaps(m, path);
    advise(m, "c", TENMAP_ADVISE_RELEASE);
    assert_int_equal(resident(m, "b"), B);
    assert_int_equal(resident(m, "d"), D);
    assert_int_equal(cached(m, NULL), ALL);
    advise(m, NULL, TENMAP_ADVISE_RELEASE);
    assert_int_equal(smaps(path, "Rss"), 0);
    tenmap_close(m);
    free(larger);
    free(file.at);
}

static void memory_for_destinations(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 100000, 2 << 20, (5 << 20) + 1};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        unsigned char *p = tenmap_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (2 << 20), 0);
        for (size_t k = 0; k < sizes[i]; k += 1000)
            assert_int_equal(p[k], 0);
        memset(p, 0x55, sizes[i]);
        tenmap_free(p);
    }
    tenmap_free(NULL);
    assert_null(tenmap_alloc(SIZE_MAX));
    assert_null(tenmap_alloc(SIZE_MAX / 2 + 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(populated_tensors_are_mapped_and_released_ones_are_not, start_test),
        cmocka_unit_test_setup(releasing_never_drops_a_neighbors_page, start_test),
        cmocka_unit_test_setup(a_range_is_advised_as_if_it_were_a_tensor, start_test),
        cmocka_unit_test_setup(a_locked_range_must_be_unlocked_before_it_is_released, start_test),
        cmocka_unit_test_setup(ranges_outside_of_the_tensor_are_refused, start_test),
        cmocka_unit_test_setup(prefetching_goes_on_in_the_background, start_test),
        cmocka_unit_test_setup(a_queue_that_never_empties_does_not_grow, start_test),
        cmocka_unit_test_setup(populating_what_is_being_prefetched_waits_for_it, start_test),
        cmocka_unit_test_setup(closing_and_releasing_cancel_what_waits, start_test),
        cmocka_unit_test_setup(models_that_are_not_mapped_take_every_advice, start_test),
        cmocka_unit_test_setup(cached_bytes_are_those_of_the_page_cache, start_test),
        cmocka_unit_test_setup(a_truncated_file_is_an_error_and_not_a_signal, start_test),
        cmocka_unit_test_setup(an_error_in_any_part_names_the_quantized_weight, start_test),
        cmocka_unit_test_setup(a_kernel_without_populate_read_is_done_without, start_test),
        cmocka_unit_test_setup(locked_pages_stay_and_must_be_unlocked_first, start_test),
        cmocka_unit_test_setup(a_lock_over_the_limit_says_which_and_how_to_raise_it, start_test),
        cmocka_unit_test_setup(a_failed_lock_leaves_what_was_locked_before_and_no_more, start_test),
        cmocka_unit_test_setup(a_sigbus_handler_runs_on_the_librarys_threads, start_test),
        cmocka_unit_test_setup(a_forked_child_reads_prefetches_and_closes, start_test),
        cmocka_unit_test_setup(wrong_arguments, start_test),
        cmocka_unit_test_setup(threads_may_advise_the_same_tensors, start_test),
        cmocka_unit_test_setup(models_inside_larger_files_round_the_same_way, start_test),
        cmocka_unit_test(memory_for_destinations),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
