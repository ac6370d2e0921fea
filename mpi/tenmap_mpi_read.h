/* Reads this rank's share of the files, chunk by chunk and ahead of the sending. */
#ifndef TENMAP_MPI_READ_H
#define TENMAP_MPI_READ_H

#include "tenmap_mpi_open.h"
#include "tenmap_mpi_place.h"
#include "tenmap_mpi_requests.h"
#include "tenmap_mpi_streams.h"

/* Requests to the library for one chunk. Those that follow each other in a file are batched. */
typedef struct batch {
    const loading *l;
    tenmap_request requests[BATCH];
    uint64_t begin[BATCH][PLAN_AXES], end[BATCH][PLAN_AXES];
    size_t count;
    uint32_t shard;
    uint64_t behind; /* the file offset after the last one */
    tenmap_error *error;
} batch;

static tenmap_status read_batch(batch *b) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    size_t count = b->count;
    uint32_t asked = b->l->options.threads;
    options.flags = b->l->options.flags ? b->l->options.flags : (uint32_t)TENMAP_LOAD_READ;
    options.threads = !b->l->reading.threaded ? 1 : asked ? asked : DEFAULT_READERS;
    b->count = 0;
    return count ? tenmap_load(b->l->model, b->requests, count, &options, b->error) : TENMAP_OK;
}

/*
 * Adds one block of a tensor. A tensor that has no bytes of its own is loaded by itself, and so is
 * one with more axes than there is room for.
 */
static tenmap_status add_to_batch(batch *b, tenmap_request r, const uint64_t *begin,
                                  const uint64_t *end, uint64_t file_begin, uint64_t file_end) {
    const tenmap_tensor *t = r.tensor;
    bool computed = has_no_bytes(t), deep = t->rank > PLAN_AXES;
    tenmap_status status = TENMAP_OK;
    if (b->count == BATCH || computed || deep || b->shard != t->shard || b->behind != file_begin)
        status = read_batch(b);
    r.begin = deep ? begin : b->begin[b->count];
    r.end = deep ? end : b->end[b->count];
    if (!deep) {
        memcpy(b->begin[b->count], begin, t->rank * sizeof *begin);
        memcpy(b->end[b->count], end, t->rank * sizeof *end);
    }
    b->requests[b->count++] = r;
    b->shard = t->shard;
    b->behind = computed ? UINT64_MAX : file_end;
    return deep && status == TENMAP_OK ? read_batch(b) : status;
}

/*
 * Reads elements [first, last) of a tensor as blocks: partial rows, then whole ones, and so on for
 * each axis.
 */
static tenmap_status read_blocks(batch *b, const plan_stream *s, uint64_t first, uint64_t last,
                                 unsigned char *dst) {
    const tenmap_tensor *t = tensor_of(b->l->model, s->id);
    uint64_t *begin = b->l->reading.corners, *end = begin + b->l->reading.axes;
    uint64_t end_axis = last_axis(t, s->dtype);
    tenmap_status status = TENMAP_OK;
    while (first < last && status == TENMAP_OK) {
        uint64_t inner = 1, rest = first;
        uint32_t axis = t->rank ? t->rank - 1 : 0;
        for (uint32_t d = axis + 1; d-- > 0;) {
            uint64_t extent = axis_of(t, d, end_axis);
            begin[d] = extent ? rest % extent : 0; /* no extent is 0 here */
            rest = extent ? rest / extent : 0;
        }
        while (axis > 0 && begin[axis] == 0 && last - first >= inner * axis_of(t, axis, end_axis)) {
            end[axis] = axis_of(t, axis, end_axis);
            inner *= end[axis--];
        }
        uint64_t rows = (last - first) / inner, left = axis_of(t, axis, end_axis) - begin[axis];
        rows = rows < left ? rows : left;
        end[axis] = begin[axis] + rows;
        for (uint32_t d = 0; d < axis; d++)
            end[d] = begin[d] + 1;
        tenmap_request r = {.tensor = t, .as = s->wire, .flags = s->flags, .dst = dst};
        r.stored_as = s->dtype == t->dtype ? TENMAP_AS_STORED : s->dtype;
        r.dst_bytes = (size_t)((bits_of(s->wire, rows * inner) + 7) / 8);
        uint64_t at = t->file_offset + bits_of(s->dtype, first) / 8;
        status = add_to_batch(b, r, begin, end, at, at + bits_of(s->dtype, rows * inner) / 8);
        dst += r.dst_bytes;
        first += rows * inner;
    }
    return status;
}

/*
 * Reads rows of 4- or 6-bit elements that are not whole bytes, piece by piece, each bit to its
 * place.
 */
static tenmap_status read_odd_rows(batch *b, const plan_segment *seg, uint64_t begin, uint64_t end,
                                   unsigned char *raw) {
    const plan_stream *s = &b->l->plan.streams[seg->stream];
    uint64_t row = last_axis(tensor_of(b->l->model, s->id), s->dtype);
    unsigned char piece[PIECE];
    tenmap_status status = TENMAP_OK;
    while (begin < end && status == TENMAP_OK) {
        uint64_t n = row - begin % row;
        n = n < end - begin ? n : end - begin;
        n = n < PIECE ? n : PIECE;
        status = read_blocks(b, s, begin, begin + n, piece);
        if (status == TENMAP_OK)
            status = read_batch(b);
        copy_bits(raw + seg->at, (begin - seg->begin) * s->wire_bits, piece, 0, n * s->wire_bits);
        begin += n;
    }
    return status;
}

/*
 * Reads units [begin, end) of a segment into their place in the chunk. It always uses tenmap_load,
 * which checks its reads: tenmap_read on a mapped model touches the mapping, which is SIGBUS if the
 * file was truncated.
 */
static tenmap_status read_run(batch *b, const plan_segment *seg, uint64_t begin, uint64_t end,
                              unsigned char *raw) {
    const plan_stream *s = &b->l->plan.streams[seg->stream];
    uint32_t stored_bits = tenmap_dtype_bits(s->dtype);
    uint64_t together = unit_elements(s->dtype),
             whole = 1; /* the units that make whole bytes in both dtypes */
    if (s->wire_bits % 8 || stored_bits % 8)
        whole = s->wire_bits % 4 || stored_bits % 4 ? 4 : 2;
    if (last_axis(tensor_of(b->l->model, s->id), s->dtype) % whole != 0) {
        tenmap_status status = read_batch(b); /* it gets its own batch */
        return status == TENMAP_OK ? read_odd_rows(b, seg, begin, end, raw) : status;
    }
    begin -= begin % whole;
    end += end % whole ? whole - end % whole : 0;
    return read_blocks(b, s, begin * together, end * together,
                       raw + seg->at + (begin - seg->begin) * s->wire_bits / 8);
}

static tenmap_status read_chunk(const loading *l, const plan_chunk *c, unsigned char *raw,
                                tenmap_error *error) {
    batch b = {.l = l, .error = error, .behind = UINT64_MAX};
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; i < c->segment_count && status == TENMAP_OK; i++) {
        const plan_segment *seg = &c->segments[i];
        const plan_stream *s = &l->plan.streams[seg->stream];
        uint64_t begin, end, at = seg->begin;
        while (status == TENMAP_OK && plan_wanted_run(&l->plan, s, at, seg->end, &begin, &end) &&
               begin < seg->end) {
            end = end < seg->end ? end : seg->end;
            status = read_run(&b, seg, begin, end, raw);
            at = end;
        }
    }
    return status == TENMAP_OK ? read_batch(&b) : status;
}

/* Reads the next requested chunk. Only one thread calls this. */
static void read_one(loading *l, uint64_t number) {
    own_chunk *own = &l->reading.own[number % OWN_CHUNKS];
    const own_chunk *last = &l->reading.own[(number + OWN_CHUNKS - 1) % OWN_CHUNKS];
    memset(&own->error, 0, sizeof own->error);
    own->status = last->status; /* its message has been reported already */
    if (own->status == TENMAP_OK)
        own->status = read_chunk(l, &own->chunk, own->raw, &own->error);
    own->error.index = 0; /* it is not a request of the caller */
}

static void *read_ahead(void *ctx) {
    loading *l = ctx;
    reading *r = &l->reading;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        if (r->done == r->asked) {
            pthread_cond_wait(&r->turn, &r->lock);
            continue;
        }
        uint64_t number = r->done;
        pthread_mutex_unlock(&r->lock);
        read_one(l, number);
        pthread_mutex_lock(&r->lock);
        r->done++;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Requests as many chunks of this rank as there are free buffers. */
static void ask_ahead(loading *l) {
    reading *r = &l->reading;
    bool more = true;
    for (;;) {
        own_chunk *own = &r->own[r->asked % OWN_CHUNKS];
        /* Cannot fail: the walk without data has made room for every chunk. */
        if (own->held || !plan_next(&l->plan, &r->walk, &r->at, r->end, &own->chunk, &more) ||
            !more)
            return;
        own->held = true;
        if (r->threaded)
            pthread_mutex_lock(&r->lock);
        r->asked++;
        if (r->threaded) {
            pthread_cond_signal(&r->turn);
            pthread_mutex_unlock(&r->lock);
        }
    }
}

static bool is_read(loading *l, uint64_t number) {
    reading *r = &l->reading;
    if (!r->threaded) {
        if (r->done < r->asked)
            read_one(l, r->done++);
        return r->done > number;
    }
    pthread_mutex_lock(&r->lock);
    bool done = r->done > number;
    pthread_mutex_unlock(&r->lock);
    return done;
}

static void begin_reading(loading *l) {
    reading *r = &l->reading;
    if (!may_have_threads() || pthread_mutex_init(&r->lock, NULL) != 0)
        return;
    if (pthread_cond_init(&r->turn, NULL) != 0) {
        pthread_mutex_destroy(&r->lock);
        return;
    }
    r->threaded = true; /* before the thread reads it */
    if (pthread_create(&r->thread, NULL, read_ahead, l) != 0) {
        r->threaded = false; /* then the calling thread reads */
        pthread_cond_destroy(&r->turn);
        pthread_mutex_destroy(&r->lock);
    }
}

static void end_reading(loading *l) {
    reading *r = &l->reading;
    if (!r->threaded)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->turn);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->turn);
    pthread_mutex_destroy(&r->lock);
    r->threaded = false;
}

#endif
