/* A model of every dtype for the tests of tenmap_mpi, and requests of all kinds. */
#ifndef TENMAP_MPI_TESTS_MODEL_H
#define TENMAP_MPI_TESTS_MODEL_H

#include "tenmap_mpi.h"

#include <stdbool.h>

/* Random numbers that are the same in each run and on each rank. */
uint32_t roll(uint32_t below);
void seed_rolls(uint64_t seed);

/*
 * Writes into the folder: model.safetensors; the same tensors as two shards and their index in parts/;
 * quantized weights in coded/; blocks.gguf; llama.safetensors, for the example.
 */
void write_models(const char *folder);

/* Which of them. */
enum { ONE_FILE, PARTS, CODED, BLOCKS, MODELS };
/* Where it is; the options get the flags that it is opened with. */
const char *model_path(const char *folder, uint32_t model, tenmap_options *options);

enum { MOST_REQUESTS = 320, MOST_DRAWN = 24, MOST_AXES = 9 };

/* Requests with destinations of their own; what a plain load makes of them is in `expected`. */
typedef struct load_case {
    tenmap_request requests[MOST_REQUESTS];
    uint64_t begin[MOST_REQUESTS][MOST_AXES], end[MOST_REQUESTS][MOST_AXES];
    unsigned char *dst[MOST_REQUESTS], *expected[MOST_REQUESTS];
    size_t room[MOST_REQUESTS], count;
} load_case;

/* Draws them, and loads them the plain way. */
void draw_case(load_case *c, const tenmap_model *model);
/* All tensors as they are stored, or those that can be as `as`. */
void whole_case(load_case *c, const tenmap_model *model, tenmap_dtype as);
/* Of a whole case, only the requests for such tensors. */
void keep_requests(load_case *c, bool (*keep)(const tenmap_tensor *));
/* The number of the first request that differs, or -1. */
long compare_case(const load_case *c);
void free_case(load_case *c);

/* Of all bytes that the ranks want, each once; collective. */
uint64_t bytes_wanted_once(MPI_Comm comm, const tenmap_model *model, const load_case *c);

#endif
