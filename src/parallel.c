/* Work split over threads that exist only while it lasts. */
#include "os.h"

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

void tmi_parallel(unsigned threads, size_t parts, tmi_work *work, void *ctx) {
    pthread_t started[TMI_MOST_THREADS];
    parallel_job job = {work, ctx, parts, 0};
    if (threads > TMI_MOST_THREADS)
        threads = TMI_MOST_THREADS;
    if (threads > parts)
        threads = (unsigned)parts;
    unsigned count = 0;
    while (count + 1 < threads && tmi_thread_start(&started[count], run_parts, &job) == 0)
        count++;
    run_parts(&job); /* all of it, where no thread could be started */
    for (unsigned i = 0; i < count; i++)
        pthread_join(started[i], NULL);
}
