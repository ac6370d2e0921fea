/*
 * How fast tensors are measured, beside the fastest that their bytes can be read: the sum of 64-bit
 * words over the same mapping, in the same run. Warm, best of several rounds, on one and on two
 * threads. The ratio of the times that the processors spent is the one to trust on a busy machine.
 *
 *     bench_measure [MiB] [rounds]
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include "temp_folder.h"
#include "tenmap.h"
#include "timing.h"
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const dtypes[] = {"BF16", "F16", "F32", "F8_E4M3"};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0], BINS = 64 };

/* The same bytes as one tensor of each dtype: the header is all that differs. */
static bool write_model(const char *path, const char *dtype, size_t bytes) {
    char json[256];
    size_t width = (size_t)atoi(dtype[0] == 'B' ? dtype + 2 : dtype + 1) / 8;
    int len = snprintf(json, sizeof json,
                       "{\"w\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", dtype,
                       bytes / width, bytes);
    while (len % 8)
        json[len++] = ' ';
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    for (int i = 0; i < 8; i++)
        fputc((len >> (8 * i % 32)) & (i < 4 ? 0xff : 0), f);
    fwrite(json, 1, (size_t)len, f);
    uint64_t state = 1;
    uint16_t block[4096];
    for (size_t at = 0; at < bytes; at += sizeof block) {
        for (size_t i = 0; i < sizeof block / 2; i++) { /* about 1 to 2 in magnitude, as 16 bits */
            uint64_t r = shuffle_next(&state);
            block[i] = (uint16_t)(0x3c00 | (r & 0x83ff));
        }
        fwrite(block, 1, sizeof block, f);
    }
    return fclose(f) == 0;
}

typedef struct reading {
    const uint64_t *words;
    size_t count;
    uint64_t sums[64];
} reading;

static void sum_words(void *ctx, unsigned i, unsigned threads) {
    reading *r = ctx;
    size_t part = r->count / threads / 8 * 8;
    const uint64_t *w = r->words + i * part;
    uint64_t s[8] = {0};
    for (size_t k = 0; k < part; k += 8)
        for (size_t j = 0; j < 8; j++)
            s[j] += w[k + j];
    r->sums[i] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

/* The best of several rounds, in ns: on the clock, and of all processors together. */
typedef struct best_time {
    uint64_t wall, cpu, wall_start, cpu_start;
} best_time;

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void round_begin(best_time *best) {
    best->cpu_start = cpu_ns();
    best->wall_start = now_ns();
}

static void round_end(best_time *best) {
    uint64_t wall = now_ns() - best->wall_start, cpu = cpu_ns() - best->cpu_start;
    best->wall = best->wall == 0 || wall < best->wall ? wall : best->wall;
    best->cpu = best->cpu == 0 || cpu < best->cpu ? cpu : best->cpu;
}

static best_time time_reading(const tenmap_tensor *t, unsigned threads, unsigned rounds) {
    reading r = {(const uint64_t *)t->data, (size_t)t->nbytes / 8, {0}};
    best_time best = {0, 0, 0, 0};
    for (unsigned i = 0; i < rounds; i++) {
        round_begin(&best);
        on_threads(threads, sum_words, &r);
        round_end(&best);
    }
    return best;
}

static best_time time_measuring(const tenmap_tensor *t, unsigned threads, unsigned rounds,
                                bool bins) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    static uint64_t histogram[BINS];
    best_time best = {0, 0, 0, 0};
    tenmap_stats stats;
    tenmap_error error;
    options.threads = threads;
    if (bins) {
        options.bins = BINS;
        options.low = -2;
        options.high = 2;
        options.histogram = histogram;
    }
    for (unsigned i = 0; i < rounds; i++) {
        round_begin(&best);
        if (tenmap_measure(&t, 1, &options, &stats, &error) != TENMAP_OK) {
            fprintf(stderr, "%s\n", error.message);
            exit(1);
        }
        round_end(&best);
    }
    return best;
}

static void print_line(const char *dtype, unsigned threads, const tenmap_tensor *t,
                       unsigned rounds) {
    best_time read = time_reading(t, threads, rounds);
    best_time measured = time_measuring(t, threads, rounds, false);
    best_time binned = time_measuring(t, threads, rounds, true);
    double bytes = (double)t->nbytes;
    printf("%-8s %7u %8.2f %9.2f %6.2f %6.2f %10.2f %6.2f\n", dtype, threads,
           bytes / (double)read.wall, bytes / (double)measured.wall,
           (double)read.wall / (double)measured.wall, (double)read.cpu / (double)measured.cpu,
           bytes / (double)binned.wall, (double)read.cpu / (double)binned.cpu);
}

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? (size_t)atoi(argv[1]) : 256) << 20;
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 7;
    if (!temp_folder_make())
        return 1;
    printf("GB/s on %s, best of %u; ratios to reading the same bytes: time, and CPU time\n",
           tenmap_cpu_path(), rounds);
    printf("%-8s %7s %8s %9s %6s %6s %10s %6s\n", "dtype", "threads", "read", "measure", "ratio",
           "cpu", "histogram", "cpu");
    for (size_t d = 0; d < DTYPES; d++) {
        tenmap_model *model;
        tenmap_error error;
        const char *path = temp_folder_file(dtypes[d]);
        if (!path || !write_model(path, dtypes[d], bytes) ||
            tenmap_open(path, NULL, &model, &error) != TENMAP_OK) {
            fprintf(stderr, "a model of %s cannot be made\n", dtypes[d]);
            return 1;
        }
        tenmap_advise(model, NULL, TENMAP_ADVISE_POPULATE, NULL);
        const tenmap_tensor *t = tenmap_at(model, 0);
        for (unsigned threads = 1; threads <= 2; threads++)
            print_line(dtypes[d], threads, t, rounds);
        tenmap_close(model);
        remove(path);
    }
    return 0;
}
