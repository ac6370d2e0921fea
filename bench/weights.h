/* A BF16 model with real bytes, in and out of the page cache, and threads to read it on. */
#ifndef BENCH_WEIGHTS_H
#define BENCH_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Square matrices, all of one size: "layers.0.weight" and so on. */
enum { WEIGHTS_WIDTH = 4096, WEIGHTS_TENSOR_BYTES = WEIGHTS_WIDTH * WEIGHTS_WIDTH * 2 };

/*
 * Writes a model of `tensors` matrices to a new file and to the disk. The bytes are BF16 whatever
 * the header says of them (a dtype of 16 bits). On failure says why on stderr, removes the file and
 * returns false.
 */
bool weights_write(const char *path, size_t tensors, const char *dtype);

/* Reads the file from one end to the other, as cat would, so that the page cache has it. */
bool weights_warm(const char *path);
/*
 * Takes the file out of the page cache and asks how many of its bytes are still there. False if the
 * system keeps it. Free memory has been in use a moment ago when it returns.
 */
bool weights_cool(const char *path);

/* Calls work(ctx, i, threads) for each i below `threads`, at once, and waits for all. */
void on_threads(unsigned threads, void (*work)(void *ctx, unsigned i, unsigned threads), void *ctx);

#endif
