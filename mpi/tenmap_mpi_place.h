/*
 * Places elements that have arrived: converts them and writes them into this rank's destinations.
 */
#ifndef TENMAP_MPI_PLACE_H
#define TENMAP_MPI_PLACE_H

#include "tenmap_mpi_errors.h"
#include "tenmap_mpi_requests.h"
#include "tenmap_mpi_streams.h"

/* Copies bits, which need not begin at a byte boundary. The bits around them are kept. */
static void copy_bits(unsigned char *dst, uint64_t to, const unsigned char *src, uint64_t from,
                      uint64_t bits) {
    if (to % 8 == 0 && from % 8 == 0) {
        memcpy(dst + to / 8, src + from / 8, (size_t)(bits / 8));
        to += bits / 8 * 8;
        from += bits / 8 * 8;
        bits %= 8;
    }
    while (bits > 0) {
        unsigned room = 8 - (unsigned)(to % 8), left = 8 - (unsigned)(from % 8);
        unsigned n = room < left ? room : left;
        n = bits < n ? (unsigned)bits : n;
        unsigned mask = (1u << n) - 1, value = (unsigned)src[from / 8] >> (from % 8) & mask;
        unsigned old = dst[to / 8] & ~(mask << (to % 8));
        dst[to / 8] = (unsigned char)(old | value << (to % 8));
        to += n;
        from += n;
        bits -= n;
    }
}

static uint64_t bits_of(tenmap_dtype dtype, uint64_t elements) {
    return elements / unit_elements(dtype) * unit_bits(dtype);
}

/* Elements as they lie in a message: those of `bytes`, counted from 0, from number `from` on. */
typedef struct wire_elements {
    const unsigned char *bytes;
    uint64_t from;
    tenmap_dtype dtype;
} wire_elements;

/*
 * Converts n elements of src as the request wants them, to bit `to` of its destination. If one does
 * not fit, error->index is its number among them.
 */
static tenmap_status convert_elements(const taker *t, uint64_t to, wire_elements src, uint64_t n,
                                      tenmap_error *error) {
    unsigned char in[PIECE * 8], out[(PIECE + MOST_TOGETHER) * 8];
    uint32_t together = unit_elements(src.dtype), wire_bits = unit_bits(src.dtype),
             as_bits = tenmap_dtype_bits(t->as);
    uint64_t from = src.from;
    while (n > 0) {
        uint64_t skip = from % together, at = (from - skip) / together * wire_bits, m = n;
        bool stage_in = at % 8 != 0;
        bool stage_out = skip || to % 8 != 0 || (n * as_bits) % 8 != 0;
        if (stage_in || stage_out)
            m = n < PIECE ? n : PIECE;
        const unsigned char *source = src.bytes + at / 8;
        if (stage_in) {
            copy_bits(in, 0, src.bytes, at, m * wire_bits);
            source = in;
        }
        void *target = stage_out ? out : t->dst + to / 8;
        size_t room = stage_out ? sizeof out : (size_t)((m * as_bits + 7) / 8);
        tenmap_status status =
            tenmap_convert(t->as, target, room, src.dtype, source, skip + m, t->flags, error);
        if (status != TENMAP_OK) {
            error->index += from - src.from;
            return status;
        }
        if (stage_out)
            copy_bits(t->dst, to, out, skip * as_bits, m * as_bits);
        to += m * as_bits;
        from += m;
        n -= m;
    }
    return TENMAP_OK;
}

/*
 * Writes elements [first, first+n) of a request's destination. If one does not fit, error->index is
 * its number among them.
 */
static tenmap_status put_elements(const taker *t, uint64_t first, uint64_t n, wire_elements src,
                                  tenmap_error *error) {
    uint64_t begun = src.from;
    while (n > 0) {
        uint64_t m = n, to = bits_of(t->as, first);
        if (t->stride) {
            uint64_t left = t->row - first % t->row;
            m = n < left ? n : left;
            to = first / t->row * t->stride * 8 + bits_of(t->as, first % t->row);
        }
        if (src.dtype == t->as) {
            copy_bits(t->dst, to, src.bytes, bits_of(t->as, src.from), bits_of(t->as, m));
        } else {
            tenmap_status status = convert_elements(t, to, src, m, error);
            if (status != TENMAP_OK) {
                error->index += src.from - begun;
                return status;
            }
        }
        first += m;
        src.from += m;
        n -= m;
    }
    return TENMAP_OK;
}

/*
 * Which of the request's runs the elements at this place along the outer axes belong to; false if
 * to none.
 */
static bool run_number(const taker *t, uint64_t outer, uint64_t *number) {
    uint64_t scale = 1;
    *number = 0;
    for (uint32_t d = t->outer; d-- > 0;) {
        uint64_t at = outer % t->tensor->shape[d];
        outer /= t->tensor->shape[d];
        if (at < t->begin[d] || at >= t->end[d])
            return false;
        *number += (at - t->begin[d]) * scale;
        scale *= t->end[d] - t->begin[d];
    }
    return true;
}

/*
 * Writes what a request wants of elements [at, at+n) of its tensor. If one does not fit,
 * error->index is its number in the tensor.
 */
static tenmap_status place_run(const taker *t, uint64_t at, uint64_t n, wire_elements src,
                               tenmap_error *error) {
    while (n > 0 && at < t->last) {
        uint64_t within = at % t->inner, m = t->inner - within, number;
        m = n < m ? n : m;
        uint64_t low = within > t->run_begin ? within : t->run_begin;
        uint64_t high = t->run_begin + t->run;
        high = within + m < high ? within + m : high;
        if (low < high && run_number(t, at / t->inner, &number)) {
            wire_elements wanted = {src.bytes, src.from + low - within, src.dtype};
            tenmap_status status =
                put_elements(t, number * t->run + low - t->run_begin, high - low, wanted, error);
            if (status != TENMAP_OK) {
                error->index += at + low - within;
                return status;
            }
        }
        at += m;
        src.from += m;
        n -= m;
    }
    return TENMAP_OK;
}

/* This rank's first request of a stream that may want elements from `at` on. */
static size_t first_taker(const loading *l, size_t stream, uint64_t at) {
    size_t low = 0, high = l->mine_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const taker *t = &l->mine[middle];
        if (t->stream < stream || (t->stream == stream && t->reach <= at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * Reports an element that does not fit with its tensor and its number there, as a plain load does.
 */
static void fail_to_place(loading *l, const taker *whose, tenmap_status status, tenmap_error *why) {
    const tenmap_tensor *t = whose->tensor;
    const char *rest = strstr(why->message, " is ");
    char words[sizeof why->message];
    snprintf(words, sizeof words, "%s", why->message);
    if (status == TENMAP_ERR_RANGE && rest)
        snprintf(words, sizeof words, "element %llu%.200s", (unsigned long long)why->index, rest);
    snprintf(why->message, sizeof why->message, "\"%.120s\": tensor \"%.100s\": %.230s",
             tenmap_shard_at(l->model, t->shard)->path, t->name, words);
    make_printable(why->message);
    why->index = whose->request;
    fail_with(l, status, why);
}

/* Copies one run of a cell, at `bit` of src, into each request that wants a part of it. */
static bool place_in_all(loading *l, size_t stream, uint64_t begin, uint64_t end,
                         const unsigned char *src, uint64_t bit) {
    const plan_stream *s = &l->plan.streams[stream];
    uint64_t together = unit_elements(s->dtype);
    /*
     * convert_elements counts elements from a byte boundary: for a run that begins inside a byte,
     * the start moves back.
     */
    wire_elements run = {src, bit / s->wire_bits, s->wire};
    if (s->wire_bits % 8 == 0)
        run = (wire_elements){src + bit / 8, 0, s->wire};
    for (size_t i = first_taker(l, stream, begin * together); i < l->mine_count; i++) {
        const taker *t = &l->mine[i];
        tenmap_error why = {0};
        if (t->stream != stream || t->first >= end * together)
            break;
        if (begin * together >= t->last)
            continue;
        tenmap_status status = place_run(t, begin * together, (end - begin) * together, run, &why);
        if (status != TENMAP_OK) {
            fail_to_place(l, t, status, &why);
            return false;
        }
    }
    return true;
}

/* Places all pieces of a message that has arrived. */
static void place_message(loading *l, const flight *f, uint32_t message) {
    const plan_chunk *c = &f->chunk;
    const unsigned char *base = f->base + f->at[message];
    for (size_t i = 0; i < c->piece_count && l->status == TENMAP_OK; i++) {
        const plan_piece *piece = &c->pieces[i];
        const plan_segment *seg = &c->segments[piece->segment];
        const plan_stream *s = &l->plan.streams[seg->stream];
        uint64_t begin, end, bit = 0;
        if (piece->message != message)
            continue;
        for (uint64_t at = seg->begin;
             plan_run(s, &l->plan.cells[piece->cell].box, at, &begin, &end) && begin < seg->end;
             at = end) {
            end = end < seg->end ? end : seg->end;
            if (!place_in_all(l, seg->stream, begin, end, base + piece->at, bit))
                return;
            bit += (end - begin) * s->wire_bits;
        }
    }
}

static size_t find_stream(const loading *l, const want *w) {
    size_t low = 0, high = l->plan.stream_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const plan_stream *s = &l->plan.streams[middle];
        if (compare_order(tensor_of(l->model, s->id), s->id, s->dtype, w->tensor, w->id,
                          w->stored) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int compare_takers(const void *left, const void *right) {
    const taker *a = left, *b = right;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->request < b->request ? -1 : a->request > b->request;
}

/* Computes how a request's elements lie in its tensor. */
static void measure_taker(const want *w, taker *t) {
    const tenmap_tensor *tensor = w->tensor;
    uint64_t last = last_axis(tensor, w->stored);
    uint32_t d = tensor->rank ? tensor->rank - 1 : 0;
    t->outer = 0;
    t->inner = t->run = t->last = elements_as(tensor, w->stored);
    t->row = last;
    if (!w->begin)
        return;
    t->row = w->end[d] - w->begin[d];
    uint64_t behind = 1;
    while (d > 0 && w->begin[d] == 0 && w->end[d] == axis_of(tensor, d, last))
        behind *= axis_of(tensor, d--, last);
    t->outer = d;
    t->inner = behind * axis_of(tensor, d, last);
    t->run_begin = behind * w->begin[d];
    t->run = behind * (w->end[d] - w->begin[d]);
    t->first = t->last = 0;
    for (uint32_t e = 0; e < tensor->rank; e++) {
        t->first = t->first * axis_of(tensor, e, last) + w->begin[e];
        t->last = t->last * axis_of(tensor, e, last) + w->end[e] - 1;
    }
    t->last++;
}

static bool find_mine(loading *l) {
    const uint64_t *at = l->list;
    l->mine = take_memory(l, l->count, sizeof *l->mine, "the requests");
    for (size_t i = 0; i < l->count && l->mine; i++) {
        const tenmap_request *r = &l->requests[i];
        want w = want_of(r);
        if (wants_nothing(&w))
            continue;
        at = read_want(l->model, at, &w);
        taker *t = &l->mine[l->mine_count++];
        *t = (taker){.stream = find_stream(l, &w),
                     .request = i,
                     .tensor = w.tensor,
                     .begin = w.begin,
                     .end = w.end,
                     .dst = r->dst,
                     .stride = r->dst_stride,
                     .flags = r->flags,
                     .as = w.as};
        measure_taker(&w, t);
    }
    if (l->mine)
        qsort(l->mine, l->mine_count, sizeof *l->mine, compare_takers);
    for (size_t i = 0; i < l->mine_count; i++) {
        taker *t = &l->mine[i];
        bool follows = i > 0 && t[-1].stream == t->stream;
        t->reach = follows && t[-1].reach > t->last ? t[-1].reach : t->last;
    }
    return l->mine;
}

/* Clears the spare bits after the last element, because copies keep the bits around them. */
static void clear_spare_bits(const loading *l) {
    for (size_t i = 0; i < l->mine_count; i++) {
        const taker *t = &l->mine[i];
        uint64_t n = t->run;
        for (uint32_t d = 0; d < t->outer; d++)
            n *= t->end[d] - t->begin[d];
        uint64_t bits = bits_of(t->as, n);
        if (bits % 8 && !t->stride)
            t->dst[bits / 8] = 0;
    }
}

#endif
