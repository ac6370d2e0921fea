/*
 * The tool compared with what the machine can do with as many bytes in the same run. Rounds
 * alternate, so that a slow moment affects all; the least time of each counts. Lines: name, bytes,
 * nanoseconds on the clock, nanoseconds of processor time, peak resident bytes.
 *     bench_tool TOOL MODEL FOLDER ROUNDS hash|convert|dequantize|diff
 * hash: two threads that read the mapped MODEL, fingerprints, SHA-256 on one thread. convert: cp of
 * MODEL, of F32, and its conversion to BF16, both into FOLDER, both synced. dequantize: the same
 * for a MODEL of FP8 with scales, which takes twice as many bytes then. diff: on one thread, of as
 * many F16 and F8 as MODEL has bytes, each converted from the same weights and from others near
 * them, in FOLDER.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "tenmap.h"
#include "timing.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct measured {
    const char *name;
    uint64_t bytes, wall, cpu, peak;
} measured;

enum { READ, PRINTS, SHA256, COPY, CONVERT, DIFF_F16, DIFF_F8, KINDS };
static measured results[KINDS];

static void check(bool good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void note(int kind, const char *name, uint64_t bytes, uint64_t wall, uint64_t cpu,
                 uint64_t peak) {
    measured *m = &results[kind];
    if (!m->name || wall < m->wall)
        m->wall = wall;
    if (!m->name || cpu < m->cpu)
        m->cpu = cpu;
    if (peak > m->peak)
        m->peak = peak;
    m->name = name;
    m->bytes = bytes;
}

static uint64_t cpu_ns(const struct rusage *used) {
    return ((uint64_t)used->ru_utime.tv_sec + (uint64_t)used->ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)used->ru_utime.tv_usec + (uint64_t)used->ru_stime.tv_usec) * 1000u;
}

/*
 * Runs a program to its end, discards its output, and syncs `made` unless it is NULL. An exit code
 * of 1 is accepted: the models that `diff` compares differ.
 */
static void run(int kind, const char *name, uint64_t bytes, char *const *arguments,
                const char *made) {
    posix_spawn_file_actions_t actions;
    struct rusage used;
    pid_t child;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    uint64_t start = now_ns();
    check(posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ) == 0,
          arguments[0]);
    check(wait4(child, &status, 0, &used) == child, "wait4");
    if (made) {
        int fd = open(made, O_RDONLY);
        check(fd >= 0 && fsync(fd) == 0, made);
        close(fd);
    }
    uint64_t wall = now_ns() - start;
    posix_spawn_file_actions_destroy(&actions);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != (kind == DIFF_F16 || kind == DIFF_F8)) {
        fprintf(stderr, "%s failed\n", arguments[0]);
        exit(1);
    }
    note(kind, name, bytes, wall, cpu_ns(&used), (uint64_t)used.ru_maxrss * 1024);
}

/*
 * The memory bandwidth of two threads: each byte once, alternating blocks of 16 MiB, as the tool
 * does.
 */
typedef struct reading {
    const uint64_t *words;
    size_t count, first;
    uint64_t sum;
} reading;

static void *read_half(void *argument) {
    enum { TURN = 16 << 20, THREADS = 2 };
    reading *r = argument;
    uint64_t sum[8] = {0};
    const size_t turn = TURN / sizeof *r->words;
    for (size_t at = r->first * turn; at + turn <= r->count; at += THREADS * turn)
        for (const uint64_t *p = r->words + at, *end = p + turn; p < end; p += 8)
            for (size_t k = 0; k < 8; k++)
                sum[k] += p[k];
    for (size_t k = 0; k < 8; k++)
        r->sum += sum[k];
    return NULL;
}

static volatile uint64_t sink; /* so that the reading is not optimized away */

static void read_memory(const void *mapped, size_t size) {
    pthread_t other;
    reading halves[2] = {{mapped, size / 8, 0, 0}, {mapped, size / 8, 1, 0}};
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns();
    check(pthread_create(&other, NULL, read_half, &halves[1]) == 0, "pthread_create");
    read_half(&halves[0]);
    pthread_join(other, NULL);
    uint64_t wall = now_ns() - start;
    getrusage(RUSAGE_SELF, &after);
    sink = halves[0].sum + halves[1].sum;
    note(READ, "read memory", size, wall, cpu_ns(&after) - cpu_ns(&before), 0);
}

static void bench_hash(char *tool, char *model, size_t size, unsigned rounds) {
    int fd = open(model, O_RDONLY);
    check(fd >= 0, model);
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    check(mapped != MAP_FAILED, "mmap");
    char *prints[] = {tool, "hash", "--model", "-j", "2", model, NULL};
    char *sha[] = {tool, "hash", "-j", "1", model, NULL};
    for (unsigned i = 0; i < rounds; i++) {
        read_memory(mapped, size);
        run(PRINTS, "fingerprints", size, prints, NULL);
        if (i < (rounds + 3) / 4)
            run(SHA256, "sha256", size, sha, NULL);
    }
    munmap(mapped, size);
    close(fd);
}

static void bench_convert(char *tool, char *model, const char *folder, size_t size, unsigned rounds,
                          bool dequantizes) {
    char copy[512], out[512];
    snprintf(copy, sizeof copy, "%s/copy", folder);
    snprintf(out, sizeof out, "%s/out.safetensors", folder);
    char *cp[] = {"cp", model, copy, NULL};
    char *convert[] = {tool, "convert", model, "--to", "bf16", "-o", out, NULL, NULL};
    if (dequantizes)
        convert[7] = "--dequantize";
    for (unsigned i = 0; i < rounds; i++) {
        run(COPY, "cp", 2 * size, cp, copy);
        unlink(copy);
        run(CONVERT, dequantizes ? "dequantize" : "convert",
            size + (dequantizes ? 2 * size : size / 2), convert, NULL);
        unlink(out);
    }
}

/* Weights with a spread of 1, in `b` slightly different, as one tensor of a dtype. */
static void write_weights(const char *path, tenmap_dtype dtype, size_t count, bool b) {
    enum { PART = 1 << 16 };
    static float weights[PART];
    static unsigned char stored[PART * 2];
    size_t width = tenmap_dtype_bits(dtype) / 8;
    char json[256];
    int len = snprintf(json, sizeof json,
                       "{\"w\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
                       tenmap_dtype_name(dtype), count, count * width);
    while (len % 8)
        json[len++] = ' ';
    uint64_t state = 1;
    FILE *f = fopen(path, "wb");
    check(f != NULL, path);
    for (unsigned i = 0; i < 8; i++)
        fputc(i < 2 ? len >> (8 * i) & 0xff : 0, f);
    fwrite(json, 1, (size_t)len, f);
    for (size_t at = 0; at < count; at += PART) {
        for (size_t i = 0; i < PART; i++) {
            float sum = (float)(shuffle_next(&state) & 0xffff);
            sum += (float)(shuffle_next(&state) & 0xffff) - 0xffff;
            float off = (float)(shuffle_next(&state) & 0xffff) * 0x1p-20f;
            weights[i] = sum * 0x1p-15f + (b ? off : 0);
        }
        check(tenmap_convert(dtype, stored, sizeof stored, TENMAP_F32, weights, PART, 0, NULL) == 0,
              "tenmap_convert");
        fwrite(stored, width, PART, f);
    }
    check(fclose(f) == 0, path);
}

static void bench_diff(char *tool, const char *folder, size_t size, unsigned rounds) {
    char paths[4][512];
    size_t count = size >> 16 << 16;
    for (unsigned i = 0; i < 4; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/diff-%u.safetensors", folder, i);
        write_weights(paths[i], i < 2 ? TENMAP_F16 : TENMAP_F8_E4M3, count, i % 2);
    }
    char *f16[] = {tool, "diff", "-j", "1", paths[0], paths[1], NULL};
    char *f8[] = {tool, "diff", "-j", "1", paths[2], paths[3], NULL};
    for (unsigned i = 0; i < rounds; i++) {
        run(DIFF_F16, "diff F16", count, f16, NULL);
        run(DIFF_F8, "diff F8", count, f8, NULL);
    }
    for (unsigned i = 0; i < 4; i++)
        unlink(paths[i]);
}

int main(int argc, char **argv) {
    struct stat s;
    if (argc != 6) {
        fprintf(stderr,
                "usage: bench_tool TOOL MODEL FOLDER ROUNDS hash|convert|dequantize|diff\n");
        return 2;
    }
    check(stat(argv[2], &s) == 0, argv[2]);
    unsigned rounds = (unsigned)atoi(argv[4]);
    if (strcmp(argv[5], "hash") == 0)
        bench_hash(argv[1], argv[2], (size_t)s.st_size, rounds);
    else if (strcmp(argv[5], "diff") == 0)
        bench_diff(argv[1], argv[3], (size_t)s.st_size, rounds);
    else
        bench_convert(argv[1], argv[2], argv[3], (size_t)s.st_size, rounds,
                      strcmp(argv[5], "dequantize") == 0);
    for (size_t i = 0; i < KINDS; i++)
        if (results[i].name)
            printf("%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", results[i].name,
                   results[i].bytes, results[i].wall, results[i].cpu, results[i].peak);
    return 0;
}
