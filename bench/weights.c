/* A BF16 model with real bytes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "weights.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenmap.h>
#include <unistd.h>

/* The JSON after its length field, padded with spaces to a multiple of 8. */
static bool write_header(FILE *out, size_t tensors, const char *dtype) {
    unsigned char length[8];
    if (fseeko(out, 8, SEEK_SET) != 0)
        return false;
    for (size_t i = 0; i < tensors; i++)
        fprintf(out,
                "%s\"layers.%zu.weight\":{\"dtype\":\"%s\",\"shape\":[%d,%d],"
                "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                i ? "," : "{", i, dtype, WEIGHTS_WIDTH, WEIGHTS_WIDTH,
                (uint64_t)i * WEIGHTS_TENSOR_BYTES, (uint64_t)(i + 1) * WEIGHTS_TENSOR_BYTES);
    fputc('}', out);
    while (ftello(out) % 8 != 0)
        if (fputc(' ', out) == EOF)
            return false;
    uint64_t bytes = (uint64_t)ftello(out) - 8;
    for (unsigned i = 0; i < 8; i++)
        length[i] = (unsigned char)(bytes >> 8 * i);
    return fseeko(out, 0, SEEK_SET) == 0 && fwrite(length, 1, 8, out) == 8 &&
           fseeko(out, 0, SEEK_END) == 0;
}

/* Values near zero, like weights: a sign, an exponent from a small range, any fraction. */
static bool write_tensors(FILE *out, size_t tensors) {
    uint16_t *values = malloc(WEIGHTS_TENSOR_BYTES);
    uint32_t state = 12345;
    bool good = values != NULL;
    for (size_t i = 0; good && i < WEIGHTS_TENSOR_BYTES / 2; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (uint16_t)((state >> 16 & 0x8000u) | (0x7au + (state >> 8 & 3u)) << 7 |
                               (state >> 10 & 0x7fu));
    }
    for (size_t i = 0; good && i < tensors; i++) {
        values[0] = (uint16_t)(0x3c00 + i % 64); /* no two tensors are equal */
        good = fwrite(values, 1, WEIGHTS_TENSOR_BYTES, out) == WEIGHTS_TENSOR_BYTES;
    }
    free(values);
    return good;
}

bool weights_write(const char *path, size_t tensors, const char *dtype) {
    FILE *out = fopen(path, "wb");
    bool good = out && write_header(out, tensors, dtype) && write_tensors(out, tensors) &&
                fflush(out) == 0 && fsync(fileno(out)) == 0;
    if (!good)
        perror(path);
    if (out && fclose(out) != 0 && good) {
        perror(path);
        good = false;
    }
    if (out && !good)
        unlink(path);
    return good;
}

bool weights_warm(const char *path) {
    enum { PIECE = 1 << 20 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *piece = malloc(PIECE);
    ssize_t got = fd >= 0 && piece ? 1 : -1;
    while (got > 0)
        got = read(fd, piece, PIECE);
    free(piece);
    if (fd >= 0)
        close(fd);
    return got == 0;
}

/* How many pages of the file are in the page cache. */
static size_t pages_cached(int fd, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page, count = 0;
    unsigned char *there = malloc(pages);
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || !there || mincore(map, size, there) != 0)
        count = pages;
    else
        for (size_t i = 0; i < pages; i++)
            count += there[i] & 1;
    if (map != MAP_FAILED)
        munmap(map, size);
    free(there);
    return count;
}

/*
 * A virtual machine may give free memory back to its host, page by page, and then pay for each page
 * that is used again: that made filling the page cache 5 to 15 times slower. Memory that was in use
 * a moment ago is backed, so the figures show the disk and not the host's memory.
 */
static void use_memory(size_t bytes) {
    char *memory = tenmap_alloc(bytes);
    for (size_t i = 0; memory && i < bytes; i += 4096)
        ((volatile char *)memory)[i] = 1;
    tenmap_free(memory);
}

bool weights_cool(const char *path) {
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t left = 1;
    for (int tries = 0; fd >= 0 && fstat(fd, &st) == 0 && left && tries < 10; tries++) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        left = pages_cached(fd, (size_t)st.st_size);
    }
    if (fd >= 0) {
        use_memory((size_t)st.st_size + ((size_t)256 << 20));
        close(fd);
    }
    return fd >= 0 && left == 0;
}

typedef struct thread_share {
    void (*work)(void *ctx, unsigned i, unsigned threads);
    void *ctx;
    unsigned i, threads;
} thread_share;

static void *run_share(void *arg) {
    const thread_share *share = arg;
    share->work(share->ctx, share->i, share->threads);
    return NULL;
}

void on_threads(unsigned threads, void (*work)(void *ctx, unsigned i, unsigned threads),
                void *ctx) {
    enum { MOST = 64 };
    pthread_t started[MOST];
    thread_share shares[MOST] = {{work, ctx, 0, 1}};
    unsigned count = threads < MOST ? threads : MOST, running = 1;
    for (unsigned i = 0; i < count; i++)
        shares[i] = (thread_share){work, ctx, i, count};
    for (; running < count; running++)
        if (pthread_create(&started[running], NULL, run_share, &shares[running]) != 0)
            break;
    run_share(&shares[0]);
    for (unsigned i = running; i < count; i++)
        run_share(&shares[i]);
    for (unsigned i = 1; i < running; i++)
        pthread_join(started[i], NULL);
}
