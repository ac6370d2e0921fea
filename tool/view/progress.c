/* Draws the progress bar on stderr. */
#include "view/progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "view/print.h"

static struct {
    pthread_mutex_t lock; /* guards drawing; the count is atomic */
    bool active, drawn;
    const char *label;
    uint64_t total;
    _Atomic uint64_t done;
    double began, last;
} bar = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_begin(const char *label, uint64_t total) {
    bar.active = !common.quiet && isatty(STDERR_FILENO) == 1;
    bar.label = label;
    bar.total = total ? total : 1;
    atomic_store(&bar.done, 0);
    bar.began = bar.last = seconds();
}

static void draw(uint64_t done, double now) {
    enum { CELLS = 24 };
    text rate = {0};
    double share = done >= bar.total ? 1 : (double)done / (double)bar.total;
    int full = (int)(share * (double)CELLS);
    text_add_bytes(&rate, (uint64_t)((double)done / (now - bar.began + 1e-9)));
    fprintf(stderr, "\r\033[K%s ", bar.label);
    for (int i = 0; i < CELLS; i++)
        fputs(i < full ? "█" : "░", stderr);
    fprintf(stderr, " %3d%%  %s/s", (int)(share * 100), rate.bytes);
    double left = share > 0 ? (now - bar.began) * (1 / share - 1) : 0;
    if (left >= 1)
        fprintf(stderr, "  %d:%02d left", (int)left / 60, (int)left % 60);
    text_free(&rate);
    bar.drawn = true;
}

/* A thread that finds the lock taken leaves the drawing to its owner. */
static void maybe_draw(void) {
    if (!bar.active || pthread_mutex_trylock(&bar.lock) != 0)
        return;
    double now = seconds();
    if (now - bar.last >= 0.1) {
        bar.last = now;
        draw(atomic_load(&bar.done), now);
    }
    pthread_mutex_unlock(&bar.lock);
}

void progress_add(uint64_t bytes) {
    atomic_fetch_add(&bar.done, bytes);
    maybe_draw();
}

void progress_set(uint64_t done) {
    atomic_store(&bar.done, done);
    maybe_draw();
}

void progress_clear(void) {
    pthread_mutex_lock(&bar.lock);
    if (bar.drawn)
        fputs("\r\033[K", stderr);
    bar.drawn = false;
    pthread_mutex_unlock(&bar.lock);
}

void progress_end(void) {
    progress_clear();
    bar.active = false;
}
