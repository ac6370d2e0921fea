/* Work split over threads that exist only while it lasts. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask under -std=c11 */
#endif
#include "internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

typedef struct parallel_job {
    tmi_work *work;
    void *ctx;
    size_t parts;
    atomic_size_t next;
} parallel_job;

static void *run_parts(void *argument) {
    parallel_job *job = argument;
    for (;;) {
        size_t part = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (part >= job->parts)
            return NULL;
        job->work(job->ctx, part);
    }
}

/* A new thread inherits the mask of the one that starts it: the process's signals are not ours. */
static unsigned start_threads(pthread_t *threads, unsigned wanted, parallel_job *job) {
    sigset_t all, before;
    unsigned started = 0;
    sigfillset(&all);
    if (wanted == 0 || pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return 0;
    while (started < wanted && pthread_create(&threads[started], NULL, run_parts, job) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void tmi_parallel(unsigned threads, size_t parts, tmi_work *work, void *ctx) {
    pthread_t started[TMI_MOST_THREADS];
    parallel_job job = {work, ctx, parts, 0};
    if (threads > TMI_MOST_THREADS)
        threads = TMI_MOST_THREADS;
    if (threads > parts)
        threads = (unsigned)parts;
    unsigned count = threads > 1 ? start_threads(started, threads - 1, &job) : 0;
    run_parts(&job); /* all of it, where no thread could be started */
    for (unsigned i = 0; i < count; i++)
        pthread_join(started[i], NULL);
}
