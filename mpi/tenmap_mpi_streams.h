/* Makes the plan: turns the requests of all ranks into its streams and boxes. */
#ifndef TENMAP_MPI_STREAMS_H
#define TENMAP_MPI_STREAMS_H

#include "tenmap_mpi_errors.h"
#include "tenmap_mpi_requests.h"

/* The order of streams: file order, then by the dtype that the bytes are taken as. */
static int compare_order(const tenmap_tensor *s, uint64_t s_id, tenmap_dtype s_dtype,
                         const tenmap_tensor *t, uint64_t t_id, tenmap_dtype t_dtype) {
    if (s->shard != t->shard)
        return s->shard < t->shard ? -1 : 1;
    if (s->file_offset != t->file_offset)
        return s->file_offset < t->file_offset ? -1 : 1;
    if (s_id != t_id)
        return s_id < t_id ? -1 : 1;
    return s_dtype < t_dtype ? -1 : s_dtype > t_dtype;
}

/* A want of some rank. */
typedef struct entry {
    want w;
    uint32_t taker;
} entry;

static int compare_entries(const void *left, const void *right) {
    const entry *a = left, *b = right;
    int order = compare_order(a->w.tensor, a->w.id, a->w.stored, b->w.tensor, b->w.id, b->w.stored);
    return order ? order : a->taker < b->taker ? -1 : a->taker > b->taker;
}

/* Elements of a unit: those of a block for block dtypes, else one. */
static uint32_t unit_elements(tenmap_dtype dtype) {
    uint32_t together = 1, bytes;
    if (tenmap_dtype_bits(dtype) == 0)
        (void)tenmap_dtype_block(dtype, &together, &bytes);
    return together;
}

static uint32_t unit_bits(tenmap_dtype dtype) {
    uint32_t together, bytes = 0;
    if (tenmap_dtype_bits(dtype))
        return tenmap_dtype_bits(dtype);
    (void)tenmap_dtype_block(dtype, &together, &bytes);
    return bytes * 8;
}

/*
 * Whether the wanted elements of 4 or 6 bits begin and end at byte boundaries, so that no neighbors
 * are converted with them.
 */
static bool in_whole_bytes(const want *w) {
    uint32_t d = w->tensor->rank - 1;
    uint64_t last = last_axis(w->tensor, w->stored);
    return !w->begin || (last % 4 == 0 && w->begin[d] % 4 == 0 && w->end[d] % 4 == 0);
}

/* Chooses the dtype in messages: the smallest that serves all that want something of the tensor. */
static void choose_wire(plan_stream *s, const entry *entries, size_t n) {
    const want *w = &entries[0].w;
    uint32_t as_bits = tenmap_dtype_bits(w->as), bits = tenmap_dtype_bits(w->stored);
    bool alike = as_bits != 0;
    for (size_t i = 0; i < n && alike; i++)
        alike = entries[i].w.as == w->as &&
                !((entries[i].w.flags ^ w->flags) & TENMAP_CONVERT_SATURATE) &&
                (as_bits % 8 == 0 || in_whole_bytes(&entries[i].w));
    s->wire = w->stored;
    if (is_dequantized(w->tensor))
        s->wire = alike ? w->as : TENMAP_F32; /* from which all other dtypes are converted anyway */
    else if (alike && as_bits < bits)
        s->wire = w->as;
    s->flags = alike ? w->flags & TENMAP_CONVERT_SATURATE : 0;
    s->wire_bits = unit_bits(s->wire);
    s->read_bits = unit_bits(w->stored);
    if (has_no_bytes(w->tensor)) {
        uint64_t bytes = 0;
        const tenmap_tensor *part;
        for (uint32_t k = 0; (part = tenmap_part_at(w->tensor, k)) != NULL; k++)
            bytes += part->nbytes;
        uint64_t each = bytes / (w->tensor->nelems / 8 + 1);
        s->read_bits = each < 1 ? 1 : each > 512 ? 512 : (uint32_t)each;
    }
}

static void make_stream(const loading *l, plan_stream *s, const entry *entries, size_t n) {
    const want *w = &entries[0].w;
    const tenmap_tensor *t = w->tensor;
    uint64_t last = last_axis(t, w->stored), together = unit_elements(w->stored);
    s->id = w->id;
    s->dtype = w->stored;
    choose_wire(s, entries, n);
    s->axes = t->rank ? t->rank : 1;
    if (s->axes > PLAN_AXES || last % together != 0) {
        s->axes = 1;
        s->dims[0] = elements_as(t, w->stored) / together;
    } else {
        for (uint32_t d = 0; d < s->axes; d++)
            s->dims[d] = axis_of(t, d, d + 1 == s->axes ? last / together : last);
    }
    s->step = s->wire_bits % 8 || s->read_bits % 8 ? 8 : 1;
    uint64_t least = l->options.chunk_bytes ? l->options.chunk_bytes : SMALL_CHUNK;
    if (is_dequantized(t) && last % 8 == 0 && last * s->wire_bits / 8 <= least)
        s->step = last; /* whole rows, so that no scale is read twice */
}

/* The want in units of its stream. */
static void make_box(const plan_stream *s, const want *w, plan_box *box) {
    const tenmap_tensor *t = w->tensor;
    uint64_t last = last_axis(t, w->stored), together = unit_elements(w->stored);
    uint64_t first_at = 0, last_at = 0;
    bool flat = s->axes != (t->rank ? t->rank : 1) || last % together != 0;
    memset(box, 0, sizeof *box);
    for (uint32_t d = 0; d < s->axes && (!flat || !w->begin); d++) {
        box->begin[d] = w->begin ? w->begin[d] : 0;
        box->end[d] = w->begin ? w->end[d] : s->dims[d];
    }
    if (!w->begin)
        return;
    if (!flat) {
        uint32_t d = s->axes - 1;
        box->begin[d] /= together;
        box->end[d] = (box->end[d] + together - 1) / together;
        return;
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        first_at = first_at * axis_of(t, d, last) + w->begin[d];
        last_at = last_at * axis_of(t, d, last) + w->end[d] - 1;
    }
    box->begin[0] = first_at / together;
    box->end[0] = last_at / together + 1;
}

/* All lists as one, in file order. */
static entry *gather_entries(loading *l, size_t *count) {
    size_t n = 0;
    want w;
    const uint64_t *end = l->lists + l->lists_words;
    for (const uint64_t *at = l->lists; at < end; n++)
        at = read_want(l->model, at, &w);
    entry *entries = take_memory(l, n, sizeof *entries, "the requests of all ranks");
    n = 0;
    for (int r = 0; r < l->size && entries; r++) {
        const uint64_t *at = l->lists + l->places_of[r], *last = at + l->counts_of[r];
        while (at < last) {
            at = read_want(l->model, at, &entries[n].w);
            entries[n++].taker = (uint32_t)l->taker_of[r];
        }
    }
    if (entries)
        qsort(entries, n, sizeof *entries, compare_entries);
    *count = n;
    return entries;
}

static bool same_stream(const entry *a, const entry *b) {
    return a->w.id == b->w.id && a->w.stored == b->w.stored;
}

static bool make_plan(loading *l) {
    plan *p = &l->plan;
    size_t n, first = 0;
    entry *entries = gather_entries(l, &n);
    plan_want *wants = entries ? take_memory(l, n, sizeof *wants, "the plan") : NULL;
    p->streams = wants ? take_memory(l, n, sizeof *p->streams, "the plan") : NULL;
    bool good = p->streams;
    for (size_t i = 0; i < n && good; i++) {
        if (i + 1 < n && same_stream(&entries[i], &entries[i + 1]))
            continue;
        plan_stream *s = &p->streams[p->stream_count];
        make_stream(l, s, entries + first, i + 1 - first);
        for (; first <= i; first++) {
            wants[first].stream = p->stream_count;
            wants[first].taker = entries[first].taker;
            make_box(s, &entries[first].w, &wants[first].box);
        }
        p->stream_count++;
    }
    uint64_t asked = l->options.chunk_bytes;
    p->ranks = l->size;
    p->takers = l->takers;
    p->host_of = l->host_of;
    p->taker_of = l->taker_of;
    if (good && !plan_make(p, wants, n, asked && asked < SMALL_CHUNK ? asked : SMALL_CHUNK)) {
        fail_here(l, TENMAP_ERR_MEMORY, "out of memory: the plan of %llu requests",
                  (unsigned long long)n);
        good = false;
    }
    if (good) { /* with eight chunks each, reading and sending overlap */
        uint64_t part = p->total / 8 / (uint64_t)p->readers / 8;
        part = part < SMALL_CHUNK ? SMALL_CHUNK : part > LARGE_CHUNK ? LARGE_CHUNK : part;
        p->chunk = asked ? asked : part;
    }
    free(entries);
    free(wants);
    return good;
}

#endif
