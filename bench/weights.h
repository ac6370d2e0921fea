/*
 * A BF16 model with real bytes, brought into the page cache or removed from it, and threads to read
 * it.
 */
#ifndef BENCH_WEIGHTS_H
#define BENCH_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Square matrices, all of one size: "layers.0.weight" and so on. */
enum { WEIGHTS_WIDTH = 4096, WEIGHTS_TENSOR_BYTES = WEIGHTS_WIDTH * WEIGHTS_WIDTH * 2 };

/*
 * Writes a model of `tensors` matrices to a new file and syncs it. The bytes are BF16 whatever
 * dtype of 16 bits the header names. On failure prints why to stderr, removes the file and returns
 * false.
 */
bool weights_write(const char *path, size_t tensors, const char *dtype);

/* Reads the whole file, like cat, so that it is in the page cache. */
bool weights_warm(const char *path);
/*
 * Removes the file from the page cache and checks that it is gone. False if the system keeps it.
 * When it returns, free memory has just been in use.
 */
bool weights_cool(const char *path);

/* Calls work(ctx, i, threads) for each i below `threads`, at once, and waits for all. */
void on_threads(unsigned threads, void (*work)(void *ctx, unsigned i, unsigned threads), void *ctx);

#endif
