/*
 * Populates pages. MADV_POPULATE_READ does the prefetching: WILLNEED and readahead() stop after one
 * window, or fill the page cache with pieces so small that every later mapping costs ten times
 * more.
 *
 * A caller that needs bytes that are queued for prefetching lets the thread read them next, and
 * waits. Otherwise two threads would read the same bytes at different places of one file.
 *
 * In the background, one thread per model takes spans from a queue. After fork the child has the
 * queue but not the thread, and possibly a lock that nobody will release. So a queue belongs to the
 * process that created it, and another process creates its own.
 */
#include "model.h"

#include <errno.h>

#include <stdlib.h>
#include <string.h>

/* Large enough for the disk, small enough for callers that wait for the window in progress. */
enum { PREFETCH_WINDOW = 16 << 20 };

typedef struct waiting_span {
    tmi_span span;
    bool *finished; /* set to true for the caller that waits; NULL: nobody waits */
} waiting_span;

struct tmi_prefetch {
    long process;
    tmi_prefetch *inherited; /* from the parent of fork; only its memory is freed */
    pthread_mutex_t lock;
    pthread_cond_t more, progress; /* wake the thread, and those who wait for it */
    pthread_t thread;
    bool running, stopping;
    waiting_span *spans; /* [first, count) are queued */
    size_t first, count, capacity;
    tmi_span window; /* in progress; its shard is NULL if there is none */
};

tmi_span tmi_span_outward(tmi_span span) {
    uint64_t page = tmi_page_size();
    span.begin -= span.begin % page;
    span.end += (page - span.end % page) % page;
    return span;
}

/*
 * The header does not count as a neighbor, since it is not read through the mapping. Nothing
 * follows the end of the model.
 */
tmi_span tmi_span_inward(tmi_span span) {
    uint64_t page = tmi_page_size();
    const tenmap_shard *view = &span.shard->view;
    if (span.begin <= view->data_offset)
        span.begin = span.shard->bytes.file.map_offset;
    else
        span.begin += (page - span.begin % page) % page;
    if (span.end == view->offset + view->size)
        span.end += (page - span.end % page) % page;
    else
        span.end -= span.end % page;
    return span;
}

int tmi_populate(tmi_span span, uint64_t *at) {
    tmi_span pages = tmi_span_outward(span), run;
    int failed = 0;
    *at = pages.begin;
    while (!failed && tmi_next_mapped(&pages, &run))
        for (*at = run.begin; *at < run.end;) {
            uint64_t left = run.end - *at;
            uint64_t end = *at + (left < PREFETCH_WINDOW ? left : PREFETCH_WINDOW);
            tmi_bytes_lock(&span.shard->bytes);
            failed = tmi_map_populate(&span.shard->bytes.file, *at, end);
            tmi_bytes_unlock(&span.shard->bytes);
            if (failed)
                break;
            *at = end;
        }
    return failed;
}

tenmap_status tmi_populate_span(tmi_span span, const tenmap_tensor *t, tenmap_error *error) {
    uint64_t at, now = 0;
    if (!span.shard->bytes.file.map || tmi_populate(span, &at) != EFAULT)
        return TENMAP_OK;
    (void)tmi_bytes_changed(&span.shard->bytes, &now);
    TMI_FAIL_TENSOR(error, TENMAP_ERR_IO, t,
                    "cannot read bytes %llu to %llu of the file into memory; the file has %llu "
                    "bytes now and had %llu when it was opened",
                    (ull)span.begin, (ull)span.end, (ull)now, (ull)span.shard->bytes.file.size);
    if (error)
        error->os_error = EFAULT;
    return TENMAP_ERR_IO;
}

/*
 * Takes the next window from the queue and makes it the one in progress. False if the queue is
 * empty.
 */
static bool take_window(tmi_prefetch *p, bool **finished) {
    if (p->first == p->count)
        return false;
    waiting_span *next = &p->spans[p->first];
    p->window = next->span;
    *finished = NULL;
    if (next->span.end - next->span.begin > PREFETCH_WINDOW) {
        p->window.end = next->span.begin += PREFETCH_WINDOW;
    } else {
        *finished = next->finished;
        p->first++;
    }
    if (p->first == p->count)
        p->first = p->count = 0;
    return true;
}

/* A window that fails is skipped: whoever uses those bytes gets the error. */
static void *run_prefetch(void *ctx) {
    tmi_prefetch *p = ctx;
    bool *finished;
    uint64_t at;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        if (!take_window(p, &finished)) {
            pthread_cond_wait(&p->more, &p->lock);
            continue;
        }
        tmi_span window = p->window;
        pthread_mutex_unlock(&p->lock);
        (void)tmi_populate(window, &at);
        pthread_mutex_lock(&p->lock);
        p->window = (tmi_span){NULL, 0, 0};
        if (finished)
            *finished = true;
        pthread_cond_broadcast(&p->progress);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static tmi_prefetch *new_prefetch(tmi_prefetch *inherited) {
    tmi_prefetch *p = tmi_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->process = tmi_process();
    p->inherited = inherited;
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        free(p);
        return NULL;
    }
    if (pthread_cond_init(&p->more, NULL) != 0) {
        pthread_mutex_destroy(&p->lock);
        free(p);
        return NULL;
    }
    if (pthread_cond_init(&p->progress, NULL) != 0) {
        pthread_cond_destroy(&p->more);
        pthread_mutex_destroy(&p->lock);
        free(p);
        return NULL;
    }
    return p;
}

static void free_prefetch(tmi_prefetch *p) {
    pthread_cond_destroy(&p->progress);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    free(p->spans);
    free(p);
}

/* This process's queue, or NULL if it has none. */
static tmi_prefetch *own_prefetch(const tenmap_model *model) {
    tmi_prefetch *p = atomic_load(&((tenmap_model *)(uintptr_t)model)->prefetch);
    return p && p->process == tmi_process() ? p : NULL;
}

/*
 * This process's queue, created if necessary; NULL if out of memory. Threads may race to create it.
 */
static tmi_prefetch *need_prefetch(const tenmap_model *model) {
    _Atomic(tmi_prefetch *) *place = &((tenmap_model *)(uintptr_t)model)->prefetch;
    tmi_prefetch *found = atomic_load(place);
    if (found && found->process == tmi_process())
        return found;
    tmi_prefetch *made = new_prefetch(found);
    if (!made || atomic_compare_exchange_strong(place, &found, made))
        return made;
    free_prefetch(made);
    return found;
}

/*
 * Room for one more span at the end of the queue, or NULL if out of memory. The space at the front,
 * from which the thread has taken spans, is reused once it is half of the array. So each span is
 * moved about once, and a queue that never empties takes at most twice the room of what was queued.
 */
static waiting_span *queue_room(tmi_prefetch *p) {
    if (p->count == p->capacity && p->first > 0 && p->first >= p->capacity / 2) {
        p->count -= p->first;
        memmove(p->spans, p->spans + p->first, p->count * sizeof *p->spans);
        p->first = 0;
    }
    return tmi_grow(p->spans, p->count, &p->capacity, sizeof *p->spans);
}

tenmap_status tmi_prefetch_add(const tenmap_model *model, tmi_span span, tenmap_error *error) {
    tmi_prefetch *p = need_prefetch(model);
    if (!p)
        return tmi_fail_memory(error, sizeof *p, "prefetching");
    int failed = 0;
    pthread_mutex_lock(&p->lock);
    waiting_span *room = queue_room(p);
    if (room)
        p->spans = room;
    if (room && !p->running) {
        failed = tmi_thread_start(&p->thread, run_prefetch, p);
        p->running = failed == 0;
    }
    if (room && p->running)
        room[p->count++] = (waiting_span){tmi_span_outward(span), NULL};
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
    if (failed)
        return tmi_fail_os(error, failed, "%s: cannot start a thread to prefetch",
                           tmi_quote_path(span.shard->bytes.shown).text);
    return room ? TENMAP_OK : tmi_fail_memory(error, sizeof span, "prefetching");
}

void tmi_prefetch_drop(const tenmap_model *model, tmi_span span) {
    tmi_prefetch *p = own_prefetch(model);
    if (!p)
        return;
    tmi_span whole = tmi_span_outward(span);
    pthread_mutex_lock(&p->lock);
    size_t kept = p->first;
    for (size_t i = p->first; i < p->count; i++) {
        waiting_span *s = &p->spans[i];
        if (s->span.shard != whole.shard || s->span.begin < whole.begin || s->span.end > whole.end)
            p->spans[kept++] = *s;
        else if (s->finished)
            *s->finished = true;
    }
    p->count = kept;
    if (p->first == p->count)
        p->first = p->count = 0;
    pthread_cond_broadcast(&p->progress);
    pthread_mutex_unlock(&p->lock);
}

static bool spans_meet(const tmi_span *a, const tmi_span *b) {
    return a->shard == b->shard && a->begin < b->end && b->begin < a->end;
}

/* Puts the span at the front of the queue. False if out of memory. */
static bool put_first(tmi_prefetch *p, tmi_span span, bool *finished) {
    if (p->first == 0) {
        waiting_span *room = tmi_grow(p->spans, p->count, &p->capacity, sizeof *room);
        if (!room)
            return false;
        memmove(room + 1, room, p->count++ * sizeof *room);
        p->spans = room;
        p->first = 1;
    }
    p->spans[--p->first] = (waiting_span){span, finished};
    return true;
}

void tmi_prefetch_wait(const tenmap_model *model, tmi_span span) {
    tmi_prefetch *p = own_prefetch(model);
    if (!p)
        return;
    tmi_span whole = tmi_span_outward(span);
    bool queued = false, finished = false;
    pthread_mutex_lock(&p->lock);
    for (size_t i = p->first; i < p->count && !queued; i++)
        queued = spans_meet(&p->spans[i].span, &whole);
    if (queued && put_first(p, whole, &finished))
        while (!finished)
            pthread_cond_wait(&p->progress, &p->lock);
    while (spans_meet(&p->window, &whole))
        pthread_cond_wait(&p->progress, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void tmi_prefetch_end(tenmap_model *model) {
    tmi_prefetch *p = atomic_exchange(&model->prefetch, NULL);
    if (p && p->process == tmi_process()) {
        tmi_prefetch *inherited = p->inherited;
        pthread_mutex_lock(&p->lock);
        p->stopping = true;
        pthread_cond_signal(&p->more);
        pthread_mutex_unlock(&p->lock);
        if (p->running)
            pthread_join(p->thread, NULL);
        free_prefetch(p);
        p = inherited;
    }
    while (p) { /* safe to free if it was unlocked at the fork; else its memory is leaked */
        tmi_prefetch *inherited = p->inherited;
        if (pthread_mutex_trylock(&p->lock) == 0) {
            free(p->spans);
            free(p);
        }
        p = inherited;
    }
}
