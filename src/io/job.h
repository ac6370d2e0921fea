/*
 * Work split over threads: who takes which unit, how all of them stop, the first failure, progress.
 * job.c knows nothing of what the work is.
 */
#ifndef TENMAP_JOB_H
#define TENMAP_JOB_H

#include "../os/os.h"

enum { TMI_MOST_THREADS = 64 };

typedef void tmi_work(void *ctx, size_t part);

/*
 * Calls work(ctx, part) once for each part below `parts`, on up to `threads` threads, the caller's
 * among them, and returns when all are done. Parts are handed out in order, one at a time, so a
 * thread that falls behind takes fewer. Threads that the system refuses are done without; those
 * that it grants are as tmi_thread_start makes them and are joined before the return.
 */
void tmi_parallel(unsigned threads, size_t parts, tmi_work *work, void *ctx);

/*
 * The same for parts that can fail, of work that tells how far it is and can be called off. Fill the
 * first fields, leave the others zero; tmi_job_run once for each pass over the units; tmi_job_end.
 */
typedef struct tmi_job {
    unsigned threads; /* at least 1; see tmi_job_threads */
    /*
     * One unit, on any thread. A failure, with its sentence and index in *error, stops the job: no
     * thread begins another unit, and the failure that comes first is the job's.
     */
    tenmap_status (*unit)(void *ctx, void *state, size_t unit, tenmap_error *error);
    void *ctx;
    size_t state_bytes; /* of a thread's own, zeroed before its first unit; 0: `state` is NULL */
    void (*release)(void *state); /* frees what the state holds, not itself; may be NULL */
    const char *what; /* that memory is wanted for, in the sentence that there is none */
    /*
     * May be NULL. On the thread that runs the job: when it begins and after each of its units, but
     * for those after which all is done, and once more in the end. Anything but 0 is a cancel.
     */
    int (*progress)(void *progress_ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
    const char *cancelled; /* the sentence about it, up to how much was done */
    bool last_cancels;     /* the one in the end can do so too */
    uint64_t total;        /* bytes, of all passes */
    _Atomic uint64_t done; /* begins at what others did */
    /* job.c's own, but for the result when all threads are back. */
    pthread_t caller;
    size_t units; /* of this pass */
    atomic_size_t next;
    atomic_bool stopping;
    tenmap_status status;
    tenmap_error error;
} tmi_job;

/* As many as were asked for, or with 0 one for each CPU, up to `most`. */
unsigned tmi_job_threads(unsigned asked, unsigned most);
/* Units in order, as with tmi_parallel; none if the job has failed. job->status says how it went. */
void tmi_job_run(tmi_job *job, size_t units);
/* For `unit`: so many bytes more are done. */
void tmi_job_add(tmi_job *job, uint64_t bytes);
/* The last report, if all went well; the first failure otherwise. */
tenmap_status tmi_job_end(tmi_job *job, tenmap_error *error);

#endif
