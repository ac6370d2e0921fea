/* Times in nanoseconds, and their minimum and median. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "timing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t now_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t spent_ns(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

bool samples_add(samples *s, uint64_t ns) {
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 256;
        uint64_t *moved = realloc(s->ns, capacity * sizeof *moved);
        if (!moved)
            return false;
        s->ns = moved;
        s->capacity = capacity;
    }
    s->ns[s->count++] = ns;
    return true;
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void sort_samples(samples *s) {
    if (s->count)
        qsort(s->ns, s->count, sizeof *s->ns, by_size);
}

uint64_t samples_min(samples *s) {
    sort_samples(s);
    return s->count ? s->ns[0] : 0;
}

uint64_t samples_median(samples *s) {
    sort_samples(s);
    return s->count ? s->ns[s->count / 2] : 0;
}

void samples_free(samples *s) {
    free(s->ns);
    *s = (samples){.count = 0};
}

bool smoke_run(void) {
    const char *value = getenv("TENMAP_BENCH_SMOKE");
    return value && strcmp(value, "1") == 0;
}

uint64_t shuffle_next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}
