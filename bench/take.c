/*
 * tenmap_take compared with what it replaces: with opening alone if all weights are views, and with
 * tenmap_load by hand if they are converted. The model has the header of a Llama-3-8B, 291 weights
 * in BF16, in a sparse file. Its first layers are converted, as many as fit into BYTES of F32.
 *
 *     bench_take [ROUNDS [BYTES]]
 *
 * Makes the file, measures the ways alternately, removes the file and prints one table: the least
 * of all rounds.
 */
#include "model_files.h"
#include "temp_folder.h"
#include "timing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenmap.h>

typedef struct bench {
    const char *path;
    tenmap_model *model; /* stays open for its names */
    tenmap_want wants[MODEL_LLAMA3_8B_TENSORS];
    size_t count;
    double bytes; /* of all of them as F32 */
} bench;

static void must(tenmap_status status, const tenmap_error *error) {
    if (status == TENMAP_OK)
        return;
    fprintf(stderr, "bench_take: %s\n", error->message);
    exit(1);
}

/*
 * Wants all weights as they are stored; or as F32, starting with the first, those that fit into
 * `most` bytes.
 */
static void want(bench *b, tenmap_dtype as, size_t most) {
    uint64_t bytes = 0;
    memset(b->wants, 0, sizeof b->wants);
    b->count = 0;
    for (size_t i = 0; i < MODEL_LLAMA3_8B_TENSORS; i++) {
        const tenmap_tensor *t = tenmap_at(b->model, i);
        uint64_t size = t->nelems * sizeof(float);
        tenmap_want w = {.name = t->name, .as = as, .rank = t->rank, .shape = t->shape};
        if (as == TENMAP_F32 && bytes + size > most)
            continue;
        bytes += size;
        b->wants[b->count++] = w;
    }
    b->bytes = (double)bytes;
}

/* Engines have their own order, which is rarely the file's. */
static void shuffle(bench *b) {
    uint64_t state = 1;
    for (size_t i = b->count; i > 1; i--) {
        size_t k = (size_t)(shuffle_next(&state) % i);
        tenmap_want kept = b->wants[i - 1];
        b->wants[i - 1] = b->wants[k];
        b->wants[k] = kept;
    }
}

static uint64_t time_open(bench *b, int take) {
    tenmap_error error;
    tenmap_model *model;
    tenmap_arena *arena = NULL;
    uint64_t begin = now_ns();
    must(tenmap_open(b->path, NULL, &model, &error), &error);
    if (take)
        must(tenmap_take(model, b->wants, b->count, NULL, &arena, &error), &error);
    uint64_t end = now_ns();
    if (arena)
        fprintf(stderr, "bench_take: not all are views\n");
    tenmap_arena_free(arena);
    tenmap_close(model);
    return end - begin;
}

static uint64_t time_take(bench *b) {
    tenmap_error error;
    tenmap_arena *arena;
    uint64_t begin = now_ns();
    must(tenmap_take(b->model, b->wants, b->count, NULL, &arena, &error), &error);
    uint64_t end = now_ns();
    tenmap_arena_free(arena);
    return end - begin;
}

/* What one would write by hand: sizes, one allocation, requests, one load. */
static uint64_t time_by_hand(bench *b) {
    tenmap_error error;
    static tenmap_request requests[MODEL_LLAMA3_8B_TENSORS];
    uint64_t begin = now_ns(), bytes = 0;
    for (size_t i = 0; i < b->count; i++)
        bytes += (tenmap_find(b->model, b->wants[i].name)->nelems * sizeof(float) + 63) / 64 * 64;
    char *memory = tenmap_alloc((size_t)bytes), *at = memory;
    if (!memory) {
        fprintf(stderr, "bench_take: out of memory\n");
        exit(1);
    }
    for (size_t i = 0; i < b->count; i++) {
        const tenmap_tensor *t = tenmap_find(b->model, b->wants[i].name);
        size_t size = (size_t)t->nelems * sizeof(float);
        requests[i] = (tenmap_request){.tensor = t, .as = TENMAP_F32, .dst = at, .dst_bytes = size};
        at += (size + 63) / 64 * 64;
    }
    must(tenmap_load(b->model, requests, b->count, NULL, &error), &error);
    uint64_t end = now_ns();
    tenmap_free(memory);
    return end - begin;
}

static void run(bench *b, size_t rounds, size_t most) {
    enum { OPENS = 200 };
    samples open = {0}, views = {0}, shuffled = {0}, hand = {0}, take = {0};
    for (size_t r = 0; r < rounds; r++) {
        want(b, TENMAP_BF16, most);
        for (size_t i = 0; i < OPENS; i++) {
            samples_add(&open, time_open(b, 0));
            samples_add(&views, time_open(b, 1));
        }
        shuffle(b);
        for (size_t i = 0; i < OPENS; i++)
            samples_add(&shuffled, time_open(b, 1));
        want(b, TENMAP_F32, most);
        samples_add(r % 2 ? &hand : &take, r % 2 ? time_by_hand(b) : time_take(b));
        samples_add(r % 2 ? &take : &hand, r % 2 ? time_take(b) : time_by_hand(b));
    }
    double o = (double)samples_min(&open), v = (double)samples_min(&views);
    double h = (double)samples_min(&hand), t = (double)samples_min(&take);
    double om = (double)samples_median(&open), vm = (double)samples_median(&views);
    double s = (double)samples_min(&shuffled), sm = (double)samples_median(&shuffled);
    printf("| Llama-3-8B layout | least | median |\n|---|---|---|\n");
    printf("| open | %.1f us | %.1f us |\n", o / 1e3, om / 1e3);
    printf("| open and take 291 views | %.1f us (%.2fx) | %.1f us (%.2fx) |\n", v / 1e3, v / o,
           vm / 1e3, vm / om);
    printf("| the same in a shuffled order | %.1f us (%.2fx) | %.1f us (%.2fx) |\n", s / 1e3, s / o,
           sm / 1e3, sm / om);
    printf("| tenmap_load by hand, %zu weights to %.2f GB of F32 | %.2f GB/s | |\n", b->count,
           b->bytes / 1e9, b->bytes / h);
    printf("| tenmap_take of the same | %.2f GB/s (%.2f) | |\n", b->bytes / t, h / t);
    samples_free(&open);
    samples_free(&views);
    samples_free(&shuffled);
    samples_free(&hand);
    samples_free(&take);
}

int main(int argc, char **argv) {
    static bench b;
    size_t rounds = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 7;
    size_t most = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) : (size_t)1500 * 1000 * 1000;
    uint64_t header;
    tenmap_error error;
    if (!temp_folder_make())
        return 1;
    b.path = temp_folder_file("llama.safetensors");
    if (!b.path || !model_file_write(b.path, MODEL_LLAMA3_8B, MODEL_LLAMA3_8B_TENSORS, &header))
        return 1;
    must(tenmap_open(b.path, NULL, &b.model, &error), &error);
    run(&b, rounds ? rounds : 1, most);
    tenmap_close(b.model);
    return 0;
}
