/* Random numbers, small random models, and an unreliable tenmap_io, for random_calls.c. */
#ifndef TENMAP_TESTS_RANDOM_MODELS_H
#define TENMAP_TESTS_RANDOM_MODELS_H

#include "tenmap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void draw_begin(uint64_t seed);
/*
 * A random number below `limit`; 0 if that is 0. For one thread; draw_shared is for callbacks on
 * any.
 */
uint64_t draw(uint64_t limit);
uint64_t draw_shared(uint64_t limit);
/* A number of any size: small, around a power of two, or near the largest. */
uint64_t draw_size(void);
void draw_fill(void *bytes, size_t size);

/* A file's bytes, which the caller frees. */
typedef struct made_file {
    unsigned char *bytes;
    size_t size;
} made_file;

/* Tensors "<prefix>t0", "<prefix>t1" and so on. With `harm` some bytes are changed afterwards. */
made_file make_safetensors(const char *prefix, bool harm);
/* Part `number` of `parts`; 0: a whole model. */
made_file make_gguf(unsigned number, unsigned parts);
/* Quantized weights, and a config.json that may describe them. */
made_file make_quantized(void);
made_file make_config(void);

/* Where all files are. */
extern char random_folder[4096];

/* What a callback does, on any thread: opens a model and closes it. */
void call_back(void);
/* A tenmap_io for the next call, reliable or not. The same struct each time. */
const tenmap_io *some_io(void);
/* Reads outside of objects, and objects that are still open: 0 when all models are closed. */
long random_io_found(void);

#endif
