/* Independent jobs on a few threads that are gone when the call returns. */
#include "internal.h"

#include <stdatomic.h>

enum { MOST_THREADS = 64, MOST_BY_DEFAULT = 8 };

typedef struct each_work {
    void (*job)(void *ctx, size_t i);
    void *ctx;
    size_t count;
    atomic_size_t next;
} each_work;

static void *each_run(void *arg) {
    each_work *work = arg;
    size_t i;
    while ((i = atomic_fetch_add(&work->next, 1)) < work->count)
        work->job(work->ctx, i);
    return NULL;
}

/* Starting a thread costs about as much as opening a small shard: a few are worth one each. */
static unsigned default_threads(size_t count) {
    unsigned cpus = tmi_cpu_count();
    unsigned most = cpus < MOST_BY_DEFAULT ? cpus : MOST_BY_DEFAULT;
    return count / 4 < most ? (unsigned)(count / 4) : most;
}

void tmi_each(size_t count, unsigned threads, void (*job)(void *ctx, size_t i), void *ctx) {
    each_work work = {.job = job, .ctx = ctx, .count = count};
    pthread_t started[MOST_THREADS];
    unsigned running = 0;
    if (threads == 0)
        threads = default_threads(count);
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    while (running + 1 < threads && running + 1 < count &&
           tmi_thread_start(&started[running], each_run, &work) == 0)
        running++;
    each_run(&work);
    for (unsigned i = 0; i < running; i++)
        pthread_join(started[i], NULL);
}
