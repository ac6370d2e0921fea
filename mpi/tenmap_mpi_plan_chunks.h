/* A reader's walk through its share, chunk by chunk, and the messages of each chunk. */
#ifndef TENMAP_MPI_PLAN_CHUNKS_H
#define TENMAP_MPI_PLAN_CHUNKS_H

#include "tenmap_mpi_plan_boxes.h"
#include "tenmap_mpi_plan_types.h"
#include "tenmap_mpi_plan_wanted.h"

/* Where the k-th reader begins and the one before it ends. */
static plan_place plan_border(const plan *p, int k) {
    uint64_t bits = p->total / (uint64_t)p->readers * (uint64_t)k;
    size_t low = 0, n = p->stream_count;
    if (k >= p->readers || n == 0)
        return (plan_place){p->stream_count, 0};
    while (n > 1) {
        size_t half = n / 2;
        if (p->streams[low + half].before <= bits)
            low += half;
        n -= half;
    }
    const plan_stream *s = &p->streams[low];
    uint64_t first = plan_unit_after(p, s, (bits - s->before) / s->read_bits);
    return (plan_place){low, first - first % s->step};
}

static bool plan_place_before(plan_place a, plan_place b) {
    return a.stream != b.stream ? a.stream < b.stream : a.unit < b.unit;
}

/* Bytes that this many units take in a chunk or a message, up to where the next may begin. */
static uint64_t plan_room(const plan_stream *s, uint64_t units) {
    uint64_t bytes = (units * s->wire_bits + 7) / 8;
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* The end of a segment that begins here and fits into `room` bytes; `begin` if nothing fits. */
static uint64_t plan_segment_end(const plan_stream *s, uint64_t begin, uint64_t room,
                                 bool first_in_chunk) {
    uint64_t fit = room * 8 / s->wire_bits, end = begin + fit;
    if (fit >= s->units - begin)
        return s->units;
    end -= end % s->step;
    if (end <= begin && first_in_chunk) /* a step that exceeds a chunk makes a larger chunk */
        end = begin - begin % s->step + s->step;
    return end < begin ? begin : end < s->units ? end : s->units;
}

/* Finds or adds the message of a group in this chunk. */
static bool plan_message_of(plan_walk *w, plan_chunk *c, uint32_t group, uint32_t *message) {
    if (w->stamp[group] != w->now) {
        if (!PLAN_GROW(c->messages, c->message_count, c->message_room))
            return false;
        w->stamp[group] = w->now;
        w->message_of[group] = (uint32_t)c->message_count;
        c->messages[c->message_count++] = (plan_message){group, 0};
    }
    *message = w->message_of[group];
    return true;
}

/* Adds a segment, and its pieces to the messages of their groups. */
static bool plan_add_segment(const plan *p, plan_walk *w, plan_chunk *c, plan_segment segment) {
    const plan_stream *s = &p->streams[segment.stream];
    size_t before = c->piece_count;
    if (!PLAN_GROW(c->segments, c->segment_count, c->segment_room))
        return false;
    size_t i, last;
    plan_cells_of(p, s, segment.begin, segment.end, &i, &last);
    for (; i < last; i++) {
        const plan_box *box = &p->cells[i].box;
        uint64_t units = plan_below(s, box, segment.end) - plan_below(s, box, segment.begin);
        uint32_t message;
        if (units == 0)
            continue;
        if (!plan_message_of(w, c, p->cells[i].group, &message) ||
            !PLAN_GROW(c->pieces, c->piece_count, c->piece_room))
            return false;
        uint64_t *bytes = &c->messages[message].bytes;
        c->pieces[c->piece_count++] =
            (plan_piece){(uint32_t)c->segment_count, message, i, units, *bytes};
        *bytes += plan_room(s, units);
        c->read += units * s->read_bits;
    }
    c->as_it_lies = c->as_it_lies && c->piece_count == before + 1 &&
                    c->pieces[before].units == segment.end - segment.begin;
    c->segments[c->segment_count++] = segment;
    c->bytes = segment.at + plan_room(s, segment.end - segment.begin);
    return true;
}

/* The next chunk of a reader, from *at up to `end`; *more is false if there is none. */
static bool plan_next(const plan *p, plan_walk *w, plan_place *at, plan_place end, plan_chunk *c,
                      bool *more) {
    c->segment_count = c->piece_count = c->message_count = 0;
    c->bytes = c->read = 0;
    c->as_it_lies = true;
    w->now++;
    while (plan_place_before(*at, end) && c->segment_count < PLAN_SEGMENTS &&
           c->message_count < PLAN_GROUPS && c->bytes < p->chunk) {
        const plan_stream *s = &p->streams[at->stream];
        uint64_t begin, last, border = at->stream == end.stream ? end.unit : s->units;
        if (!plan_wanted_run(p, s, at->unit, 0, &begin, &last) || begin >= border) {
            *at = at->stream == end.stream ? end : (plan_place){at->stream + 1, 0};
            continue;
        }
        begin -= s->step > 1 && begin - begin % s->step >= at->unit ? begin % s->step : 0;
        last = plan_segment_end(s, begin, p->chunk - c->bytes, c->bytes == 0);
        last = last < border ? last : border;
        if (last <= begin)
            break;
        if (!plan_add_segment(p, w, c, (plan_segment){at->stream, begin, last, c->bytes}))
            return false;
        *at = last < s->units ? (plan_place){at->stream, last} : (plan_place){at->stream + 1, 0};
    }
    c->as_it_lies = c->as_it_lies && c->message_count == 1;
    for (size_t i = 0; i < c->message_count; i++)
        c->messages[i].bytes++; /* the mark */
    *more = c->segment_count > 0;
    return true;
}

#endif
