/* Splits work over threads that exist only while the work lasts. */
#include "job.h"

#include <stdlib.h>

typedef struct parallel_parts {
    tmi_work *work;
    void *ctx;
    size_t parts;
    atomic_size_t next;
} parallel_parts;

static void *run_parts(void *argument) {
    parallel_parts *all = argument;
    for (;;) {
        size_t part = atomic_fetch_add_explicit(&all->next, 1, memory_order_relaxed);
        if (part >= all->parts)
            return NULL;
        all->work(all->ctx, part);
    }
}

void tmi_parallel(unsigned threads, size_t parts, tmi_work *work, void *ctx) {
    pthread_t started[TMI_MOST_THREADS];
    parallel_parts all = {work, ctx, parts, 0};
    if (threads > TMI_MOST_THREADS)
        threads = TMI_MOST_THREADS;
    if (threads > parts)
        threads = (unsigned)parts;
    unsigned count = 0;
    while (count + 1 < threads && tmi_thread_start(&started[count], run_parts, &all) == 0)
        count++;
    run_parts(&all); /* does all of it if no thread could be started */
    for (unsigned i = 0; i < count; i++)
        pthread_join(started[i], NULL);
}

unsigned tmi_job_threads(unsigned asked, unsigned most) {
    unsigned cpus = asked ? asked : tmi_cpu_count();
    return asked || cpus < most ? cpus : most;
}

/* The first call sets the job's result; other threads see `stopping` before their next unit. */
static void stop_job(tmi_job *job, tenmap_status status, const tenmap_error *error) {
    if (atomic_exchange(&job->stopping, true))
        return;
    job->error = *error;
    job->status = status;
}

/* Reports progress; returns false if the caller cancelled. */
static bool report_job(tmi_job *job, uint64_t done, bool may_cancel) {
    tenmap_error error;
    if (!job->progress(job->progress_ctx, done, job->total) || !may_cancel)
        return true;
    tmi_fail(&error, TENMAP_ERR_CANCELLED, "%s, %llu of %llu bytes done", job->cancelled, (ull)done,
             (ull)job->total);
    stop_job(job, TENMAP_ERR_CANCELLED, &error);
    return false;
}

/*
 * Reports progress during the work, on the caller's thread only. Completion is reported only once
 * all threads have been joined.
 */
static bool report_progress(tmi_job *job) {
    uint64_t done = atomic_load(&job->done);
    if (!job->progress || done == job->total || !pthread_equal(job->caller, pthread_self()))
        return true;
    return report_job(job, done, true);
}

static bool run_job_unit(tmi_job *job, void **state, size_t unit) {
    tenmap_error error;
    tenmap_status status = TENMAP_OK;
    if (job->state_bytes && !*state) {
        *state = tmi_calloc(1, job->state_bytes);
        if (!*state)
            status = tmi_fail_memory(&error, job->state_bytes, job->what);
    }
    if (status == TENMAP_OK)
        status = job->unit(job->ctx, *state, unit, &error);
    if (status != TENMAP_OK)
        stop_job(job, status, &error);
    return status == TENMAP_OK;
}

/* One thread's work: takes units until none are left or the job is stopping. */
static void run_job_units(void *ctx, size_t number) {
    tmi_job *job = ctx;
    void *state = NULL;
    (void)number;
    while (!atomic_load(&job->stopping)) {
        size_t unit = atomic_fetch_add(&job->next, 1);
        if (unit >= job->units || !run_job_unit(job, &state, unit) || !report_progress(job))
            break;
    }
    if (state && job->release)
        job->release(state);
    free(state);
}

void tmi_job_run(tmi_job *job, size_t units) {
    job->caller = pthread_self();
    job->units = units;
    atomic_store(&job->next, 0);
    if (atomic_load(&job->stopping) || !report_progress(job))
        return;
    tmi_parallel(job->threads, job->threads < units ? job->threads : units, run_job_units, job);
}

void tmi_job_add(tmi_job *job, uint64_t bytes) {
    atomic_fetch_add(&job->done, bytes);
}

tenmap_status tmi_job_end(tmi_job *job, tenmap_error *error) {
    if (job->status == TENMAP_OK && job->progress)
        (void)report_job(job, atomic_load(&job->done), job->last_cancels);
    if (job->status != TENMAP_OK && error)
        *error = job->error;
    return job->status;
}
