/* Reads announced ranges of files in chunks, on threads that run ahead of the command. */
#include "remote/read_ahead.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* The most bytes of a chunk. Ranges with smaller gaps between them are read together. */
enum { CHUNK_BYTES = 4 << 20, MOST_GAP = 128 << 10 };
/*
 * How many chunks are read ahead of the one that was needed last, and how many are held in memory:
 * 96 MiB, and those that are being read or copied.
 */
enum { MOST_AHEAD = 8, MOST_HELD = 24, MOST_READERS = 16 };

typedef enum chunk_state { CHUNK_ABSENT, CHUNK_COMING, CHUNK_HERE, CHUNK_FAILED } chunk_state;

typedef struct chunk {
    void *file;
    uint64_t begin;
    size_t size;
    size_t place; /* in `order` */
    unsigned char *bytes;
    chunk_state state;
    unsigned copying;   /* threads that use `bytes` now */
    uint64_t last_used; /* as `clock` counts */
    bool needed;        /* a read has asked for it */
} chunk;

struct read_ahead {
    const tenmap_io *io;
    chunk *chunks; /* sorted by file and offset */
    size_t count;
    size_t *order;   /* the chunks in the order in which they will be needed */
    size_t position; /* chunks are read ahead from this place of the order on */
    chunk **held;    /* those that have `bytes` */
    size_t held_count;
    uint64_t clock;
    tenmap_error error; /* of the first read that failed */
    bool stopping;
    pthread_mutex_t lock;   /* guards all of this once threads run */
    pthread_cond_t changed; /* a chunk has arrived, or the position has moved */
    pthread_t readers[MOST_READERS];
    unsigned reader_count;
};

/* Planning. */

static int by_file(const void *a, const void *b) {
    const planned_range *x = a, *y = b;
    if (x->file != y->file)
        return (uintptr_t)x->file < (uintptr_t)y->file ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Cuts [begin, end) into chunks of about the same size. */
static void add_chunks(read_ahead *a, const planned_range *run) {
    uint64_t size = run->end - run->begin, pieces = (size + CHUNK_BYTES - 1) / CHUNK_BYTES;
    for (uint64_t i = 0, at = run->begin; i < pieces; i++) {
        uint64_t left = run->end - at;
        size_t step = (size_t)(left / (pieces - i));
        a->chunks = need_next(a->chunks, a->count, sizeof *a->chunks);
        a->chunks[a->count++] =
            (chunk){.file = run->file, .begin = at, .size = step, .place = SIZE_MAX};
        at += step;
    }
}

/* Joins ranges that lie close together, in the order of the file. */
static void make_chunks(read_ahead *a, planned_range *ranges, size_t count) {
    planned_range run = {NULL, 0, 0};
    qsort(ranges, count, sizeof *ranges, by_file);
    for (size_t i = 0; i < count; i++) {
        const planned_range *r = &ranges[i];
        if (r->file == run.file && (r->begin <= run.end || r->begin - run.end <= MOST_GAP)) {
            run.end = r->end > run.end ? r->end : run.end;
            continue;
        }
        add_chunks(a, &run);
        run = *r;
    }
    add_chunks(a, &run);
}

/* The first chunk that ends after this offset, or one of a later file, or none: `count`. */
static size_t chunk_after(const read_ahead *a, const void *file, uint64_t offset) {
    size_t low = 0, high = a->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const chunk *c = &a->chunks[middle];
        bool before =
            c->file == file ? c->begin + c->size <= offset : (uintptr_t)c->file < (uintptr_t)file;
        *(before ? &low : &high) = before ? middle + 1 : middle;
    }
    return low;
}

/* Orders the chunks by the first range, as given, that needs them. */
static void order_chunks(read_ahead *a, const planned_range *given, size_t count) {
    size_t places = 0;
    a->order = need(a->count, sizeof *a->order);
    for (size_t i = 0; i < count; i++)
        for (size_t k = chunk_after(a, given[i].file, given[i].begin);
             k < a->count && a->chunks[k].file == given[i].file &&
             a->chunks[k].begin < given[i].end;
             k++)
            if (a->chunks[k].place == SIZE_MAX) {
                a->chunks[k].place = places;
                a->order[places++] = k;
            }
}

/* Reading. All of these require the lock. */

/* Frees the chunk that was used the longest time ago, if possible one that was needed already. */
static void make_room(read_ahead *a) {
    size_t oldest = SIZE_MAX;
    if (a->held_count < MOST_HELD)
        return;
    for (size_t i = 0; i < a->held_count; i++) {
        const chunk *c = a->held[i], *best = oldest == SIZE_MAX ? NULL : a->held[oldest];
        if (c->state != CHUNK_HERE || c->copying)
            continue;
        if (!best || c->needed > best->needed ||
            (c->needed == best->needed && c->last_used < best->last_used))
            oldest = i;
    }
    if (oldest == SIZE_MAX)
        return;
    free(a->held[oldest]->bytes);
    a->held[oldest]->bytes = NULL;
    a->held[oldest]->state = CHUNK_ABSENT;
    a->held[oldest] = a->held[--a->held_count];
}

/* Reads an absent chunk; releases the lock meanwhile. */
static void fetch_chunk(read_ahead *a, chunk *c) {
    tenmap_error error = {.status = TENMAP_OK};
    make_room(a);
    c->bytes = need(c->size, 1);
    c->state = CHUNK_COMING;
    a->held = need_next(a->held, a->held_count, sizeof *a->held);
    a->held[a->held_count++] = c;
    pthread_mutex_unlock(&a->lock);
    tenmap_status status = a->io->read(a->io->ctx, c->file, c->begin, c->bytes, c->size, &error);
    pthread_mutex_lock(&a->lock);
    c->state = status == TENMAP_OK ? CHUNK_HERE : CHUNK_FAILED;
    c->last_used = a->clock++;
    if (status != TENMAP_OK && a->error.status == TENMAP_OK) {
        a->error = error;
        a->error.status = status;
    }
    pthread_cond_broadcast(&a->changed);
}

static chunk *next_ahead(const read_ahead *a) {
    for (size_t i = a->position; i < a->count && i - a->position < MOST_AHEAD; i++) {
        chunk *c = &a->chunks[a->order[i]];
        if (c->state == CHUNK_ABSENT && !c->needed)
            return c;
    }
    return NULL;
}

/*
 * Notes that a read needs the chunk. A chunk that is needed again after it was dropped begins
 * another pass: those after it will be needed again, too.
 */
static void need_chunk(read_ahead *a, chunk *c) {
    if (c->needed && c->state != CHUNK_ABSENT)
        return;
    for (size_t i = c->place + 1; c->needed && i < a->count && i - c->place <= MOST_AHEAD; i++)
        a->chunks[a->order[i]].needed = false;
    c->needed = true;
    a->position = c->place;
    pthread_cond_broadcast(&a->changed);
}

static void *run_reader(void *argument) {
    read_ahead *a = argument;
    pthread_mutex_lock(&a->lock);
    while (!a->stopping) {
        chunk *c = a->error.status == TENMAP_OK ? next_ahead(a) : NULL;
        if (c)
            fetch_chunk(a, c);
        else
            pthread_cond_wait(&a->changed, &a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* The public functions. */

read_ahead *read_ahead_new(const tenmap_io *io, planned_range *ranges, size_t count,
                           unsigned threads) {
    read_ahead *a = need(1, sizeof *a);
    planned_range *given = need(count, sizeof *given);
    *a = (read_ahead){.io = io};
    if (count)
        memcpy(given, ranges, count * sizeof *given);
    make_chunks(a, ranges, count);
    order_chunks(a, given, count);
    free(given);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    threads = threads < MOST_READERS ? threads : MOST_READERS;
    /* A single chunk is read by the thread that needs it. */
    while (a->count > 1 && a->reader_count < threads && a->reader_count < a->count &&
           pthread_create(&a->readers[a->reader_count], NULL, run_reader, a) == 0)
        a->reader_count++;
    return a;
}

void read_ahead_free(read_ahead *a) {
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    while (a->reader_count)
        pthread_join(a->readers[--a->reader_count], NULL);
    for (size_t i = 0; i < a->held_count; i++)
        free(a->held[i]->bytes);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->changed);
    free(a->held);
    free(a->chunks);
    free(a->order);
    free(a);
}

/* Waits until the chunk is in memory, and reads it if no other thread does. Requires the lock. */
static tenmap_status await_chunk(read_ahead *a, chunk *c, tenmap_error *error) {
    need_chunk(a, c);
    while (c->state == CHUNK_ABSENT || c->state == CHUNK_COMING) {
        if (c->state == CHUNK_ABSENT)
            fetch_chunk(a, c);
        else
            pthread_cond_wait(&a->changed, &a->lock);
    }
    if (c->state == CHUNK_HERE)
        return TENMAP_OK;
    *error = a->error;
    return a->error.status;
}

tenmap_status read_ahead_serve(read_ahead *a, const planned_range *wanted, void *dst,
                               size_t *served, tenmap_error *error) {
    size_t k = chunk_after(a, wanted->file, wanted->begin);
    chunk *c = k < a->count ? &a->chunks[k] : NULL;
    *served = 0;
    if (!c || c->file != wanted->file || c->begin > wanted->begin)
        return TENMAP_OK;
    pthread_mutex_lock(&a->lock);
    tenmap_status status = await_chunk(a, c, error);
    if (status == TENMAP_OK) {
        size_t skip = (size_t)(wanted->begin - c->begin), rest = c->size - skip;
        uint64_t bytes = wanted->end - wanted->begin;
        *served = bytes < rest ? (size_t)bytes : rest;
        c->copying++;
        c->last_used = a->clock++;
        pthread_mutex_unlock(&a->lock);
        memcpy(dst, c->bytes + skip, *served);
        pthread_mutex_lock(&a->lock);
        c->copying--;
    }
    pthread_mutex_unlock(&a->lock);
    return status;
}
