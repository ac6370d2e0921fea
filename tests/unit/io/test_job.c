/*
 * The splitter runs each part once, on at most as many threads as requested, and leaves signals
 * alone. In the runner of jobs on top of it the first failure wins and all threads stop, progress
 * is called on the caller's thread and can cancel, and each thread has its own state. The linker
 * redirects calloc and pthread_create to this file.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* usleep */
#endif
#include "cmocka_all.h"
#include "io/job.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARTS = 1000 };

typedef struct tally {
    atomic_int times[PARTS];
    pthread_t caller;
    bool wait_for_others; /* the caller holds its first part until another thread ran one */
    atomic_int on_others, on_others_unblocked;
} tally;

static void count_part(void *ctx, size_t part) {
    tally *t = ctx;
    atomic_fetch_add(&t->times[part], 1);
    if (!pthread_equal(pthread_self(), t->caller)) {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        atomic_fetch_add(&t->on_others, 1);
        if (!sigismember(&mask, SIGINT) || !sigismember(&mask, SIGPROF))
            atomic_fetch_add(&t->on_others_unblocked, 1);
    } else {
        while (t->wait_for_others && t->on_others == 0)
            usleep(100);
    }
    if (part % 100 == 0)
        usleep(1000); /* lets the other threads take some */
}

static void every_part_is_done_once_whatever_the_threads(void **state) {
    (void)state;
    static const unsigned threads[] = {0, 1, 2, 3, 64, 1000000};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        for (size_t parts = 0; parts <= PARTS; parts = parts * 10 + 1) {
            static tally t;
            for (size_t p = 0; p < PARTS; p++)
                atomic_store(&t.times[p], 0);
            t.caller = pthread_self();
            tmi_parallel(threads[i], parts, count_part, &t);
            for (size_t p = 0; p < PARTS; p++)
                assert_int_equal(atomic_load(&t.times[p]), p < parts);
        }
}

static void threads_block_all_signals_and_the_callers_mask_stays(void **state) {
    (void)state;
    static tally t;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    t.caller = pthread_self();
    t.wait_for_others = true;
    alarm(120); /* a hang is a failure */
    tmi_parallel(4, PARTS, count_part, &t);
    alarm(0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_true(atomic_load(&t.on_others) > 0);
    assert_int_equal(atomic_load(&t.on_others_unblocked), 0);
    for (int signal = 1; signal < 32; signal++)
        assert_int_equal(sigismember(&before, signal), sigismember(&after, signal));
}

/* In a child without free address space, so that no thread gets a stack. */
static void refused_threads_are_done_without(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("           skipped: a sanitizer needs address space of its own\n");
    return;
#endif
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static tally t;
        struct rlimit none = {1 << 20, 1 << 20};
        t.caller = pthread_self();
        if (setrlimit(RLIMIT_AS, &none) != 0)
            _exit(2);
        tmi_parallel(4, PARTS, count_part, &t);
        for (size_t p = 0; p < PARTS; p++)
            if (atomic_load(&t.times[p]) != 1)
                _exit(1);
        _exit(atomic_load(&t.on_others) ? 3 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Jobs. */

/* Provided by the linker: calls of x go to __wrap_x, and __real_x is the original. */
void *__real_calloc(size_t count, size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

enum { NONE_REFUSED = 1000, STATE_BYTES = 12345 };

static atomic_int states_granted = NONE_REFUSED, threads_granted = NONE_REFUSED;

void *__wrap_calloc(size_t count, size_t size) {
    if (size == STATE_BYTES && atomic_fetch_sub(&states_granted, 1) <= 0)
        return NULL;
    return __real_calloc(count, size);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg) {
    if (atomic_fetch_sub(&threads_granted, 1) <= 0)
        return EAGAIN;
    return __real_pthread_create(thread, attr, run, arg);
}

/* The state of a thread of the job. */
typedef struct worker_state {
    struct trial *trial; /* NULL before its first unit */
    pthread_t thread;
    size_t units, last;
} worker_state;

typedef struct trial {
    tmi_job job;
    atomic_int times[PARTS];
    atomic_size_t run, running, states, released;
    atomic_bool wrong; /* a state of another thread, or not zeroed, or units out of order */
    size_t fails_from; /* units from this one on fail; TMI_NONE: none does */
    /* The caller waits in its first unit until another thread ran one or failed. */
    bool wait_for_others;
    pthread_t caller;
    uint64_t reported; /* the last value */
    atomic_long reports;
    long cancel_at;           /* cancels in this call of progress, from 1 on; 0: never */
    bool elsewhere, backward; /* a report on another thread; one of less than before */
} trial;

static int watch(void *ctx, uint64_t done, uint64_t total) {
    trial *t = ctx;
    t->elsewhere |= !pthread_equal(pthread_self(), t->caller);
    t->backward |= done < t->reported || done > total || total != t->job.total;
    t->reported = done;
    return ++t->reports == t->cancel_at;
}

static void check_state(trial *t, worker_state *own, size_t unit) {
    if (!own->trial) {
        atomic_fetch_add(&t->states, 1);
        if (own->units || own->last)
            atomic_store(&t->wrong, true);
        own->trial = t;
        own->thread = pthread_self();
    }
    if (!pthread_equal(own->thread, pthread_self()) || (own->units && unit <= own->last))
        atomic_store(&t->wrong, true);
    own->units++;
    own->last = unit;
}

static tenmap_status run_trial_unit(void *ctx, void *state, size_t unit, tenmap_error *error) {
    trial *t = ctx;
    if (state)
        check_state(t, state, unit);
    atomic_fetch_add(&t->times[unit], 1);
    atomic_fetch_add(&t->run, 1);
    bool mine = pthread_equal(pthread_self(), t->caller);
    while (t->wait_for_others && mine && t->run < 2 && !t->job.stopping)
        usleep(100);
    while (!mine && t->reports < t->cancel_at && !t->job.stopping)
        usleep(100); /* lets the caller's thread get there */
    if (unit % 100 == 0)
        usleep(1000);
    if (unit >= t->fails_from) {
        tmi_fail(error, TENMAP_ERR_IO, "unit %u", (unsigned)unit);
        error->index = unit;
        return TENMAP_ERR_IO;
    }
    tmi_job_add(&t->job, 10);
    return TENMAP_OK;
}

static void release_state(void *state) {
    worker_state *own = state;
    if (own->trial)
        atomic_fetch_add(&own->trial->released, 1);
}

static trial *new_trial(unsigned threads, size_t units) {
    static trial t;
    memset(&t, 0, sizeof t);
    t.fails_from = TMI_NONE;
    t.caller = pthread_self();
    t.job.threads = threads;
    t.job.unit = run_trial_unit;
    t.job.ctx = &t;
    t.job.state_bytes = STATE_BYTES;
    t.job.release = release_state;
    t.job.what = "trying";
    t.job.progress = watch;
    t.job.progress_ctx = &t;
    t.job.cancelled = "the trial was cancelled";
    t.job.total = 10 * units;
    states_granted = threads_granted = NONE_REFUSED;
    return &t;
}

/* Checks what must hold after every job, successful or not. */
static void check_trial(const trial *t) {
    assert_false(t->wrong);
    assert_false(t->elsewhere);
    assert_false(t->backward);
    assert_int_equal(t->released, t->states);
}

static void every_unit_is_done_once_in_a_state_of_its_thread(void **state) {
    (void)state;
    static const unsigned threads[] = {1, 2, 3, 64, 1000000};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        for (size_t units = 0; units <= PARTS; units = units * 10 + 1) {
            trial *t = new_trial(threads[i], units);
            tmi_job_run(&t->job, units);
            assert_int_equal(tmi_job_end(&t->job, NULL), TENMAP_OK);
            check_trial(t);
            assert_true(t->states <= (threads[i] < units ? threads[i] : units));
            assert_int_equal(t->reported, 10 * units);
            for (size_t unit = 0; unit < PARTS; unit++)
                assert_int_equal(t->times[unit], unit < units);
        }
}

static void no_units_are_one_report_of_none(void **state) {
    (void)state;
    trial *t = new_trial(4, 0);
    tmi_job_run(&t->job, 0);
    assert_int_equal(tmi_job_end(&t->job, NULL), TENMAP_OK);
    assert_int_equal(t->reports, 1);
    assert_int_equal(t->states, 0);
}

static void more_threads_than_units_start_no_more(void **state) {
    (void)state;
    trial *t = new_trial(64, 3);
    tmi_job_run(&t->job, 3);
    assert_int_equal(tmi_job_end(&t->job, NULL), TENMAP_OK);
    assert_true(threads_granted >= NONE_REFUSED - 2);
}

static void progress_begins_at_what_was_done_and_ends_with_all(void **state) {
    (void)state;
    trial *t = new_trial(4, PARTS);
    atomic_store(&t->job.done, 70);
    t->job.total += 70;
    t->reported = 70;
    tmi_job_run(&t->job, PARTS / 2); /* two passes are one job */
    tmi_job_run(&t->job, PARTS / 2);
    assert_true(t->reported < t->job.total); /* only the end reports the total */
    assert_int_equal(tmi_job_end(&t->job, NULL), TENMAP_OK);
    check_trial(t);
    assert_int_equal(t->reported, t->job.total);
    for (size_t unit = 0; unit < PARTS; unit++)
        assert_int_equal(t->times[unit], unit < PARTS / 2 ? 2 : 0);
}

/* Units are taken in order: those that a thread takes after the failure are not begun. */
static void the_first_failure_wins_and_stops_all_threads(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 64; threads *= 4) {
        tenmap_error error;
        trial *t = new_trial(threads, PARTS);
        t->fails_from = 42;
        tmi_job_run(&t->job, PARTS);
        tmi_job_run(&t->job, PARTS); /* nothing after a failure */
        assert_int_equal(tmi_job_end(&t->job, &error), TENMAP_ERR_IO);
        check_trial(t);
        assert_in_range(error.index, 42, 42 + threads - 1);
        assert_int_equal(atoi(error.message + strlen("unit ")), error.index);
        assert_true(t->run <= 42 + threads);
        assert_int_equal(t->times[error.index], 1);
        assert_true(t->reported < t->job.total);
    }
}

static void one_thread_fails_at_the_lowest_unit(void **state) {
    (void)state;
    tenmap_error error;
    trial *t = new_trial(1, PARTS);
    t->fails_from = 7;
    tmi_job_run(&t->job, PARTS);
    assert_int_equal(tmi_job_end(&t->job, &error), TENMAP_ERR_IO);
    assert_int_equal(error.index, 7);
    assert_int_equal(t->run, 8);
}

static void a_cancel_stops_all_threads_and_says_how_far_they_were(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 4; threads *= 4) {
        tenmap_error error;
        trial *t = new_trial(threads, PARTS);
        t->cancel_at = 3;
        tmi_job_run(&t->job, PARTS);
        assert_int_equal(tmi_job_end(&t->job, &error), TENMAP_ERR_CANCELLED);
        check_trial(t);
        assert_int_equal(t->reports, 3);
        char said[100];
        snprintf(said, sizeof said, "the trial was cancelled, %u of 10000 bytes done",
                 (unsigned)t->reported);
        assert_string_equal(error.message, said);
        assert_int_equal(error.index, 0);
    }
}

static void a_cancel_in_the_first_report_runs_nothing(void **state) {
    (void)state;
    trial *t = new_trial(4, PARTS);
    t->cancel_at = 1;
    tmi_job_run(&t->job, PARTS);
    assert_int_equal(tmi_job_end(&t->job, NULL), TENMAP_ERR_CANCELLED);
    assert_int_equal(t->run, 0);
    assert_int_equal(t->states, 0);
}

static void a_cancel_in_the_last_report_counts_where_it_may(void **state) {
    (void)state;
    for (int may = 0; may <= 1; may++) {
        trial *t = new_trial(1, 1);
        t->job.last_cancels = may;
        t->cancel_at = 2;
        tmi_job_run(&t->job, 1);
        assert_int_equal(tmi_job_end(&t->job, NULL), may ? TENMAP_ERR_CANCELLED : TENMAP_OK);
        assert_int_equal(t->reports, 2);
    }
}

static void without_memory_for_a_state_all_threads_stop(void **state) {
    (void)state;
    for (int granted = 0; granted <= 2; granted++) {
        tenmap_error error;
        trial *t = new_trial(4, PARTS);
        states_granted = granted;
        threads_granted = granted; /* so that one more thread needs a state than gets one */
        t->wait_for_others = granted > 0;
        tmi_job_run(&t->job, PARTS);
        tenmap_status status = tmi_job_end(&t->job, &error);
        check_trial(t);
        if (status == TENMAP_OK) { /* the last thread had nothing to do */
            assert_int_equal(t->run, PARTS);
            continue;
        }
        assert_int_equal(status, TENMAP_ERR_MEMORY);
        assert_non_null(strstr(error.message, "trying"));
        assert_true(t->states <= (size_t)granted);
        assert_true(granted > 0 || t->run == 0);
    }
}

static void a_job_does_without_the_threads_that_are_refused(void **state) {
    (void)state;
    for (int granted = 0; granted <= 2; granted++) {
        trial *t = new_trial(8, PARTS);
        threads_granted = granted;
        tmi_job_run(&t->job, PARTS);
        assert_int_equal(tmi_job_end(&t->job, NULL), TENMAP_OK);
        check_trial(t);
        assert_int_equal(t->run, PARTS);
        assert_in_range(t->states, 1, granted + 1);
    }
}

static void as_many_threads_as_asked_for_or_as_there_are_cpus(void **state) {
    (void)state;
    unsigned cpus = tmi_cpu_count();
    assert_int_equal(tmi_job_threads(7, 3), 7);
    assert_int_equal(tmi_job_threads(0, 1), 1);
    assert_int_equal(tmi_job_threads(0, cpus + 1), cpus);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* This test must be first: later, stacks of earlier threads could be reused. */
        cmocka_unit_test(refused_threads_are_done_without),
        cmocka_unit_test(every_part_is_done_once_whatever_the_threads),
        cmocka_unit_test(threads_block_all_signals_and_the_callers_mask_stays),
        cmocka_unit_test(every_unit_is_done_once_in_a_state_of_its_thread),
        cmocka_unit_test(no_units_are_one_report_of_none),
        cmocka_unit_test(more_threads_than_units_start_no_more),
        cmocka_unit_test(progress_begins_at_what_was_done_and_ends_with_all),
        cmocka_unit_test(the_first_failure_wins_and_stops_all_threads),
        cmocka_unit_test(one_thread_fails_at_the_lowest_unit),
        cmocka_unit_test(a_cancel_stops_all_threads_and_says_how_far_they_were),
        cmocka_unit_test(a_cancel_in_the_first_report_runs_nothing),
        cmocka_unit_test(a_cancel_in_the_last_report_counts_where_it_may),
        cmocka_unit_test(without_memory_for_a_state_all_threads_stop),
        cmocka_unit_test(a_job_does_without_the_threads_that_are_refused),
        cmocka_unit_test(as_many_threads_as_asked_for_or_as_there_are_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
