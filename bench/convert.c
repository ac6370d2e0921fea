/*
 * The speed of conversions compared with what the machine can do at best.
 *
 * For each pair and size of result it prints GB/s of traffic (source and result); that rate divided
 * by the rate of a memcpy of equal traffic, and by that of a copy with non-temporal stores; and the
 * rate of result bytes divided by that of non-temporal stores alone. Then GB/s into memory that was
 * never touched, and GB/s of two threads with their ratio to one. Everything is the best of many
 * runs, and the references are measured between the conversions, so that a noisy moment affects all
 * alike. A memcpy that is to show what the machine can do must exceed 192 MiB: below that, glibc
 * goes through the cache.
 *
 *     bench_convert [--tsv] [--quick] [--in-cache] [--small-pages] [PAIR...]    PAIR as in bf16-f32
 *
 * --in-cache leaves out results of over 1 MB, two threads, and untouched memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* MADV_HUGEPAGE, clock_gettime */
#endif
#include "timing.h"
#include "values/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const struct {
    tenmap_dtype from, to;
} pairs[] = {
    {TENMAP_BF16, TENMAP_F32},        {TENMAP_F16, TENMAP_F32},
    {TENMAP_F8_E4M3, TENMAP_F32},     {TENMAP_F8_E5M2, TENMAP_F32},
    {TENMAP_F64, TENMAP_F32},         {TENMAP_I8, TENMAP_F32},
    {TENMAP_U8, TENMAP_F32},          {TENMAP_F4, TENMAP_F32},
    {TENMAP_F32, TENMAP_BF16},        {TENMAP_F32, TENMAP_F16},
    {TENMAP_F32, TENMAP_F8_E4M3},     {TENMAP_F32, TENMAP_F8_E5M2},
    {TENMAP_BF16, TENMAP_F16},        {TENMAP_F16, TENMAP_BF16},
    {TENMAP_F8_E4M3, TENMAP_BF16},    {TENMAP_F8_E4M3, TENMAP_F16},
    {TENMAP_F4, TENMAP_BF16},         {TENMAP_F4, TENMAP_F16},
    {TENMAP_F64, TENMAP_BF16},        {TENMAP_I64, TENMAP_F16},
    {TENMAP_F8_E4M3FNUZ, TENMAP_F32}, {TENMAP_F32, TENMAP_F4},
    {TENMAP_BF16, TENMAP_F8_E4M3},    {TENMAP_BF16, TENMAP_F8_E5M2},
    {TENMAP_F16, TENMAP_F8_E4M3},     {TENMAP_F8_E5M2FNUZ, TENMAP_F32},
    {TENMAP_F32, TENMAP_F8_E4M3FNUZ}, {TENMAP_F32, TENMAP_F8_E5M2FNUZ},
    {TENMAP_F8_E5M2, TENMAP_BF16},    {TENMAP_BF16, TENMAP_BF16},
};
enum { PAIR_COUNT = sizeof pairs / sizeof pairs[0] };

static const uint64_t sizes[] = {64 << 10, 1 << 20, 16 << 20, 1 << 30};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };

static struct { bool tsv, quick, in_cache, small_pages; } option;

static unsigned char *arena_src, *arena_dst;
static uint64_t arena_src_bytes = (uint64_t)4 << 30, arena_dst_bytes = (uint64_t)1 << 30;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *map_memory(uint64_t bytes) {
    const uint64_t huge = 2 << 20;
    unsigned char *p = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    p += (size_t) - (uintptr_t)p & (huge - 1);
    madvise(p, bytes, option.small_pages || bytes < huge ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    return p;
}

/* Typical weights: normal numbers of either sign around 2^-6, and small integers. */
static void fill_source(tenmap_dtype dtype, uint64_t bytes) {
    enum { BLOCK = 1 << 20 };
    static float weights[BLOCK / 4];
    static unsigned char block[BLOCK];
    uint32_t r = 12345;
    size_t count = BLOCK * 8 / tmi_dtypes[dtype].bits;
    for (size_t i = 0; i < BLOCK / 4; i++) {
        r = r * 1664525 + 1013904223;
        weights[i] = ((float)(r >> 8) - 8388608.0f) * 0x1p-28f;
    }
    if (tmi_dtypes[dtype].kind == TENMAP_KIND_FLOAT) {
        for (size_t done = 0; done < count; done += BLOCK / 4) {
            size_t n = count - done < BLOCK / 4 ? count - done : BLOCK / 4;
            tenmap_convert(dtype, block + done * tmi_dtypes[dtype].bits / 8, BLOCK, TENMAP_F32,
                           weights, n, 0, NULL);
        }
    } else {
        memcpy(block, weights, BLOCK);
    }
    for (uint64_t at = 0; at < bytes; at += BLOCK)
        memcpy(arena_src + at, block, bytes - at < BLOCK ? bytes - at : BLOCK);
}

typedef struct run {
    tenmap_dtype from, to;
    uint64_t count, src_bytes, dst_bytes;
    unsigned char *dst;
    unsigned threads;
    uint64_t repeats; /* inside one timing, so that it takes some microseconds */
} run;

static void convert_part(void *ctx, size_t part) {
    const run *r = ctx;
    /* Each thread has one stream; a multiple of 64 elements keeps its ends on lines. */
    uint64_t each = (r->count / r->threads + 63) / 64 * 64, first = each * part;
    uint64_t count = first + each > r->count ? r->count - first : each;
    /* The size of the whole decides whether to stream, as for a caller with threads. */
    uint32_t flags = r->threads > 1 && r->dst_bytes >= 16 << 20 ? TENMAP_CONVERT_STREAM : 0;
    tenmap_convert(r->to, r->dst + first * tmi_dtypes[r->to].bits / 8, r->dst_bytes, r->from,
                   arena_src + first * tmi_dtypes[r->from].bits / 8, count, flags, NULL);
}

static void work_convert(const run *r) {
    if (r->threads > 1)
        tmi_parallel(r->threads, r->threads, convert_part, (void *)(uintptr_t)r);
    else
        tenmap_convert(r->to, r->dst, r->dst_bytes, r->from, arena_src, r->count, 0, NULL);
}

/*
 * Copies move half of the traffic. If the destination is shorter than that, they wrap around in it.
 * For sizes that fit into caches the wrap would help the copy, so there is none.
 */
static void copy_by(const run *r, void (*copy)(unsigned char *, const unsigned char *, size_t)) {
    uint64_t left = (r->src_bytes + r->dst_bytes) / 2, at = 0;
    while (left) {
        uint64_t n = left < arena_dst_bytes ? left : arena_dst_bytes;
        copy(arena_dst, arena_src + at, n);
        at += n;
        left -= n;
    }
}

static void plain_copy(unsigned char *d, const unsigned char *s, size_t n) {
    memcpy(d, s, n);
    __asm__ volatile("" : : "r"(d) : "memory");
}

static void around_copy(unsigned char *d, const unsigned char *s, size_t n) {
    tenmap_convert(TENMAP_U8, d, n, TENMAP_U8, s, n, TENMAP_CONVERT_STREAM, NULL);
}

static void work_memcpy(const run *r) {
    copy_by(r, plain_copy);
}
static void work_around(const run *r) {
    copy_by(r, around_copy);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void work_write(const run *r) {
    __m256i value = _mm256_set1_epi8(1);
    for (uint64_t i = 0; i < r->dst_bytes; i += 128)
        for (int k = 0; k < 4; k++)
            _mm256_stream_si256((__m256i *)(void *)(r->dst + i) + k, value);
    _mm_sfence();
}
#else
static void work_write(const run *r) {
    memset(r->dst, 1, r->dst_bytes);
}
#endif

static double time_of(const run *r, void (*work)(const run *)) {
    double start = now();
    for (uint64_t i = 0; i < r->repeats; i++)
        work(r);
    return (now() - start) / (double)r->repeats;
}

static void keep_least(double *best, double value) {
    if (*best == 0 || value < *best)
        *best = value;
}

static double time_fresh(run r) {
    r.dst = map_memory(r.dst_bytes);
    r.repeats = 1;
    double seconds = time_of(&r, work_convert);
    munmap(r.dst, r.dst_bytes); /* the slack around it stays mapped: it was never touched */
    return seconds;
}

typedef struct result {
    double one, two, copy, around, write, fresh;
} result;

static result measure(run r) {
    result best = {0, 0, 0, 0, 0, 0};
    bool large = r.dst_bytes >= 16 << 20;
    int rounds = r.dst_bytes >= 1 << 30 ? 9 : large ? 60 : 150;
    rounds = smoke_run() ? 3 : option.quick ? rounds / 3 : rounds;
    for (int i = 0; i < rounds; i++) {
        run two = r;
        two.threads = 2;
        keep_least(&best.copy, time_of(&r, work_memcpy));
        keep_least(&best.one, time_of(&r, work_convert));
        keep_least(&best.write, time_of(&r, work_write));
        if (large || i % 10 == 0)
            keep_least(&best.around, time_of(&r, work_around));
        keep_least(&best.one, time_of(&r, work_convert));
        if (!option.in_cache && (large || i % 10 == 0))
            keep_least(&best.two, time_of(&two, work_convert));
        if (!option.in_cache && i % (rounds / 3) == 0)
            keep_least(&best.fresh, time_fresh(r));
    }
    return best;
}

static const char *size_name(uint64_t bytes) {
    return bytes >= 1 << 30    ? "1 GiB"
           : bytes >= 16 << 20 ? "16 MB"
           : bytes >= 1 << 20  ? "1 MB"
                               : "64 KB";
}

static void print_row(const run *r, const char *pair, result best) {
    double traffic = (double)(r->src_bytes + r->dst_bytes) * 1e-9;
    const struct {
        const char *name;
        double seconds;
    } all[] = {{"tenmap", best.one},    {"memcpy", best.copy}, {"ntcopy", best.around},
               {"ntwrite", best.write}, {"fresh", best.fresh}, {"two", best.two}};
    if (option.tsv) {
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            printf("%s\t%s\t%llu\t%.9f\t%.9f\n", all[i].name, pair,
                   (unsigned long long)r->dst_bytes, all[i].seconds, traffic);
    } else {
        printf("%-16s %6s %7.1f %8.2f %8.2f %9.2f", pair, size_name(r->dst_bytes),
               traffic / best.one, best.copy / best.one, best.around / best.one,
               best.write / best.one);
        if (!option.in_cache)
            printf(" %7.1f %7.1f %5.2f", traffic / best.fresh, traffic / best.two,
                   best.one / best.two);
        printf("\n");
    }
    fflush(stdout);
}

static bool wanted(const char *pair, char **names, int count) {
    for (int i = 0; i < count; i++)
        if (strcasecmp(pair, names[i]) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv) {
    int names = 0;
    for (int i = 1; i < argc; i++) {
        option.tsv |= strcmp(argv[i], "--tsv") == 0;
        option.quick |= strcmp(argv[i], "--quick") == 0;
        option.in_cache |= strcmp(argv[i], "--in-cache") == 0;
        option.small_pages |= strcmp(argv[i], "--small-pages") == 0;
        if (argv[i][0] != '-')
            argv[names++] = argv[i];
    }
    if (smoke_run()) { /* the smallest size alone, from 8 bytes an element at most to half a byte */
        arena_dst_bytes = sizes[0];
        arena_src_bytes = sizes[0] * 16;
    }
    arena_src = map_memory(arena_src_bytes);
    arena_dst = map_memory(arena_dst_bytes);
    memset(arena_dst, 1, arena_dst_bytes);
    if (!option.tsv) {
        printf("kernels: %s\n", tenmap_cpu_path());
        printf("%-16s %6s %7s %8s %8s %9s", "pair", "result", "GB/s", "/memcpy", "/NTcopy",
               "/NTwrite");
        if (!option.in_cache)
            printf(" %7s %7s %5s", "fresh", "2 thr.", "/one");
        printf("\n");
    }
    for (size_t p = 0; p < PAIR_COUNT; p++) {
        char pair[64];
        snprintf(pair, sizeof pair, "%s-%s", tmi_dtypes[pairs[p].from].name,
                 tmi_dtypes[pairs[p].to].name);
        if (!wanted(pair, argv, names))
            continue;
        uint64_t filled = 0;
        for (size_t s = SIZE_COUNT; s-- > 0;) {
            run r = {pairs[p].from, pairs[p].to, 0, 0, sizes[s], arena_dst, 1, 0};
            r.count = sizes[s] * 8 / tmi_dtypes[r.to].bits;
            r.src_bytes = r.count * tmi_dtypes[r.from].bits / 8;
            r.repeats = sizes[s] <= 64 << 10 ? 16 : sizes[s] <= 1 << 20 ? 4 : 1;
            if (r.src_bytes > arena_src_bytes || r.dst_bytes > arena_dst_bytes ||
                (option.in_cache && r.dst_bytes > 1 << 20))
                continue;
            if (filled < r.src_bytes)
                fill_source(r.from, filled = r.src_bytes);
            print_row(&r, pair, measure(r));
        }
    }
    return 0;
}
