/*
 * The speed of tenmap_measure compared with the fastest way to read the same bytes: the sum of
 * 64-bit words over the same mapping, in the same run. Warm, best of several rounds, on one and on
 * two threads. On a busy machine, trust the processor times; on a very busy one, use so few MiB
 * that a round ends before another program gets the processor.
 *
 * The cost of histograms depends on the values. So there are rows with random bits (16-bit dtypes:
 * from 1 to 2 in magnitude), and rows with weights like those of models, with a spread of 0.02 (F8:
 * 100).
 *
 *     bench_measure [MiB] [rounds] [threads]
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

typedef struct row {
    tenmap_dtype dtype;
    float spread; /* of weights; 0: random bits */
    double range; /* of the histogram, to both sides */
} row;

static const row rows[] = {{TENMAP_BF16, 0, 2},       {TENMAP_F16, 0, 2},
                           {TENMAP_F32, 0, 2},        {TENMAP_F8_E4M3, 0, 2},
                           {TENMAP_F8_E5M2, 0, 2},    {TENMAP_I8, 0, 128},
                           {TENMAP_BF16, 0.02f, 0.1}, {TENMAP_F16, 0.02f, 0.1},
                           {TENMAP_F32, 0.02f, 0.1},  {TENMAP_F8_E4M3, 100, 448}};
enum { ROWS = sizeof rows / sizeof rows[0], BINS = 64, BLOCK = 4096 };

/* Fills a block with the same bytes for every dtype, or with weights. */
static void fill_block(const row *r, unsigned char *block, size_t bytes, uint64_t *state) {
    for (size_t i = 0; r->spread == 0 && i < bytes; i += 2) {
        uint16_t bits = (uint16_t)(0x3c00 | (shuffle_next(state) & 0x83ff));
        memcpy(block + i, &bits, sizeof bits);
    }
    float weights[BLOCK];
    size_t count = bytes * 8 / tenmap_dtype_bits(r->dtype);
    if (r->spread == 0)
        return;
    for (size_t i = 0; i < count; i++) { /* the sum of four numbers is nearly normal */
        int32_t sum = 0;
        for (unsigned k = 0; k < 4; k++)
            sum += (int32_t)(shuffle_next(state) & 0xffff) - 0x8000;
        weights[i] = r->spread * (float)sum / 37837;
    }
    tenmap_convert(r->dtype, block, bytes, TENMAP_F32, weights, count, 0, NULL);
}

static bool write_model(const char *path, const row *r, size_t bytes) {
    char json[256];
    const char *dtype = tenmap_dtype_name(r->dtype);
    size_t width = tenmap_dtype_bits(r->dtype) / 8;
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
    unsigned char block[BLOCK];
    for (size_t at = 0; at < bytes; at += sizeof block) {
        fill_block(r, block, sizeof block, &state);
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

/* With a histogram of that range to both sides; 0: without one. */
static best_time time_measuring(const tenmap_tensor *t, unsigned threads, unsigned rounds,
                                double range) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    static uint64_t histogram[BINS];
    best_time best = {0, 0, 0, 0};
    tenmap_stats stats;
    tenmap_error error;
    options.threads = threads;
    if (range > 0) {
        options.bins = BINS;
        options.low = -range;
        options.high = range;
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

static void print_line(const row *r, unsigned threads, const tenmap_tensor *t, unsigned rounds) {
    best_time read = time_reading(t, threads, rounds);
    best_time measured = time_measuring(t, threads, rounds, 0);
    best_time binned = time_measuring(t, threads, rounds, r->range);
    double bytes = (double)t->nbytes;
    printf("%-8s %-7s %7u %6.2f %8.2f %6.2f %6.2f %6.2f %9.2f %6.2f %6.2f\n",
           tenmap_dtype_name(r->dtype), r->spread > 0 ? "weights" : "bits", threads,
           bytes / (double)read.wall, bytes / (double)measured.wall, bytes / (double)measured.cpu,
           (double)read.wall / (double)measured.wall, (double)read.cpu / (double)measured.cpu,
           bytes / (double)binned.wall, bytes / (double)binned.cpu,
           (double)read.cpu / (double)binned.cpu);
}

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? (size_t)atoi(argv[1]) : 256) << 20;
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 7;
    unsigned most = argc > 3 ? (unsigned)atoi(argv[3]) : 2;
    if (!temp_folder_make())
        return 1;
    printf("GB/s on %s, best of %u: by the clock, and per second of processor time; ratios to "
           "reading\n"
           "the same bytes: by the clock, and by processor time; then the same with %d bins\n",
           tenmap_cpu_path(), rounds, (int)BINS);
    printf("%-8s %-7s %7s %6s %8s %6s %6s %6s %9s %6s %6s\n", "dtype", "values", "threads", "read",
           "measure", "cpu", "ratio", "cpu", "histogram", "cpu", "ratio");
    for (size_t k = 0; k < ROWS; k++) {
        tenmap_model *model;
        tenmap_error error;
        const char *path = temp_folder_file(tenmap_dtype_name(rows[k].dtype));
        if (!path || !write_model(path, &rows[k], bytes) ||
            tenmap_open(path, NULL, &model, &error) != TENMAP_OK) {
            fprintf(stderr, "a model of %s cannot be made\n", tenmap_dtype_name(rows[k].dtype));
            return 1;
        }
        tenmap_advise(model, NULL, TENMAP_ADVISE_POPULATE, NULL);
        const tenmap_tensor *t = tenmap_at(model, 0);
        for (unsigned threads = 1; threads <= most; threads++)
            print_line(&rows[k], threads, t, rounds);
        tenmap_close(model);
        remove(path);
    }
    return 0;
}
