/*
 * Time to first token: from tenmap_open until every weight of a BF16 model has been used once, in a
 * product of each matrix with a vector, as the first token of a dense model needs.
 *
 *     bench_ttft MODEL ROUNDS
 *
 * MODEL is what `bench_load make` wrote. Warm, it is compared with the same products on memory that
 * is mapped already; cold, with the best direct read of the same file in the same run. Prints lines
 * of NAME NANOSECONDS, the least of all rounds; bench/ttft.sh makes the table.
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
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static float vector[WEIGHTS_WIDTH];
static volatile float sink; /* keeps the products from being optimized away */

static float dot_scalar(const uint16_t *row) {
    float sum = 0;
    for (size_t i = 0; i < WEIGHTS_WIDTH; i++) {
        uint32_t bits = (uint32_t)row[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        sum += value * vector[i];
    }
    return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static float dot_avx2(const uint16_t *row) {
    __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                      _mm256_setzero_ps()};
    float out[8], sum = 0;
    for (size_t i = 0; i < WEIGHTS_WIDTH; i += 32)
        for (size_t k = 0; k < 4; k++) {
            __m128i raw = _mm_loadu_si128((const __m128i *)(const void *)(row + i + k * 8));
            __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16);
            sums[k] = _mm256_fmadd_ps(_mm256_castsi256_ps(wide),
                                      _mm256_loadu_ps(vector + i + k * 8), sums[k]);
        }
    _mm256_storeu_ps(
        out, _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
    for (size_t k = 0; k < 8; k++)
        sum += out[k];
    return sum;
}
#elif defined(__aarch64__)
static float dot_neon(const uint16_t *row) {
    float32x4_t a = vdupq_n_f32(0), b = a;
    for (size_t i = 0; i < WEIGHTS_WIDTH; i += 8) {
        uint16x8_t raw = vld1q_u16(row + i);
        float32x4_t low = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(raw), 16));
        float32x4_t high = vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(raw), 16));
        a = vfmaq_f32(a, low, vld1q_f32(vector + i));
        b = vfmaq_f32(b, high, vld1q_f32(vector + i + 4));
    }
    return vaddvq_f32(vaddq_f32(a, b));
}
#endif

static float (*best_dot(void))(const uint16_t *) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return dot_avx2;
#elif defined(__aarch64__)
    return dot_neon;
#endif
    return dot_scalar;
}

/* The matrices of a model, one after the other; each thread takes its share of the rows of each. */
typedef struct products {
    const uint16_t **matrices;
    size_t count;
    float (*dot)(const uint16_t *);
    const tenmap_model *waits_for; /* each matrix is populated before use; NULL: only touched */
} products;

static void multiply(void *ctx, unsigned i, unsigned threads) {
    const products *p = ctx;
    size_t first = (size_t)WEIGHTS_WIDTH * i / threads;
    size_t last = (size_t)WEIGHTS_WIDTH * (i + 1) / threads;
    float sum = 0;
    for (size_t m = 0; m < p->count; m++) {
        if (p->waits_for)
            (void)tenmap_advise(p->waits_for, tenmap_at(p->waits_for, m), TENMAP_ADVISE_POPULATE,
                                NULL);
        for (size_t row = first; row < last; row++)
            sum += p->dot(p->matrices[m] + row * WEIGHTS_WIDTH);
    }
    sink = sum;
}

/* The matrices of an open model. The data of these models is aligned to 8 bytes. */
static bool take_matrices(const tenmap_model *model, products *p) {
    p->count = tenmap_count(model);
    p->matrices = calloc(p->count, sizeof *p->matrices);
    for (size_t i = 0; p->matrices && i < p->count; i++) {
        p->matrices[i] = tenmap_view(tenmap_at(model, i), TENMAP_BF16, NULL);
        if (!p->matrices[i])
            return false;
    }
    return p->matrices != NULL;
}

/* From opening until the last weight was used; 0 on failure. */
static uint64_t open_and_multiply(const char *path, unsigned threads, uint32_t advice) {
    tenmap_model *model;
    products p = {NULL, 0, best_dot(), NULL};
    uint64_t start = now_ns();
    if (tenmap_open(path, NULL, &model, NULL) != TENMAP_OK)
        return 0;
    bool good = take_matrices(model, &p);
    if (advice == TENMAP_ADVISE_PREFETCH)
        p.waits_for = model;
    if (advice)
        good = tenmap_advise(model, NULL, advice, NULL) == TENMAP_OK && good;
    if (good)
        on_threads(threads, multiply, &p);
    uint64_t end = now_ns();
    free(p.matrices);
    tenmap_close(model);
    return good ? end - start : 0;
}

/* The products alone, on a model that is mapped completely. */
static uint64_t multiply_mapped(const tenmap_model *model, unsigned threads) {
    products p = {NULL, 0, best_dot(), NULL};
    if (!take_matrices(model, &p))
        return 0;
    uint64_t start = now_ns();
    on_threads(threads, multiply, &p);
    uint64_t end = now_ns();
    free(p.matrices);
    return end - start;
}

/* Multiplies a matrix as soon as it is loaded, on the thread that loaded it. */
static void multiply_loaded(void *ctx, size_t request, tenmap_status status) {
    const products *p = ctx;
    products one = {p->matrices + request, 1, p->dot, NULL};
    if (status == TENMAP_OK)
        multiply(&one, 0, 1);
}

/*
 * Loads with reads that bypass the page cache into memory that was used before, like an engine's
 * own buffers, and multiplies each matrix when it is loaded. There are more threads than
 * processors, because most of them wait for the disk.
 */
static uint64_t load_and_multiply(const char *path, unsigned threads, char *memory) {
    tenmap_model *model;
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    uint64_t start = now_ns(), end = 0;
    if (tenmap_open(path, NULL, &model, NULL) != TENMAP_OK)
        return 0;
    size_t count = tenmap_count(model);
    tenmap_request *requests = calloc(count, sizeof *requests);
    products p = {calloc(count, sizeof *p.matrices), count, best_dot(), NULL};
    for (size_t i = 0; requests && p.matrices && i < count; i++) {
        requests[i].tensor = tenmap_at(model, i);
        requests[i].dst = memory + i * WEIGHTS_TENSOR_BYTES;
        requests[i].dst_bytes = WEIGHTS_TENSOR_BYTES;
        p.matrices[i] = requests[i].dst;
    }
    options.threads = threads;
    options.flags = TENMAP_LOAD_DIRECT;
    options.done = multiply_loaded;
    options.ctx = &p;
    if (requests && p.matrices && tenmap_load(model, requests, count, &options, NULL) == TENMAP_OK)
        end = now_ns();
    free(requests);
    free(p.matrices);
    tenmap_close(model);
    return end ? end - start : 0;
}

/* The same, with memory that was used once before. */
static uint64_t load_into_used_memory(const char *path, unsigned threads) {
    struct stat st;
    if (stat(path, &st) != 0)
        return 0;
    char *memory = tenmap_alloc((size_t)st.st_size);
    if (memory)
        memset(memory, 1, (size_t)st.st_size);
    uint64_t ns = memory ? load_and_multiply(path, threads, memory) : 0;
    tenmap_free(memory);
    return ns;
}

/* Reads that bypass the page cache, in blocks that the threads take in order, into huge pages. */
enum { READERS_AT_MOST = 4, DIRECT_BLOCK = 4 << 20 };

typedef struct direct_read {
    int fd;
    uint64_t size;
    char *buffers; /* one block each */
    atomic_uint_fast64_t next;
    atomic_bool failed;
} direct_read;

static void read_blocks(void *ctx, unsigned i, unsigned threads) {
    direct_read *d = ctx;
    (void)threads;
    for (;;) {
        uint64_t at = atomic_fetch_add(&d->next, DIRECT_BLOCK);
        if (at >= d->size)
            break;
        if (pread(d->fd, d->buffers + (size_t)i * DIRECT_BLOCK, DIRECT_BLOCK, (off_t)at) <= 0)
            d->failed = true;
    }
}

/* 0 if the file system does not support such reads. */
static uint64_t read_direct(const char *path, unsigned threads) {
    struct stat st;
    direct_read d = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT)};
    d.buffers = tenmap_alloc((size_t)READERS_AT_MOST * DIRECT_BLOCK);
    if (d.fd < 0 || fstat(d.fd, &st) != 0 || !d.buffers)
        return 0;
    memset(d.buffers, 1, (size_t)READERS_AT_MOST * DIRECT_BLOCK);
    d.size = (uint64_t)st.st_size;
    uint64_t start = now_ns();
    on_threads(threads, read_blocks, &d);
    uint64_t end = now_ns();
    close(d.fd);
    tenmap_free(d.buffers);
    return d.failed ? 0 : end - start;
}

enum { LINES_AT_MOST = 24 };
static struct {
    const char *name;
    samples times;
} lines[LINES_AT_MOST];

/* Records a time under a name; false if it is 0, which means failure. */
static bool note(const char *name, uint64_t ns) {
    size_t i = 0;
    while (i < LINES_AT_MOST && lines[i].name && strcmp(lines[i].name, name) != 0)
        i++;
    if (ns == 0 || i == LINES_AT_MOST) {
        fprintf(stderr, "bench_ttft: %s failed\n", name);
        return false;
    }
    lines[i].name = name;
    return samples_add(&lines[i].times, ns);
}

static bool warm_round(const char *path) {
    tenmap_model *model;
    if (tenmap_open(path, NULL, &model, NULL) != TENMAP_OK)
        return false;
    bool good = tenmap_advise(model, NULL, TENMAP_ADVISE_POPULATE, NULL) == TENMAP_OK;
    good = good && note("compute-1", multiply_mapped(model, 1));
    good = good && note("compute-2", multiply_mapped(model, 2));
    tenmap_close(model);
    good = good && note("touch-1", open_and_multiply(path, 1, 0));
    good = good && note("touch-2", open_and_multiply(path, 2, 0));
    good = good && note("populate-1", open_and_multiply(path, 1, TENMAP_ADVISE_POPULATE));
    good = good && note("populate-2", open_and_multiply(path, 2, TENMAP_ADVISE_POPULATE));
    good = good && note("prefetch-1", open_and_multiply(path, 1, TENMAP_ADVISE_PREFETCH));
    return good && note("prefetch-2", open_and_multiply(path, 2, TENMAP_ADVISE_PREFETCH));
}

/* The same products on the mapping and, with another handle, on detached memory, alternating. */
static bool detached_rounds(const char *path, int rounds) {
    tenmap_model *mapped = NULL, *own = NULL;
    bool good = tenmap_open(path, NULL, &mapped, NULL) == TENMAP_OK &&
                tenmap_open(path, NULL, &own, NULL) == TENMAP_OK &&
                tenmap_advise(mapped, NULL, TENMAP_ADVISE_POPULATE, NULL) == TENMAP_OK;
    uint64_t start = now_ns();
    if (good && tenmap_detach(own, NULL, NULL) != TENMAP_OK) {
        fprintf(stderr, "bench_ttft: no figures of detached memory: not here, or too little\n");
        rounds = 0;
    } else if (good) {
        good = note("detach", now_ns() - start);
    }
    for (int round = 0; good && round < rounds; round++)
        good = note("mapped-1", multiply_mapped(mapped, 1)) &&
               note("detached-1", multiply_mapped(own, 1)) &&
               note("mapped-2", multiply_mapped(mapped, 2)) &&
               note("detached-2", multiply_mapped(own, 2));
    tenmap_close(mapped);
    tenmap_close(own);
    return good;
}

/*
 * Times each way cold, in an order that changes with the round; the file leaves the page cache
 * before each.
 */
static bool cold_round(const char *path, size_t round) {
    static const struct {
        const char *name;
        unsigned threads;
        uint32_t advice;
        uint64_t (*read)(const char *path, unsigned threads); /* NULL: open, advise, multiply */
    } ways[] = {{"direct-1", 1, 0, read_direct},
                {"cold-prefetch-1", 1, TENMAP_ADVISE_PREFETCH, NULL},
                {"direct-2", 2, 0, read_direct},
                {"cold-prefetch-2", 2, TENMAP_ADVISE_PREFETCH, NULL},
                {"direct-4", READERS_AT_MOST, 0, read_direct},
                {"cold-load-2", 2, 0, load_into_used_memory},
                {"cold-load-4", READERS_AT_MOST, 0, load_into_used_memory},
                {"cold-touch-2", 2, 0, NULL}};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    bool good = true;
    for (size_t k = 0; good && k < WAYS; k++) {
        size_t i = (k + round) % WAYS;
        good = weights_warm(path) && weights_cool(path) &&
               note(ways[i].name, ways[i].read
                                      ? ways[i].read(path, ways[i].threads)
                                      : open_and_multiply(path, ways[i].threads, ways[i].advice));
    }
    return good;
}

int main(int argc, char **argv) {
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    if (rounds < 1) {
        fprintf(stderr, "usage: bench_ttft MODEL ROUNDS\n");
        return 2;
    }
    for (size_t i = 0; i < WEIGHTS_WIDTH; i++)
        vector[i] = (float)(i % 7) - 3;
    for (int round = 0; round < rounds; round++)
        if (!cold_round(argv[1], (size_t)round))
            fprintf(stderr, "bench_ttft: cold figures skipped: the page cache keeps the file, or "
                            "the file system has no direct reads\n");
    (void)weights_cool(argv[1]); /* so that the warm runs find the file as cat would leave it */
    if (!weights_warm(argv[1]))
        return 1;
    for (int round = 0; round < rounds; round++)
        if (!warm_round(argv[1]))
            return 1;
    if (!detached_rounds(argv[1], rounds))
        return 1;
    for (size_t i = 0; i < LINES_AT_MOST && lines[i].name; i++)
        printf("%s %llu\n", lines[i].name, (unsigned long long)samples_min(&lines[i].times));
    return 0;
}
