/* A model of every dtype for the tests of tenmap_mpi, and requests of all kinds. */
#ifndef TENMAP_MPI_TESTS_MODEL_H
#define TENMAP_MPI_TESTS_MODEL_H

#include "tenmap_mpi.h"

#include <stdbool.h>

/* A random number below `below`; the sequence is the same in each run and on each rank. */
uint32_t roll(uint32_t below);
void seed_rolls(uint64_t seed);

/*
 * Writes into the folder: model.safetensors; the same tensors as two shards and their index in
 * parts/; quantized weights in coded/; blocks.gguf; llama.safetensors, for the example.
 */
void write_models(const char *folder);

/* Which of them. */
enum { ONE_FILE, PARTS, CODED, BLOCKS, MODELS };
/* The path of a model; sets the options' flags that it is opened with. */
const char *model_path(const char *folder, uint32_t model, tenmap_options *options);

enum { MOST_REQUESTS = 320, MOST_DRAWN = 24, MOST_AXES = 9 };

/* Requests with their own destinations; `expected` holds what tenmap_load produces. */
typedef struct load_case {
    tenmap_request requests[MOST_REQUESTS];
    uint64_t begin[MOST_REQUESTS][MOST_AXES], end[MOST_REQUESTS][MOST_AXES];
    unsigned char *dst[MOST_REQUESTS], *expected[MOST_REQUESTS];
    size_t room[MOST_REQUESTS], count;
} load_case;

/* Draws random requests, and loads them by tenmap_load. */
void draw_case(load_case *c, const tenmap_model *model);
/* All tensors as they are stored, or those that can be as `as`. */
void whole_case(load_case *c, const tenmap_model *model, tenmap_dtype as);
/* Keeps only the requests for tensors that `keep` accepts. */
void keep_requests(load_case *c, bool (*keep)(const tenmap_tensor *));
/* The number of the first request that differs, or -1. */
long compare_case(const load_case *c);
void free_case(load_case *c);

/* The number of distinct bytes that all ranks together want. Collective. */
uint64_t bytes_wanted_once(MPI_Comm comm, const tenmap_model *model, const load_case *c);

#endif
