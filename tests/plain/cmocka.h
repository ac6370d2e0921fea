/*
 * The few parts of cmocka that the tests use, for targets that have no cmocka: put this
 * folder on the include path and the tests build without it. The first failure ends the program.
 */
#ifndef TENMAP_PLAIN_CMOCKA_H
#define TENMAP_PLAIN_CMOCKA_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state);
};

#define cmocka_unit_test(function)                                                                 \
    { #function, function, NULL }
#define cmocka_unit_test_setup(function, setup)                                                    \
    { #function, function, setup }

#define fail_msg(...)                                                                              \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        exit(1);                                                                                   \
    } while (0)

#define assert_true(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s", #condition);                                                            \
    } while (0)
#define assert_false(condition) assert_true(!(condition))
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#define assert_null(pointer) assert_true((pointer) == NULL)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_int_not_equal(a, b) assert_true((a) != (b))
#define assert_in_range(a, low, high) assert_true((a) >= (low) && (a) <= (high))
#define assert_int_equal(a, b)                                                                     \
    do {                                                                                           \
        unsigned long long left_ = (unsigned long long)(a), right_ = (unsigned long long)(b);      \
        if (left_ != right_)                                                                       \
            fail_msg("%s: 0x%llx != 0x%llx", #a, left_, right_);                                   \
    } while (0)
#define assert_string_equal(a, b) assert_true(strcmp((a), (b)) == 0)
#define assert_string_not_equal(a, b) assert_true(strcmp((a), (b)) != 0)
#define assert_memory_equal(a, b, size) assert_true(memcmp((a), (b), (size)) == 0)
#define assert_memory_not_equal(a, b, size) assert_true(memcmp((a), (b), (size)) != 0)
#define print_message(...) printf(__VA_ARGS__)
#define print_error(...) fprintf(stderr, __VA_ARGS__)

/* $TENMAP_SKIP holds names, with spaces around each, of tests that this system cannot run. */
static inline int plain_skips(const char *name) {
    const char *list = getenv("TENMAP_SKIP"), *at = list ? strstr(list, name) : NULL;
    for (; at; at = strstr(at + 1, name))
        if (at > list && at[-1] == ' ' && at[strlen(name)] == ' ')
            return 1;
    return 0;
}

/* skip() ends the test that calls it; the next one goes on. */
static jmp_buf plain_skip_point;
#define skip() longjmp(plain_skip_point, 1)

/* Whether the test ran to its end. */
static inline int plain_run_one(const struct CMUnitTest *test, void **state) {
    if (setjmp(plain_skip_point))
        return 0;
    test->test(state);
    return 1;
}

static inline int plain_run_tests(const struct CMUnitTest *tests, size_t count,
                                  int (*setup)(void **state), int (*teardown)(void **state)) {
    void *state = NULL;
    assert_true(!setup || setup(&state) == 0);
    size_t skipped = 0;
    for (size_t i = 0; i < count; i++) {
        if (plain_skips(tests[i].name)) {
            printf("skipped %zu - %s\n", i + 1, tests[i].name);
            skipped++;
            continue;
        }
        assert_true(!tests[i].setup || tests[i].setup(&state) == 0);
        int ran = plain_run_one(&tests[i], &state);
        printf("%s %zu - %s\n", ran ? "ok" : "skipped", i + 1, tests[i].name);
        skipped += !ran;
        fflush(stdout);
    }
    assert_true(!teardown || teardown(&state) == 0);
    printf("%zu tests passed, %zu skipped\n", count - skipped, skipped);
    return 0;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    plain_run_tests(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#endif
