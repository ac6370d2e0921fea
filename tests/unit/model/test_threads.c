/* A model is immutable after open: any number of threads may use it. Meant for ThreadSanitizer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <pthread.h>
#include <signal.h>

enum { THREADS = 8, TENSORS = 64, ROUNDS = 200 };

typedef struct work {
    const tenmap_model *model;
    unsigned seed;
    bool good;
} work;

static void *use_model(void *arg) {
    work *w = arg;
    w->good = true;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        float values[16];
        w->seed = w->seed * 1103515245u + 12345u;
        snprintf(name, sizeof name, "t%u", w->seed / 65536u % TENSORS);
        const tenmap_tensor *t = tenmap_find(w->model, name);
        tenmap_error error;
        w->good = w->good && t &&
                  tenmap_read(t, 0, 16, TENMAP_F32, values, sizeof values, 0, NULL) == TENMAP_OK;
        w->good = w->good && tenmap_read(t, 9, 16, TENMAP_F32, values, sizeof values, 0, &error) ==
                                 TENMAP_ERR_RANGE;
        w->good = w->good && tenmap_metadata_get(w->model, "k") && tenmap_cpu_path()[0];
    }
    return NULL;
}

static void many_threads_share_one_model(void **state) {
    char *json = malloc(TENSORS * 128), *at = json;
    at += sprintf(at, "{\"__metadata__\":{\"k\":\"v\"}");
    for (int i = 0; i < TENSORS; i++)
        at += sprintf(at, ",\"t%d\":{\"dtype\":\"BF16\",\"shape\":[16],\"data_offsets\":[%d,%d]}",
                      i, i * 32, i * 32 + 32);
    sprintf(at, "}");
    const char *path = in_folder(state, "m.safetensors");
    write_model(path, json, TENSORS * 32);
    free(json);
    for (uint32_t backend = 0; backend < 2; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        tenmap_model *m = must_open(path, &options);
        pthread_t threads[THREADS];
        work works[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            works[i] = (work){m, i + 1, false};
            assert_int_equal(pthread_create(&threads[i], NULL, use_model, &works[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_true(works[i].good);
        }
        tenmap_close(m);
    }
}

static void *open_and_close(void *arg) {
    for (int i = 0; i < 20; i++) {
        tenmap_model *m;
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.threads = 3;
        if (tenmap_open(arg, &options, &m, NULL) != TENMAP_OK)
            return arg;
        tenmap_close(m);
    }
    return NULL;
}

static void threads_open_at_the_same_time_and_leave_signals_alone(void **state) {
    for (int i = 1; i <= 9; i++) {
        char name[64], json[128];
        snprintf(name, sizeof name, "m-%d-of-9.safetensors", i);
        snprintf(json, sizeof json,
                 "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", i);
        write_model(in_folder(state, name), json, 1);
    }
    sigset_t before, after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, *state), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_null(open_and_close(*state));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGUSR1), 1);
    assert_int_equal(sigismember(&after, SIGUSR2), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(many_threads_share_one_model, empty_folder),
        cmocka_unit_test_setup(threads_open_at_the_same_time_and_leave_signals_alone, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
