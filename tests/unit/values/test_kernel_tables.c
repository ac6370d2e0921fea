/*
 * A table of kernels is filled up from the tables below it, so a table with a single kernel makes
 * nothing else slower. Threads and children of fork that need the table while it is being filled
 * get the same bits.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include "convert_common.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 300 };

static size_t calls_of_single;

/* The kernel of a table that has no other: F32 to BF16, by the oracle. */
static void single_kernel(void *dst, const void *src, size_t count, uint32_t flags) {
    calls_of_single++;
    oracle_convert(TENMAP_BF16, dst, TENMAP_F32, src, count, flags & TENMAP_CONVERT_SATURATE);
}

static const tmi_kernels single = {.name = "single",
                                   .pair[TENMAP_BF16][TENMAP_F32] = single_kernel};

/* A copy of the best table of this machine. Nothing is added to the tables any more. */
static tmi_kernels best_table(void) {
    tmi_cpu_add(NULL);
    return *tmi_cpu_kernels();
}

static void must_be_table(const tmi_kernels *got, const tmi_kernels *want, const char *name) {
    assert_string_equal(got->name, name);
    for (size_t at = offsetof(tmi_kernels, pair); at < sizeof *want; at++)
        if (((const unsigned char *)got)[at] != ((const unsigned char *)want)[at])
            fail_msg("the entry at byte %zu of %zu is not the one below", at, sizeof *want);
}

static void a_table_without_kernels_equals_the_one_below(void **state) {
    (void)state;
    const tmi_kernels best = best_table(), empty = {.name = "empty"};
    tmi_cpu_add(&empty);
    must_be_table(tmi_cpu_kernels(), &best, "empty");
    assert_string_equal(tenmap_cpu_path(), "empty");
    must_be_table(tmi_cpu_find("empty"), &best, "empty");
    tmi_cpu_add(NULL);
    must_be_table(tmi_cpu_kernels(), &best, best.name);
}

/* For each entry that a table can have. The kernels are not called. */
static void a_table_with_one_kernel_changes_no_other_entry(void **state) {
    (void)state;
    typedef void any_kernel(void);
    any_kernel *const kernel = abort;
    const tmi_kernels best = best_table();
    size_t entries = 0;
    for (size_t at = offsetof(tmi_kernels, pair); at < sizeof best; at += sizeof kernel) {
        tmi_kernels one = {.name = "one"}, want = best;
        memcpy((unsigned char *)&one + at, &kernel, sizeof kernel);
        memcpy((unsigned char *)&want + at, &kernel, sizeof kernel);
        tmi_cpu_add(&one);
        must_be_table(tmi_cpu_kernels(), &want, "one");
        entries++;
    }
    tmi_cpu_add(NULL);
    print_message("           %zu entries\n", entries);
}

static void a_table_with_one_kernel_changes_no_bits(void **state) {
    (void)state;
    uint64_t seed = 1;
    unsigned char src[ELEMENTS * 8], dst[ELEMENTS * 8], want[ELEMENTS * 8];
    calls_of_single = 0;
    FOR_EACH_PAIR(to, from) {
        size_t bytes = stream_bytes(to, ELEMENTS, 0), calls = calls_of_single;
        fill_edgy(from, src, ELEMENTS, &seed);
        tmi_cpu_add(NULL);
        must_convert(to, want, bytes, from, src, ELEMENTS, 0);
        assert_int_equal(calls_of_single, calls);
        tmi_cpu_add(&single);
        must_convert(to, dst, bytes, from, src, ELEMENTS, 0);
        must_equal(dst, want, bytes, to, from, "with a table above");
        if (to == TENMAP_BF16 && from == TENMAP_F32)
            assert_int_equal(calls_of_single, calls + 1);
    }
    tmi_cpu_add(NULL);
}

/* Each table is the one below with its own kernels over it: no entry of the one below is lost. */
static void every_table_has_all_kernels_of_the_one_below(void **state) {
    (void)state;
    typedef void any_kernel(void);
    const tmi_kernels *above = tmi_cpu_kernels();
    for (size_t i = 0; i < ISA_COUNT; i++) {
        const tmi_kernels *table = tmi_cpu_find(isa_names[i]);
        if (!table)
            continue;
        assert_string_equal(table->name, isa_names[i]);
        for (size_t at = offsetof(tmi_kernels, pair); at < sizeof *table;
             at += sizeof(any_kernel *)) {
            any_kernel *lower, *upper;
            memcpy(&lower, (const unsigned char *)table + at, sizeof lower);
            memcpy(&upper, (const unsigned char *)above + at, sizeof upper);
            if (lower && !upper)
                fail_msg("%s lacks a kernel of %s", above->name, table->name);
        }
        above = table;
    }
    must_be_table(above, &tmi_kernels_scalar, "scalar");
}

typedef struct racer {
    pthread_t thread;
    atomic_bool *go;
    const unsigned char *src, *want;
    bool good, plain;
} racer;

static void *race(void *arg) {
    racer *r = arg;
    unsigned char dst[ELEMENTS * 4];
    while (!atomic_load(r->go))
        (void)sched_yield();
    r->plain = tmi_cpu_kernels() == &tmi_kernels_scalar;
    r->good = tenmap_convert(TENMAP_F32, dst, sizeof dst, TENMAP_BF16, r->src, ELEMENTS, 0, NULL) ==
                  TENMAP_OK &&
              memcmp(dst, r->want, sizeof dst) == 0;
    return NULL;
}

static void threads_that_choose_at_once_get_the_same_bits(void **state) {
    (void)state;
    enum { RACERS = 4, RACES = 100 };
    uint64_t seed = 2;
    unsigned char src[ELEMENTS * 2], want[ELEMENTS * 4];
    const tmi_kernels best = best_table();
    size_t plain = 0;
    fill_edgy(TENMAP_BF16, src, ELEMENTS, &seed);
    oracle_convert(TENMAP_F32, want, TENMAP_BF16, src, ELEMENTS, 0);
    for (int i = 0; i < RACES; i++) {
        racer racers[RACERS];
        atomic_bool go = false;
        tmi_cpu_add(NULL);
        for (size_t k = 0; k < RACERS; k++) {
            racers[k] = (racer){.go = &go, .src = src, .want = want};
            assert_int_equal(pthread_create(&racers[k].thread, NULL, race, &racers[k]), 0);
        }
        atomic_store(&go, true);
        for (size_t k = 0; k < RACERS; k++) {
            assert_int_equal(pthread_join(racers[k].thread, NULL), 0);
            assert_true(racers[k].good);
            plain += racers[k].plain;
        }
        must_be_table(tmi_cpu_kernels(), &best, best.name);
    }
    print_message("           %zu of %d used plain C\n", plain, RACERS * RACES);
}

static void while_a_thread_fills_the_table_others_use_plain_c(void **state) {
    (void)state;
    const tmi_kernels best = best_table();
    tmi_cpu_begin_filling();
    assert_ptr_equal(tmi_cpu_kernels(), &tmi_kernels_scalar);
    assert_string_equal(tenmap_cpu_path(), best.name);
    tmi_cpu_add(NULL);
    must_be_table(tmi_cpu_kernels(), &best, best.name);
}

static void a_child_of_fork_fills_a_table_that_its_parent_began(void **state) {
    (void)state;
    const tmi_kernels best = best_table();
    tmi_cpu_begin_filling();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const tmi_kernels *kernels = tmi_cpu_kernels();
        size_t from = offsetof(tmi_kernels, pair);
        bool filled = kernels != &tmi_kernels_scalar && strcmp(kernels->name, best.name) == 0 &&
                      memcmp((const unsigned char *)kernels + from,
                             (const unsigned char *)&best + from, sizeof best - from) == 0;
        _exit(filled ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tmi_cpu_add(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_without_kernels_equals_the_one_below),
        cmocka_unit_test(a_table_with_one_kernel_changes_no_other_entry),
        cmocka_unit_test(a_table_with_one_kernel_changes_no_bits),
        cmocka_unit_test(every_table_has_all_kernels_of_the_one_below),
        cmocka_unit_test(threads_that_choose_at_once_get_the_same_bits),
        cmocka_unit_test(while_a_thread_fills_the_table_others_use_plain_c),
        cmocka_unit_test(a_child_of_fork_fills_a_table_that_its_parent_began),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
