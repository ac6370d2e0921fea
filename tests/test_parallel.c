/* The splitter: each part once, on as many threads as asked for or fewer, signals left alone. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* usleep */
#endif
#include "cmocka_all.h"
#include "os.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARTS = 1000 };

typedef struct tally {
    atomic_int times[PARTS];
    pthread_t caller;
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
    }
    if (part % 100 == 0)
        usleep(1000); /* lets the others take some */
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
    tmi_parallel(4, PARTS, count_part, &t);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_true(atomic_load(&t.on_others) > 0);
    assert_int_equal(atomic_load(&t.on_others_unblocked), 0);
    for (int signal = 1; signal < 32; signal++)
        assert_int_equal(sigismember(&before, signal), sigismember(&after, signal));
}

/* In a child that may have no more address space, so that no thread gets a stack. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First: later, stacks of earlier threads would be at hand. */
        cmocka_unit_test(refused_threads_are_done_without),
        cmocka_unit_test(every_part_is_done_once_whatever_the_threads),
        cmocka_unit_test(threads_block_all_signals_and_the_callers_mask_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
