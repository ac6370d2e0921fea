/* Runs a job for items 0..count-1 on several threads; each item is taken once, in order. */
#ifndef TOOL_PARALLEL_FOR_H
#define TOOL_PARALLEL_FOR_H

#include <stddef.h>

/* The number of processors, at most 64. */
unsigned default_threads(void);

/*
 * Calls job(ctx, i) for every item on up to `threads` threads (0: default_threads()), including the
 * caller's. After the first job that returns nonzero no further job starts, and that value is
 * returned.
 */
int parallel_for(unsigned threads, size_t count, int (*job)(void *ctx, size_t i), void *ctx);

#endif
