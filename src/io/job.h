/*
 * Splits work over threads: hands out units, stops all threads, keeps the first failure and reports
 * progress. job.c does not know what the work is.
 */
#ifndef TENMAP_JOB_H
#define TENMAP_JOB_H

#include "../os/os.h"

enum { TMI_MOST_THREADS = 64 };

typedef void tmi_work(void *ctx, size_t part);

/*
 * Calls work(ctx, part) once for each part below `parts`, on up to `threads` threads including the
 * caller's, and returns when all are done. Parts are handed out in order, one at a time, so a slow
 * thread takes fewer. If the system refuses a thread, the others do its work. Threads are started
 * with tmi_thread_start and joined before the return.
 */
void tmi_parallel(unsigned threads, size_t parts, tmi_work *work, void *ctx);

/*
 * The same for units that can fail, with progress and cancellation. Fill the first fields and leave
 * the others zero; call tmi_job_run once for each pass over the units, then tmi_job_end.
 */
typedef struct tmi_job {
    unsigned threads; /* at least 1; see tmi_job_threads */
    /*
     * Does one unit, on any thread. A failure, with its message and index in *error, stops the job:
     * no thread begins another unit, and the job fails with the first failure.
     */
    tenmap_status (*unit)(void *ctx, void *state, size_t unit, tenmap_error *error);
    void *ctx;
    /*
     * Size of each thread's own state, which is zeroed before its first unit; 0: `state` is NULL.
     */
    size_t state_bytes;
    void (*release)(void *state); /* frees what the state holds, not the state; may be NULL */
    const char *what;             /* what memory is needed for, in the out-of-memory message */
    /*
     * May be NULL. Called on the thread that runs the job: at the start of each pass, after each
     * unit that this thread does, and once at the end if the job succeeded. It is skipped once all
     * bytes are done, except for the call at the end. A nonzero return cancels; at the end only if
     * last_cancels is set.
     */
    int (*progress)(void *progress_ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
    const char *cancelled; /* start of the message about cancellation, before the byte counts */
    bool last_cancels;     /* the call at the end can cancel too */
    uint64_t total;        /* bytes, of all passes */
    _Atomic uint64_t done; /* starts at what earlier calls did */
    /* Private to job.c, except for the result once all threads have been joined. */
    pthread_t caller;
    size_t units; /* of this pass */
    atomic_size_t next;
    atomic_bool stopping;
    tenmap_status status;
    tenmap_error error;
} tmi_job;

/* The number of threads asked for; if that is 0, one for each CPU but at most `most`. */
unsigned tmi_job_threads(unsigned asked, unsigned most);
/*
 * Runs the units in order, as tmi_parallel does; none if the job has already failed. job->status is
 * the result.
 */
void tmi_job_run(tmi_job *job, size_t units);
/* Called by `unit`: adds this many bytes to the progress. */
void tmi_job_add(tmi_job *job, uint64_t bytes);
/* Makes the last progress report if the job succeeded; returns the first failure otherwise. */
tenmap_status tmi_job_end(tmi_job *job, tenmap_error *error);

#endif
