/* Times in nanoseconds, and their minimum and median. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A monotonic clock. */
uint64_t now_ns(void);
/* The processor time of this thread, which other programs do not affect. */
uint64_t spent_ns(void);

/* A growing list of times; starts zeroed. */
typedef struct samples {
    uint64_t *ns;
    size_t count, capacity;
} samples;

/* False if memory runs out. */
bool samples_add(samples *s, uint64_t ns);
/* Both sort the list; 0 if it is empty. */
uint64_t samples_min(samples *s);
uint64_t samples_median(samples *s);
void samples_free(samples *s);

/*
 * Whether TENMAP_BENCH_SMOKE is 1. Sizes are then minimal, because the run only shows that the
 * benchmark works. bench/smoke.sh sets it.
 */
bool smoke_run(void);

/* The next number of a fixed sequence. All peers shuffle with it, so all use the same order. */
uint64_t shuffle_next(uint64_t *state);

#endif
