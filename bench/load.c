/*
 * tenmap_load compared with the best hand-written loops for the same work: every tensor of a BF16
 * model into memory that is already in use, as BF16 and as F32, on two threads.
 *
 *     bench_load make FILE TENSORS DTYPE
 *     bench_load run FILE ROUNDS
 *
 * `run` prints lines of NAME NANOSECONDS, the least of all rounds; all times begin before the file
 * is opened. bench/ttft.sh makes the table.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "timing.h"
#include "weights.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenmap.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { THREADS = 2, CHUNK = 4 << 20 };
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static void widen_scalar(float *dst, const uint16_t *src, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)src[i] << 16;
        memcpy(dst + i, &bits, sizeof bits);
    }
}

#if defined(__x86_64__)
/* With non-temporal stores; dst is aligned to 32 bytes. */
__attribute__((target("avx2"))) static void widen_avx2(float *dst, const uint16_t *src,
                                                       size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i raw = _mm_loadu_si128((const __m128i *)(const void *)(src + i));
        _mm_prefetch((const char *)(src + i) + 2048, _MM_HINT_T0);
        _mm256_stream_si256((__m256i *)(void *)(dst + i),
                            _mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
    }
    _mm_sfence();
    widen_scalar(dst + i, src + i, count - i);
}

__attribute__((target("avx2"))) static void copy_avx2(char *dst, const char *src, size_t size) {
    size_t i = 0;
    for (; i + 64 <= size; i += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(src + i));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(src + i + 32));
        _mm_prefetch(src + i + 2048, _MM_HINT_T0);
        _mm256_stream_si256((__m256i *)(void *)(dst + i), a);
        _mm256_stream_si256((__m256i *)(void *)(dst + i + 32), b);
    }
    _mm_sfence();
    memcpy(dst + i, src + i, size - i);
}
#endif

static void widen(float *dst, const uint16_t *src, size_t count) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        widen_avx2(dst, src, count);
        return;
    }
#endif
    widen_scalar(dst, src, count);
}

/*
 * The hand-written loops. They know that the data is one piece from `data` to the end of the file.
 */
enum hand_way { HAND_MEMCPY, HAND_STREAM, HAND_PREAD, HAND_WIDEN_MAP, HAND_WIDEN_PREAD };

typedef struct hand_loop {
    int fd;
    enum hand_way way;
    const char *map;
    uint64_t data, size;
    char *dst;
    atomic_uint_fast64_t next;
    atomic_bool failed;
} hand_loop;

static void copy_chunk(const hand_loop *h, char *dst, const char *src, size_t size) {
#if defined(__x86_64__)
    if (h->way == HAND_STREAM && __builtin_cpu_supports("avx2")) {
        copy_avx2(dst, src, size);
        return;
    }
#endif
    (void)h;
    memcpy(dst, src, size);
}

static void do_chunk(hand_loop *h, uint64_t at, size_t size, char *window) {
    bool widens = h->way == HAND_WIDEN_MAP || h->way == HAND_WIDEN_PREAD;
    char *dst = h->dst + at * (widens ? 2 : 1);
    uint64_t from = h->data + at, page = from / 4096 * 4096;
    if (h->map)
        (void)madvise((void *)(uintptr_t)(h->map + page), size + (from - page), MADV_POPULATE_READ);
    else if (pread(h->fd, widens ? window : dst, size, (off_t)from) != (ssize_t)size)
        h->failed = true;
    if (h->way == HAND_MEMCPY || h->way == HAND_STREAM)
        copy_chunk(h, dst, h->map + from, size);
    else if (widens)
        widen((float *)(void *)dst,
              (const uint16_t *)(const void *)(h->map ? h->map + from : window), size / 2);
}

static void run_chunks(void *ctx, unsigned i, unsigned threads) {
    hand_loop *h = ctx;
    uint64_t step = h->way == HAND_WIDEN_PREAD ? 256 << 10 : CHUNK;
    char *window = malloc((size_t)step);
    (void)i, (void)threads;
    for (;;) {
        uint64_t at = atomic_fetch_add(&h->next, step), left = h->size - h->data;
        if (at >= left)
            break;
        do_chunk(h, at, (size_t)(left - at < step ? left - at : step), window);
    }
    free(window);
}

/* 0 on failure. */
static uint64_t load_by_hand(const char *path, enum hand_way way, void *dst) {
    struct stat st;
    uint64_t header, start = now_ns();
    hand_loop h = {.fd = open(path, O_RDONLY | O_CLOEXEC), .way = way, .dst = dst};
    bool maps = way != HAND_PREAD && way != HAND_WIDEN_PREAD;
    void *map = MAP_FAILED;
    if (h.fd < 0 || fstat(h.fd, &st) != 0 || pread(h.fd, &header, 8, 0) != 8)
        return 0;
    h.size = (uint64_t)st.st_size;
    h.data = 8 + header; /* little-endian hosts only, which is enough for a benchmark */
    if (maps) {
        map = mmap(NULL, (size_t)h.size, PROT_READ, MAP_SHARED, h.fd, 0);
        if (map == MAP_FAILED)
            return 0;
        h.map = map;
    }
    on_threads(THREADS, run_chunks, &h);
    if (maps)
        munmap(map, (size_t)h.size);
    close(h.fd);
    return h.failed ? 0 : now_ns() - start;
}

static uint64_t load_with_tenmap(const char *path, tenmap_dtype as, uint32_t flags, char *dst) {
    tenmap_model *model;
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    uint64_t start = now_ns();
    if (tenmap_open(path, NULL, &model, NULL) != TENMAP_OK)
        return 0;
    size_t count = tenmap_count(model);
    tenmap_request *requests = calloc(count, sizeof *requests);
    for (size_t i = 0; requests && i < count; i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        size_t size = (size_t)t->nelems * tenmap_dtype_bits(as) / 8;
        requests[i] = (tenmap_request){.tensor = t, .as = as, .dst = dst, .dst_bytes = size};
        dst += size;
    }
    options.threads = flags & TENMAP_LOAD_DIRECT ? 0 : THREADS;
    options.flags = flags;
    bool good = requests && tenmap_load(model, requests, count, &options, NULL) == TENMAP_OK;
    free(requests);
    tenmap_close(model);
    return good ? now_ns() - start : 0;
}

typedef struct load_line {
    const char *name;
    bool by_hand, cold, fresh; /* fresh: a destination that was never touched */
    int way;                   /* hand_way, or a dtype */
    uint32_t flags;
    samples times;
} load_line;

static load_line lines[] = {
    {"hand-bf16-memcpy", true, false, false, HAND_MEMCPY, 0, {0}},
    {"hand-bf16-stream", true, false, false, HAND_STREAM, 0, {0}},
    {"hand-bf16-pread", true, false, false, HAND_PREAD, 0, {0}},
    {"load-bf16", false, false, false, TENMAP_BF16, 0, {0}},
    {"load-bf16-read", false, false, false, TENMAP_BF16, TENMAP_LOAD_READ, {0}},
    {"hand-f32-map", true, false, false, HAND_WIDEN_MAP, 0, {0}},
    {"hand-f32-pread", true, false, false, HAND_WIDEN_PREAD, 0, {0}},
    {"load-f32", false, false, false, TENMAP_F32, 0, {0}},
    {"load-f32-read", false, false, false, TENMAP_F32, TENMAP_LOAD_READ, {0}},
    {"load-bf16-fresh", false, false, true, TENMAP_BF16, 0, {0}},
    {"load-f32-fresh", false, false, true, TENMAP_F32, 0, {0}},
    {"load-cold-bf16", false, true, false, TENMAP_BF16, 0, {0}},
    {"load-cold-bf16-read", false, true, false, TENMAP_BF16, TENMAP_LOAD_READ, {0}},
    {"load-cold-bf16-direct", false, true, false, TENMAP_BF16, TENMAP_LOAD_DIRECT, {0}},
};
enum { LINE_COUNT = sizeof lines / sizeof lines[0] };

static bool run_line(load_line *line, const char *path, char *dst, size_t room) {
    char *own = line->fresh ? tenmap_alloc(room) : NULL;
    if (line->fresh && !own)
        return false;
    if (line->cold && !weights_cool(path))
        return true; /* the page cache keeps it: no line */
    char *to = own ? own : dst;
    uint64_t ns = line->by_hand ? load_by_hand(path, (enum hand_way)line->way, to)
                                : load_with_tenmap(path, (tenmap_dtype)line->way, line->flags, to);
    tenmap_free(own);
    return ns && samples_add(&line->times, ns);
}

static int run_all(const char *path, int rounds) {
    struct stat st;
    if (stat(path, &st) != 0)
        return 1;
    size_t room = (size_t)st.st_size * 2;
    char *dst = tenmap_alloc(room);
    if (!dst)
        return 1;
    memset(dst, 1, room);
    for (int cold = 0; cold < 2; cold++)
        for (int round = 0; round < rounds; round++)
            for (size_t i = 0; i < LINE_COUNT; i++)
                if (lines[i].cold == cold && ((!cold && !round && !i && !weights_warm(path)) ||
                                              !run_line(&lines[i], path, dst, room))) {
                    fprintf(stderr, "bench_load: %s failed\n", lines[i].name);
                    return 1;
                }
    for (size_t i = 0; i < LINE_COUNT; i++)
        if (lines[i].times.count)
            printf("%s %llu\n", lines[i].name, (unsigned long long)samples_min(&lines[i].times));
    tenmap_free(dst);
    return 0;
}

int main(int argc, char **argv) {
    int number = argc >= 4 ? atoi(argv[3]) : 0;
    if (number > 0 && argc == 5 && strcmp(argv[1], "make") == 0)
        return !weights_write(argv[2], (size_t)number, argv[4]);
    if (number > 0 && argc == 4 && strcmp(argv[1], "run") == 0)
        return run_all(argv[2], number);
    fprintf(stderr, "usage: bench_load make FILE TENSORS DTYPE | run FILE ROUNDS\n");
    return 2;
}
