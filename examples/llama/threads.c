/*
 * Runs work on several threads. A pass through a model is hundreds of short pieces of work, each of
 * which needs the previous one. A waiting thread spins for some microseconds before it sleeps,
 * because waking up takes as long as many a piece.
 */
#define _POSIX_C_SOURCE 200809L
#include "llama.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_AT_MOST = 64, LOOKS = 2000 };

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t news;               /* signals changes of round and busy */
    atomic_uint round;                 /* increases when there is work */
    atomic_uint busy;                  /* workers that have not finished the round */
    void (*work)(void *ctx, size_t i); /* NULL: the end */
    void *ctx;
    size_t n;
    atomic_size_t next; /* the next of the n pieces */
    unsigned started;   /* workers, not counting the caller */
    pthread_t workers[THREADS_AT_MOST];
};

static void wait_for(pool *p, atomic_uint *number, unsigned value) {
    for (unsigned looks = 0; looks < LOOKS; looks++) {
        if (atomic_load(number) == value)
            return;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&p->lock);
    while (atomic_load(number) != value)
        pthread_cond_wait(&p->news, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/*
 * Changes the number under the lock, so that a thread that has just checked it does not miss the
 * change.
 */
static void change(pool *p, atomic_uint *number, unsigned by) {
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(number, by);
    pthread_cond_broadcast(&p->news);
    pthread_mutex_unlock(&p->lock);
}

static void work_on(pool *p) {
    size_t i;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->n)
        p->work(p->ctx, i);
}

/* A round begins only after all have finished the previous one. */
static void *worker_main(void *ctx) {
    pool *p = ctx;
    for (unsigned round = 1;; round++) {
        wait_for(p, &p->round, round);
        if (!p->work)
            return NULL;
        work_on(p);
        change(p, &p->busy, (unsigned)-1);
    }
}

void pool_run(pool *p, size_t n, size_t products, void (*work)(void *ctx, size_t i), void *ctx) {
    enum { FEW = 1 << 14 }; /* products: fewer are not worth distributing */
    p->work = work;
    p->ctx = ctx;
    p->n = n;
    atomic_store(&p->next, 0);
    if (products >= FEW) {
        atomic_store(&p->busy, p->started);
        change(p, &p->round, 1);
    }
    work_on(p);
    wait_for(p, &p->busy, 0);
}

unsigned processors(void) {
#ifdef _WIN32
    const char *text = getenv("NUMBER_OF_PROCESSORS");
    long n = text ? strtol(text, NULL, 10) : 1;
#else
    long n = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return n < 1 ? 1 : (unsigned)n;
}

pool *pool_create(unsigned threads) {
    pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->news, NULL);
    while (p->started + 1 < threads && p->started < THREADS_AT_MOST && /* fewer threads will do */
           pthread_create(&p->workers[p->started], NULL, worker_main, p) == 0)
        p->started++;
    return p;
}

void pool_free(pool *p) {
    if (!p)
        return;
    p->work = NULL;
    change(p, &p->round, 1);
    for (unsigned i = 0; i < p->started; i++)
        pthread_join(p->workers[i], NULL);
    pthread_cond_destroy(&p->news);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
