/* Runs jobs on several threads. */
#include "parallel_for.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

typedef struct parallel_job {
    int (*job)(void *ctx, size_t i);
    void *ctx;
    size_t count;
    atomic_size_t next;
    atomic_int status;
} parallel_job;

unsigned default_threads(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (unsigned)n;
}

static void *worker(void *argument) {
    parallel_job *c = argument;
    while (atomic_load(&c->status) == 0) {
        size_t i = atomic_fetch_add(&c->next, 1);
        if (i >= c->count)
            break;
        int status = c->job(c->ctx, i), none = 0;
        if (status)
            atomic_compare_exchange_strong(&c->status, &none, status);
    }
    return NULL;
}

int parallel_for(unsigned threads, size_t count, int (*job)(void *ctx, size_t i), void *ctx) {
    parallel_job c = {.job = job, .ctx = ctx, .count = count};
    pthread_t helpers[MAX_THREADS];
    unsigned started = 0;
    if (!threads)
        threads = default_threads();
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    while (started + 1 < threads && started + 1 < count &&
           pthread_create(&helpers[started], NULL, worker, &c) == 0)
        started++;
    worker(&c);
    while (started)
        pthread_join(helpers[--started], NULL);
    return atomic_load(&c.status);
}
