/* Delivers chunks: sends, forwards and receives their messages, on the schedule of all ranks. */
#ifndef TENMAP_MPI_DELIVER_H
#define TENMAP_MPI_DELIVER_H

#include <time.h>

#include "tenmap_mpi_errors.h"
#include "tenmap_mpi_place.h"
#include "tenmap_mpi_read.h"

static bool for_all(const loading *l, uint32_t group) {
    return l->plan.groups[group].members == (size_t)l->size;
}

static bool is_member(const loading *l, uint32_t group) {
    return plan_has(l->plan.sets + group * l->plan.words, l->taker_of[l->rank]);
}

static void report_progress(loading *l) {
    uint64_t done = l->delivered / 8, total = l->plan.total / 8;
    if (l->options.progress && done < total && l->status == TENMAP_OK &&
        l->options.progress(l->options.ctx, done, total) != 0)
        fail_here(l, TENMAP_ERR_CANCELLED, "the load was cancelled by its progress function");
}

/* Adds an MPI request that this chunk waits for. */
static MPI_Request *next_request(flight *f, uint32_t about) {
    f->about[f->request_count] = about;
    f->pending++;
    return &f->requests[f->request_count++];
}

/* Forwards a message to this rank's children in the tree. */
static bool send_on(loading *l, flight *f, uint32_t m, const plan_route *route) {
    const plan_message *message = &f->chunk.messages[m];
    for (int i = 0; i < route->children; i++) {
        if (!went_well(l,
                       MPI_Isend(f->base + f->at[m], (int)message->bytes, MPI_BYTE, route->child[i],
                                 (int)(f->tag + m), l->comm, next_request(f, NOT_A_MESSAGE))))
            return false;
        l->counts.sent += message->bytes;
    }
    return true;
}

/*
 * A message has arrived: forwards it, then writes it into this rank's destinations unless it is
 * marked bad.
 */
static bool arrived(loading *l, flight *f, uint32_t m) {
    const plan_message *message = &f->chunk.messages[m];
    plan_route route;
    l->counts.received += message->bytes;
    if (!for_all(l, message->group)) {
        plan_find_route(&l->plan, message->group, f->reader, l->rank, l->scratch, &route);
        if (!send_on(l, f, m, &route))
            return false;
    }
    if (f->base[f->at[m] + message->bytes - 1] == 0 && l->status == TENMAP_OK) {
        uint64_t now = l->when;
        l->when = f->step;
        place_message(l, f, m);
        l->when = l->status == TENMAP_OK ? now : f->step;
    }
    return true;
}

static void land(loading *l, flight *f) {
    f->busy = false;
    l->delivered += f->chunk.read;
    if (f->own) {
        f->own->held = false;
        ask_ahead(l);
    }
    report_progress(l);
}

/* Tests everything in flight once; sets *moved if something happened. */
static bool look(loading *l, bool *moved) {
    for (int i = 0; i < FLIGHTS; i++) {
        flight *f = &l->flights[i];
        int n = 0;
        if (!f->busy)
            continue;
        if (f->pending && !went_well(l, MPI_Testsome(f->request_count, f->requests, &n, f->finished,
                                                     f->statuses)))
            return false;
        n = n == MPI_UNDEFINED ? 0 : n;
        for (int k = 0; k < n; k++) {
            uint32_t m = f->about[f->finished[k]];
            f->pending--;
            *moved = true;
            if (m != NOT_A_MESSAGE && !arrived(l, f, m))
                return false;
        }
        if (f->pending == 0) {
            land(l, f);
            *moved = true;
        }
    }
    return true;
}

/* Yields the processor when nothing happens, for longer the longer that lasts. */
static void rest(unsigned *idle) {
    struct timespec pause = {0, *idle < 20 ? 0 : *idle < 200 ? 20000 : 100000};
    ++*idle;
    nanosleep(&pause, NULL);
}

/* Makes progress while waiting. `idle` counts how often nothing happened. */
static bool wait_a_little(loading *l, unsigned *idle) {
    bool moved = false;
    if (!look(l, &moved))
        return false;
    if (moved)
        *idle = 0;
    else
        rest(idle);
    return true;
}

static bool wait_for_flight(loading *l, const flight *f) {
    unsigned idle = 0;
    while (f->busy)
        if (!wait_a_little(l, &idle))
            return false;
    return true;
}

static bool wait_for_read(loading *l, uint64_t number) {
    unsigned idle = 0;
    while (!is_read(l, number))
        if (!wait_a_little(l, &idle))
            return false;
    return true;
}

/* Packs the messages from the chunk as it was read: each cell's runs one after the other. */
static void pack(const loading *l, flight *f, const unsigned char *raw) {
    const plan_chunk *c = &f->chunk;
    for (size_t i = 0; i < c->piece_count; i++) {
        const plan_piece *piece = &c->pieces[i];
        const plan_segment *seg = &c->segments[piece->segment];
        const plan_stream *s = &l->plan.streams[seg->stream];
        unsigned char *dst = f->base + f->at[piece->message] + piece->at;
        uint64_t begin, end, bit = 0;
        for (uint64_t at = seg->begin;
             plan_run(s, &l->plan.cells[piece->cell].box, at, &begin, &end) && begin < seg->end;
             at = end) {
            end = end < seg->end ? end : seg->end;
            copy_bits(dst, bit, raw + seg->at, (begin - seg->begin) * s->wire_bits,
                      (end - begin) * s->wire_bits);
            bit += (end - begin) * s->wire_bits;
        }
    }
}

/* Sends this rank's own messages to their receivers, and places what it wants of them itself. */
static bool send_all(loading *l, flight *f) {
    plan_route route;
    for (uint32_t m = 0; m < f->chunk.message_count; m++) {
        const plan_message *message = &f->chunk.messages[m];
        f->base[f->at[m] + message->bytes - 1] = f->bad;
        if (for_all(l, message->group)) {
            if (!went_well(l, MPI_Ibcast(f->base + f->at[m], (int)message->bytes, MPI_BYTE, l->rank,
                                         l->comm, next_request(f, NOT_A_MESSAGE))))
                return false;
        } else {
            plan_find_route(&l->plan, message->group, l->rank, l->rank, l->scratch, &route);
            if (!send_on(l, f, m, &route))
                return false;
        }
        if (!f->bad && is_member(l, message->group))
            place_message(l, f, m);
    }
    return true;
}

/* Starts a chunk that this rank has read: sends all of its messages. */
static bool set_out(loading *l, flight *f, uint64_t number) {
    own_chunk *own = &l->reading.own[number % OWN_CHUNKS];
    uint64_t at = 0;
    if (!wait_for_read(l, number))
        return false;
    l->when = l->status == TENMAP_OK ? f->step : l->when;
    if (own->status != TENMAP_OK)
        fail_with(l, own->status, &own->error);
    f->bad = l->status != TENMAP_OK;
    f->own = f->chunk.as_it_lies ? own : NULL;
    f->base = f->own ? own->raw : f->room;
    for (size_t m = 0; m < f->chunk.message_count; m++) {
        uint64_t bytes = f->chunk.messages[m].bytes;
        f->at[m] = at;
        at += (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    }
    if (!f->own) {
        if (!f->bad)
            pack(l, f, own->raw);
        own->held = false;
        ask_ahead(l);
    }
    l->counts.read += f->chunk.read;
    return send_all(l, f);
}

/* Starts a chunk that another rank reads: waits for the messages that concern this rank. */
static bool await(loading *l, flight *f) {
    uint64_t at = 0;
    plan_route route;
    f->base = f->room;
    for (uint32_t m = 0; m < f->chunk.message_count; m++) {
        const plan_message *message = &f->chunk.messages[m];
        int bytes = (int)message->bytes, code;
        if (!is_member(l, message->group))
            continue;
        f->at[m] = at;
        at += (message->bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
        if (for_all(l, message->group)) {
            code = MPI_Ibcast(f->base + f->at[m], bytes, MPI_BYTE, f->reader, l->comm,
                              next_request(f, m));
        } else {
            plan_find_route(&l->plan, message->group, f->reader, l->rank, l->scratch, &route);
            code = MPI_Irecv(f->base + f->at[m], bytes, MPI_BYTE, route.parent, (int)(f->tag + m),
                             l->comm, next_request(f, m));
        }
        if (!went_well(l, code))
            return false;
    }
    return true;
}

/*
 * Whether some rank has failed, which all ranks learn in the same step: the result of the vote
 * VOTES steps ago. Also begins the vote of this step.
 */
static bool vote(loading *l, uint64_t step, bool last, bool *stop) {
    int i = (int)(step % VOTES), done = 0;
    unsigned idle = 0;
    if (step >= VOTES || last) {
        while (!done) {
            bool moved = false;
            if (!went_well(l, MPI_Test(&l->vote[i], &done, MPI_STATUS_IGNORE)) || !look(l, &moved))
                return false;
            if (!done && !moved)
                rest(&idle);
        }
        *stop = *stop || l->vote_out[i];
    }
    if (last || *stop)
        return true;
    l->vote_in[i] = l->status != TENMAP_OK;
    return went_well(l, MPI_Iallreduce(&l->vote_in[i], &l->vote_out[i], 1, MPI_INT, MPI_MAX,
                                       l->comm, &l->vote[i]));
}

/* Starts the next chunk of a reader, once there is room for it. */
static bool take_off(loading *l, int k, uint64_t item, uint64_t step, uint64_t *own) {
    flight *f = &l->flights[item % FLIGHTS];
    bool more;
    if (!wait_for_flight(l, f))
        return false;
    (void)plan_next(&l->plan, &l->walk, &l->at[k], l->end[k], &f->chunk, &more);
    if (!more)
        return true; /* nobody wants any of the rest, so no rank has a chunk here */
    f->reader = l->plan.reader[k];
    f->step = step;
    f->bad = false;
    f->own = NULL;
    f->request_count = f->pending = 0;
    f->tag = (uint32_t)(item % TAGS_IN_TURN) * PLAN_MESSAGES;
    bool moved;
    if (!(f->reader == l->rank ? set_out(l, f, (*own)++) : await(l, f)))
        return false;
    f->busy = true;
    return look(l, &moved);
}

/*
 * The schedule: in each step, one chunk of each reader. Returns when nothing is in flight anymore.
 */
static bool deliver(loading *l) {
    uint64_t item = 0, own = 0, step;
    bool stop = false;
    report_progress(l);
    ask_ahead(l);
    for (step = 0; step < l->most.steps && !stop; step++) {
        if (!vote(l, step, false, &stop))
            return false;
        for (int k = 0; k < l->plan.readers && !stop; k++)
            if (plan_place_before(l->at[k], l->end[k]) && !take_off(l, k, item++, step, &own))
                return false;
    }
    for (int i = 0; i < FLIGHTS; i++)
        if (!wait_for_flight(l, &l->flights[i]))
            return false;
    for (int i = 0; i < VOTES; i++)
        if (!vote(l, step + (uint64_t)i, true, &stop))
            return false;
    return true;
}

#endif
