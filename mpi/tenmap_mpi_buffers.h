/* All memory of a load, allocated before the first byte is read. */
#ifndef TENMAP_MPI_BUFFERS_H
#define TENMAP_MPI_BUFFERS_H

#include "tenmap_mpi_deliver.h"
#include "tenmap_mpi_errors.h"
#include "tenmap_mpi_requests.h"

/* Counts what this rank needs for a chunk: its MPI requests, and the room for its messages. */
static void survey_chunk(loading *l, const plan_chunk *c, int reader) {
    survey *most = &l->most;
    uint64_t room = 0;
    int requests = 0;
    plan_route route;
    for (size_t m = 0; m < c->message_count; m++) {
        const plan_message *message = &c->messages[m];
        if (message->bytes > INT_MAX) /* the same on all ranks; MPI counts in int */
            fail_here(l, TENMAP_ERR_LIMIT,
                      "a message of many small pieces would take %llu bytes; give a smaller "
                      "chunk_bytes",
                      (unsigned long long)message->bytes);
        if (reader != l->rank && !is_member(l, message->group))
            continue;
        room += (message->bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
        requests++;
        if (!for_all(l, message->group)) {
            plan_find_route(&l->plan, message->group, reader, l->rank, l->scratch, &route);
            requests += route.children;
        }
    }
    if (reader == l->rank && c->bytes + PLAN_ALIGN > most->raw)
        most->raw = c->bytes + PLAN_ALIGN;
    if (!(reader == l->rank && c->as_it_lies) && room > most->room)
        most->room = room;
    most->requests = requests > most->requests ? requests : most->requests;
    most->messages = c->message_count > most->messages ? c->message_count : most->messages;
}

/* Runs the schedule without data. */
static bool look_ahead(loading *l) {
    for (int k = 0; k < l->plan.readers; k++) {
        plan_place at = l->at[k];
        uint64_t steps = 0;
        bool more = true;
        while (plan_place_before(at, l->end[k])) {
            if (!plan_next(&l->plan, &l->walk, &at, l->end[k], &l->most.chunk, &more)) {
                fail_here(l, TENMAP_ERR_MEMORY, "out of memory: the messages of a chunk");
                return false;
            }
            survey_chunk(l, &l->most.chunk, l->plan.reader[k]);
            if (l->status != TENMAP_OK)
                return false;
            steps++;
        }
        l->most.steps = steps > l->most.steps ? steps : l->most.steps;
    }
    return true;
}

static bool reserve_chunk(loading *l, plan_chunk *c) {
    *c = l->most.chunk;
    c->segments = take_memory(l, c->segment_room, sizeof *c->segments, "chunks");
    c->pieces = take_memory(l, c->piece_room, sizeof *c->pieces, "chunks");
    c->messages = take_memory(l, c->message_room, sizeof *c->messages, "chunks");
    return c->segments && c->pieces && c->messages;
}

static void reserve_flight(loading *l, flight *f) {
    size_t requests = (size_t)l->most.requests;
    if (!reserve_chunk(l, &f->chunk))
        return;
    f->room = take_bytes(l, l->most.room, "chunks");
    f->at = take_memory(l, l->most.messages, sizeof *f->at, "messages");
    f->requests = take_memory(l, requests, sizeof *f->requests, "messages");
    f->about = take_memory(l, requests, sizeof *f->about, "messages");
    f->finished = take_memory(l, requests, sizeof *f->finished, "messages");
    f->statuses = take_memory(l, requests, sizeof *f->statuses, "messages");
}

/* Makes room for the corners of blocks of any tensor. */
static bool reserve_corners(loading *l) {
    reading *r = &l->reading;
    r->axes = PLAN_AXES;
    for (size_t i = 0; i < l->plan.stream_count; i++) {
        uint32_t rank = tensor_of(l->model, l->plan.streams[i].id)->rank;
        r->axes = rank > r->axes ? rank : r->axes;
    }
    r->corners = take_memory(l, 2 * r->axes, sizeof *r->corners, "the axes of a tensor");
    return r->corners;
}

static void take_buffers(loading *l) {
    size_t readers = (size_t)l->plan.readers;
    if (!reserve_corners(l))
        return;
    l->at = take_memory(l, 2 * readers, sizeof *l->at, "the readers");
    if (!l->at || !plan_walk_begin(&l->walk, &l->plan) ||
        !plan_walk_begin(&l->reading.walk, &l->plan)) {
        fail_here(l, TENMAP_ERR_MEMORY, "out of memory: the messages of a chunk");
        return;
    }
    l->end = l->at + readers;
    for (int k = 0; k < l->plan.readers; k++) {
        l->at[k] = plan_border(&l->plan, k);
        l->end[k] = plan_border(&l->plan, k + 1);
        if (l->plan.reader[k] == l->rank) {
            l->reading.at = l->at[k];
            l->reading.end = l->end[k];
        }
    }
    if (!look_ahead(l))
        return;
    for (int i = 0; i < FLIGHTS; i++)
        reserve_flight(l, &l->flights[i]);
    for (int i = 0; i < OWN_CHUNKS && l->status == TENMAP_OK; i++) {
        own_chunk *own = &l->reading.own[i];
        own->raw = take_bytes(l, l->most.raw, "chunks");
        if (own->raw)
            (void)reserve_chunk(l, &own->chunk);
    }
    l->counts.buffers = OWN_CHUNKS * l->most.raw + FLIGHTS * l->most.room;
    l->counts.plan = plan_bytes(&l->plan) + l->lists_words * sizeof *l->lists;
}

/* Not after an error of MPI, which may still write into the buffers. */
static void free_buffers(loading *l) {
    if (l->mpi_failed)
        return;
    for (int i = 0; i < FLIGHTS; i++) {
        flight *f = &l->flights[i];
        plan_chunk_free(&f->chunk);
        free(f->room);
        free(f->at);
        free(f->requests);
        free(f->about);
        free(f->finished);
        free(f->statuses);
    }
    for (int i = 0; i < OWN_CHUNKS; i++) {
        plan_chunk_free(&l->reading.own[i].chunk);
        free(l->reading.own[i].raw);
    }
    free(l->reading.corners);
    plan_chunk_free(&l->most.chunk);
    plan_walk_free(&l->reading.walk);
    plan_walk_free(&l->walk);
    plan_free(&l->plan);
    free(l->at);
    free(l->mine);
    free(l->known);
    free(l->list);
    free(l->lists);
    free(l->heads);
    free(l->counts_of);
}

#endif
