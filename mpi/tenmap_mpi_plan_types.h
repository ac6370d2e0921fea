/* What a plan consists of, and its memory. */
#ifndef TENMAP_MPI_PLAN_TYPES_H
#define TENMAP_MPI_PLAN_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLAN_AXES = 8,        /* tensors with more are cut as if they had one axis */
    PLAN_CELLS = 1 << 16, /* of one stream; a stream that would have more is cut as one axis */
    PLAN_GROUPS = 1024, /* of one stream; one that would have more goes whole to all that want it */
    PLAN_SEGMENTS = 1024,   /* of one chunk */
    PLAN_ALIGN = 16,        /* bytes; pieces of messages begin at multiples of this */
    PLAN_MESSAGES = 2048,   /* of one chunk: fewer than this */
    PLAN_MOST_CHILDREN = 64 /* of one rank in a tree */
};

/* begin[d] <= i[d] < end[d], in units. */
typedef struct plan_box {
    uint64_t begin[PLAN_AXES], end[PLAN_AXES];
} plan_box;

/* A box of a stream that a class of ranks wants. */
typedef struct plan_want {
    size_t stream;
    uint32_t taker; /* the class: ranks that want exactly the same of everything */
    plan_box box;
} plan_want;

/* A stream's cells are sorted by their first indexes, and no two of them overlap. */
typedef struct plan_cell {
    plan_box box;
    uint64_t before; /* units of the stream's cells before this one */
    uint32_t group;
} plan_cell;

typedef struct plan_stream {
    /* Set by the caller. */
    uint64_t id;    /* by which the caller recognizes the stream */
    uint32_t dtype; /* likewise: the dtype that the bytes are taken as, */
    uint32_t wire;  /* the dtype in messages, */
    uint32_t flags; /* and the conversion's flags */
    uint32_t axes;  /* 1 to PLAN_AXES */
    uint64_t dims[PLAN_AXES];
    uint32_t wire_bits, read_bits; /* of a unit, in messages and in files */
    uint64_t step;                 /* cuts are at multiples of this many units */
    /* Computed here. */
    uint64_t units, wanted;
    uint64_t before; /* bits to read of all streams before this one */
    size_t cell, cells;
} plan_stream;

/* A set of classes and the ranks in it, ordered by host. */
typedef struct plan_group {
    size_t member, members;
} plan_group;

typedef struct plan {
    int ranks, takers;
    const int *host_of;  /* of each rank; hosts are numbered from 0 */
    const int *taker_of; /* the class of each rank */
    plan_stream *streams;
    size_t stream_count;
    plan_cell *cells;
    size_t cell_count, cell_room;
    plan_group *groups;
    uint64_t *sets; /* a bit set of `words` words for each group */
    size_t group_count, group_room, words;
    uint32_t *table; /* hash table of groups by their sets: number + 1 */
    size_t table_room;
    int *members, *by_host; /* ranks of all groups; all ranks, ordered by host */
    size_t member_count, member_room;
    int *reader; /* the ranks that read, hosts alternating */
    int readers;
    uint64_t total; /* bits to read */
    uint64_t chunk; /* bytes */
} plan;

/* A place in the row of all streams: `unit` of `stream`. */
typedef struct plan_place {
    size_t stream;
    uint64_t unit;
} plan_place;

/*
 * Units [begin, end) of a stream, at this byte of the chunk. Units between segments that nobody
 * wants are a gap.
 */
typedef struct plan_segment {
    size_t stream;
    uint64_t begin, end, at;
} plan_segment;

/* The units of one cell in one segment, at this byte of a message. */
typedef struct plan_piece {
    uint32_t segment, message;
    size_t cell;
    uint64_t units, at;
} plan_piece;

typedef struct plan_message {
    uint32_t group;
    uint64_t bytes; /* including the mark after the last piece */
} plan_message;

typedef struct plan_chunk {
    plan_segment *segments;
    plan_piece *pieces;
    plan_message *messages;
    size_t segment_count, segment_room, piece_count, piece_room, message_count, message_room;
    uint64_t bytes;  /* from the first segment to the end of the last */
    uint64_t read;   /* bits of files */
    bool as_it_lies; /* the chunk is one message, exactly as it was read */
} plan_chunk;

/* State of a walk through chunks: which message each group has in the current chunk. */
typedef struct plan_walk {
    uint32_t *message_of;
    uint64_t *stamp, now;
} plan_walk;

/* Makes room for one more element of `size` bytes; false if memory runs out. */
static bool plan_grow(void **list, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return true;
    size_t more = *room ? *room * 2 : 16;
    void *moved = more > SIZE_MAX / size ? NULL : realloc(*list, more * size);
    if (!moved)
        return false;
    *list = moved;
    *room = more;
    return true;
}

#define PLAN_GROW(list, count, room) plan_grow((void **)&(list), (count), &(room), sizeof *(list))

static void plan_free(plan *p) {
    free(p->streams);
    free(p->cells);
    free(p->groups);
    free(p->sets);
    free(p->table);
    free(p->members);
    free(p->by_host);
    free(p->reader);
    memset(p, 0, sizeof *p);
}

static void plan_chunk_free(plan_chunk *c) {
    free(c->segments);
    free(c->pieces);
    free(c->messages);
    memset(c, 0, sizeof *c);
}

static void plan_walk_free(plan_walk *w) {
    free(w->message_of);
    free(w->stamp);
    memset(w, 0, sizeof *w);
}

static bool plan_walk_begin(plan_walk *w, const plan *p) {
    memset(w, 0, sizeof *w);
    w->message_of = calloc(p->group_count + 1, sizeof *w->message_of);
    w->stamp = calloc(p->group_count + 1, sizeof *w->stamp);
    return w->message_of && w->stamp;
}

/* The plan's memory, in bytes. */
static uint64_t plan_bytes(const plan *p) {
    return p->stream_count * sizeof *p->streams + p->cell_room * sizeof *p->cells +
           p->group_room * (sizeof *p->groups + p->words * sizeof *p->sets) +
           p->table_room * sizeof *p->table + p->member_room * sizeof *p->members +
           (uint64_t)p->ranks * 2 * sizeof(int);
}

#endif
