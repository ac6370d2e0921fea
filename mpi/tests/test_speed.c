/*
 * On a file system that delivers 200 MB/s to all ranks together, compares tenmap_mpi_load with each
 * rank reading everything by itself. Every rank wants the whole model and is a host of its own.
 *     mpirun -n N test_speed FOLDER [LEAST]
 * Fails if it is not LEAST times as fast. The source is a tenmap_io with a clock that all ranks
 * share.
 */
#define _POSIX_C_SOURCE 200809L
#include "tenmap_mpi.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TENSORS = 8, TENSOR_BYTES = 32 << 20, RATE = 200000000 };

static int rank, size;

/*
 * When the file system is free again, in nanoseconds, shared by all ranks; and what this rank has
 * read.
 */
typedef struct slow_disk {
    _Atomic uint64_t *free_at;
    _Atomic uint64_t bytes;
} slow_disk;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static tenmap_status slow_open(void *ctx, const char *path, void **file, uint64_t *bytes,
                               tenmap_error *error) {
    int fd = open(path, O_RDONLY);
    (void)ctx;
    (void)error;
    if (fd < 0)
        return TENMAP_ERR_NOT_FOUND;
    *bytes = (uint64_t)lseek(fd, 0, SEEK_END);
    *file = (void *)(intptr_t)fd;
    return TENMAP_OK;
}

/* A read takes its turn, and as long as its bytes take at that rate. */
static tenmap_status slow_read(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                               tenmap_error *error) {
    slow_disk *disk = ctx;
    uint64_t cost = bytes * (1000000000u / 1000) / (RATE / 1000), now = now_ns(), done;
    uint64_t old = atomic_load(disk->free_at);
    (void)error;
    do
        done = (old > now ? old : now) + cost;
    while (!atomic_compare_exchange_weak(disk->free_at, &old, done));
    atomic_fetch_add(&disk->bytes, bytes);
    for (size_t got = 0; got < bytes;) {
        ssize_t n =
            pread((int)(intptr_t)file, (char *)dst + got, bytes - got, (off_t)(offset + got));
        if (n <= 0)
            return TENMAP_ERR_IO;
        got += (size_t)n;
    }
    struct timespec until = {(time_t)(done / 1000000000u), (long)(done % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
    return TENMAP_OK;
}

static void slow_close(void *ctx, void *file) {
    (void)ctx;
    close((int)(intptr_t)file);
}

/* Random words; what they are matters only in comparing. */
static void write_model(const char *path) {
    static uint32_t words[1 << 18];
    char json[2048] = "{";
    size_t len = 1;
    uint32_t state = 1;
    for (int i = 0; i < TENSORS; i++)
        len += (size_t)snprintf(json + len, sizeof json - len,
                                "%s\"t%d\":{\"dtype\":\"BF16\",\"shape\":[%d,4096],"
                                "\"data_offsets\":[%lld,%lld]}",
                                i ? "," : "", i, TENSOR_BYTES / 8192, (long long)i * TENSOR_BYTES,
                                (long long)(i + 1) * TENSOR_BYTES);
    len += (size_t)snprintf(json + len, sizeof json - len, "}");
    FILE *f = fopen(path, "wb");
    if (!f)
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (int i = 0; i < 8; i++)
        fputc((int)(len >> (8 * i) & 255), f);
    fwrite(json, 1, len, f);
    for (size_t mib = 0; mib < (size_t)TENSORS * (TENSOR_BYTES >> 20); mib++) {
        for (size_t i = 0; i < 1 << 18; i++)
            words[i] = state = state * 1664525u + 1013904223u;
        fwrite(words, 1, sizeof words, f);
    }
    if (fclose(f) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static uint64_t sum_of(const tenmap_request *requests) {
    uint64_t sum = 0;
    for (int i = 0; i < TENSORS; i++) {
        const uint64_t *words = requests[i].dst;
        for (size_t k = 0; k < TENSOR_BYTES / 8; k++)
            sum = (sum ^ words[k]) * 0x100000001b3u;
    }
    return sum;
}

/* Seconds until the last rank has everything. */
static double timed(const tenmap_model *model, tenmap_request *requests, bool together) {
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    tenmap_error error = {0};
    options.ranks_per_host = 1;
    for (int i = 0; i < TENSORS; i++)
        memset(requests[i].dst, 0x5a, TENSOR_BYTES); /* so that no page is new */
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    tenmap_status status =
        together ? tenmap_mpi_load(MPI_COMM_WORLD, model, requests, TENSORS, &options, &error)
                 : tenmap_load(model, requests, TENSORS, NULL, &error);
    double took = MPI_Wtime() - began;
    if (status != TENMAP_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, error.message);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return took;
}

/* True if it is `least` times as fast, the result is right, and nothing was read twice. */
static bool compare(const tenmap_model *model, slow_disk *disk, double least) {
    tenmap_request requests[TENSORS];
    memset(requests, 0, sizeof requests);
    for (int i = 0; i < TENSORS; i++) {
        requests[i].tensor = tenmap_at(model, (size_t)i);
        requests[i].dst = malloc(TENSOR_BYTES);
        requests[i].dst_bytes = TENSOR_BYTES;
        if (!requests[i].dst)
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    double alone = timed(model, requests, false), together = 1e9;
    uint64_t expected = sum_of(requests);
    int same = 1;
    uint64_t before = disk->bytes, read = 0;
    for (int i = 0; i < 3; i++) {
        double took = timed(model, requests, true);
        together = took < together ? took : together;
        same = same && sum_of(requests) == expected;
    }
    read = (disk->bytes - before) / 3;
    MPI_Allreduce(MPI_IN_PLACE, &read, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    for (int i = 0; i < TENSORS; i++)
        free(requests[i].dst);
    if (rank == 0)
        printf(
            "%d hosts, %d MB at 200 MB/s in all: each by itself %.2f s, together %.2f s (best of "
            "3): %.2f times as fast; read %.4f of the model; %s\n",
            size, TENSORS * (TENSOR_BYTES >> 20), alone, together, alone / together,
            (double)read / TENSORS / TENSOR_BYTES, same ? "equal" : "NOT EQUAL");
    bool once = read <= (uint64_t)TENSORS * TENSOR_BYTES * 101 / 100;
    return same && once && alone / together >= least;
}

int main(int argc, char **argv) {
    int level;
    char path[4096], clock_path[4096];
    tenmap_model *model = NULL;
    tenmap_error error = {0};
    slow_disk disk = {NULL, 0};
    tenmap_io io = TENMAP_IO_INIT;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    if (argc < 2)
        return 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof path, "%s/speed.safetensors", argv[1]);
    snprintf(clock_path, sizeof clock_path, "%s/clock", argv[1]);
    if (rank == 0)
        write_model(path);
    int fd = open(clock_path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    void *clock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (clock == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 3);
    disk.free_at = clock;
    io.open = slow_open;
    io.read = slow_read;
    io.close = slow_close;
    io.ctx = &disk;
    options.io = &io;
    if (tenmap_mpi_open(MPI_COMM_WORLD, path, &options, &model, &error) != TENMAP_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    double least = argc > 2 ? strtod(argv[2], NULL) : 0;
    int good = compare(model, &disk, least);
    tenmap_close(model);
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return !good;
}
