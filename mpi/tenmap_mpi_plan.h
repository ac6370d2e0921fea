/*
 * Decides which rank reads what and who gets it. This part of tenmap_mpi needs neither MPI nor a
 * model, so that bench/mpi_plan.c can run it for a thousand ranks. tenmap_mpi.c includes it once;
 * every name is static.
 *
 * A stream is a tensor of which some rank wants something: units (elements, or blocks of a block
 * dtype) in row-major order. The boxes that ranks want cut it into cells. Each cell is wanted whole
 * by one set of ranks, its group. All wanted units of all streams, in file order, form one long
 * row. With n readers, each owns 1/n of the row's bytes, in order, and walks through its share
 * chunk by chunk. Each chunk becomes one message for each group in it. Every rank computes the same
 * plan. No rank keeps a list of chunks: a cursor per reader is enough.
 */
#ifndef TENMAP_MPI_PLAN_H
#define TENMAP_MPI_PLAN_H

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

/*
 * Memory
 */

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

/*
 * Boxes in a row of units
 */

static uint64_t plan_volume(const plan_stream *s, const plan_box *box) {
    uint64_t volume = 1;
    for (uint32_t d = 0; d < s->axes; d++)
        volume *= box->end[d] - box->begin[d];
    return volume;
}

/* The indexes of unit `at` along the first `axes` axes. */
static void plan_indexes(const plan_stream *s, uint32_t axes, uint64_t at, uint64_t *index) {
    for (uint32_t d = axes; d-- > 0;) {
        index[d] = at % s->dims[d];
        at /= s->dims[d];
    }
}

/* How many units of the box come before unit `at`. */
static uint64_t plan_below(const plan_stream *s, const plan_box *box, uint64_t at) {
    uint64_t index[PLAN_AXES], inside = plan_volume(s, box), below = 0;
    if (at >= s->units)
        return inside;
    plan_indexes(s, s->axes, at, index);
    for (uint32_t d = 0; d < s->axes; d++) {
        inside /= box->end[d] - box->begin[d];
        if (index[d] < box->begin[d])
            return below;
        if (index[d] >= box->end[d])
            return below + (box->end[d] - box->begin[d]) * inside;
        below += (index[d] - box->begin[d]) * inside;
    }
    return below;
}

/* Moves to the first index in the box at or after this one; false if there is none. */
static bool plan_next_index(const plan_box *box, uint32_t axes, uint64_t *index) {
    for (uint32_t d = 0; d < axes; d++) {
        uint32_t set = d; /* the axes from here on start over */
        if (index[d] >= box->begin[d] && index[d] < box->end[d])
            continue;
        if (index[d] >= box->end[d]) {
            while (set > 0 && index[set - 1] + 1 >= box->end[set - 1])
                set--;
            if (set == 0)
                return false;
            index[set - 1]++;
        }
        for (; set < axes; set++)
            index[set] = box->begin[set];
        return true;
    }
    return true;
}

/*
 * The first contiguous run of the box's units from `at` on: [*begin, *end). False if there is none.
 */
static bool plan_run(const plan_stream *s, const plan_box *box, uint64_t at, uint64_t *begin,
                     uint64_t *end) {
    uint64_t index[PLAN_AXES], inner = 1, outer;
    uint32_t axis = s->axes - 1; /* the axes after it are taken whole */
    if (at >= s->units)
        return false;
    while (axis > 0 && box->begin[axis] == 0 && box->end[axis] == s->dims[axis])
        inner *= s->dims[axis--];
    outer = at / inner / s->dims[axis];
    uint64_t within = at - outer * s->dims[axis] * inner;
    plan_indexes(s, axis, outer, index);
    if (within >= box->end[axis] * inner) { /* past this run: the next one is one index further */
        if (axis == 0)
            return false;
        index[axis - 1]++;
        within = 0;
    }
    uint64_t old = outer;
    if (!plan_next_index(box, axis, index))
        return false;
    outer = 0;
    for (uint32_t d = 0; d < axis; d++)
        outer = outer * s->dims[d] + index[d];
    if (outer != old || within < box->begin[axis] * inner)
        within = box->begin[axis] * inner;
    *begin = outer * s->dims[axis] * inner + within;
    *end = outer * s->dims[axis] * inner + box->end[axis] * inner;
    return true;
}

/*
 * Cells of a stream are cut from a grid. Those with the same place along the first axes form a row
 * that is sorted by their place along the next axis, so searches go down axis by axis.
 */

/* In such a row: the first cell that ends after index i of axis d, or `last`. */
static size_t plan_first_behind(const plan *p, size_t first, size_t last, uint32_t d, uint64_t i) {
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (p->cells[middle].box.end[d] <= i)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* In such a row: the first cell that begins after index i of axis d, or `last`. */
static size_t plan_first_after(const plan *p, size_t first, size_t last, uint32_t d, uint64_t i) {
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (p->cells[middle].box.begin[d] <= i)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* The cells that may overlap units [begin, end). */
static void plan_cells_of(const plan *p, const plan_stream *s, uint64_t begin, uint64_t end,
                          size_t *first, size_t *last) {
    uint64_t low[PLAN_AXES], high[PLAN_AXES];
    plan_indexes(s, s->axes, begin, low);
    plan_indexes(s, s->axes, end - 1, high);
    *first = s->cell;
    *last = s->cell + s->cells;
    for (uint32_t d = 0; d < s->axes; d++) {
        *first = plan_first_behind(p, *first, *last, d, low[d]);
        *last = plan_first_after(p, *first, *last, d, high[d]);
        if (low[d] != high[d])
            return;
    }
}

/*
 * Where the row of cells continues after those of axis d that were searched: true, with its first
 * index.
 */
static bool plan_step_up(const plan *p, const size_t *first, const size_t *last, uint32_t d,
                         uint64_t *index, size_t *cell, uint32_t *axis) {
    while (d-- > 0) {
        *cell = first[d + 1];
        *axis = d + 1;
        if (++index[d] < p->cells[*cell].box.end[d])
            return true; /* the same cells, one further along this axis */
        *cell = last[d + 1];
        *axis = d;
        if (*cell < last[d])
            return true;
    }
    return false;
}

/* The first wanted unit from `at` on, and its cell; false if there is none. */
static bool plan_next_wanted(const plan *p, const plan_stream *s, uint64_t at, uint64_t *unit,
                             size_t *cell) {
    uint64_t index[PLAN_AXES];
    size_t first[PLAN_AXES + 1] = {s->cell}, last[PLAN_AXES + 1] = {s->cell + s->cells};
    uint32_t d, from = s->axes; /* the axes from here on start at the cell's first index */
    if (at >= s->units)
        return false;
    plan_indexes(s, s->axes, at, index);
    for (d = 0; d < s->axes; d++) {
        *cell = plan_first_behind(p, first[d], last[d], d, index[d]);
        bool behind = *cell == last[d]; /* past all of them: others may follow */
        if (behind && !plan_step_up(p, first, last, d, index, cell, &from))
            return false;
        if (!behind && p->cells[*cell].box.begin[d] > index[d])
            from = d;
        if (from < s->axes)
            break;
        first[d + 1] = *cell;
        last[d + 1] = plan_first_after(p, *cell, last[d], d, index[d]);
    }
    for (*unit = 0, d = 0; d < s->axes; d++)
        *unit = *unit * s->dims[d] + (d < from ? index[d] : p->cells[*cell].box.begin[d]);
    return true;
}

static bool plan_is_dense(const plan_stream *s) {
    return s->wanted == s->units;
}

/* Units of the stream's cells before this cell; past the last cell, of all cells. */
static uint64_t plan_before(const plan *p, const plan_stream *s, size_t cell) {
    return cell < s->cell + s->cells ? p->cells[cell].before : s->wanted;
}

static uint64_t plan_wanted_below(const plan *p, const plan_stream *s, uint64_t at) {
    uint64_t index[PLAN_AXES], below = 0,
                               copies = 1; /* of each row: the extent of the axes before it */
    size_t first = s->cell, last = s->cell + s->cells;
    if (plan_is_dense(s) || at >= s->units)
        return at >= s->units ? s->wanted : at;
    plan_indexes(s, s->axes, at, index);
    for (uint32_t d = 0; d < s->axes; d++) {
        size_t cell = plan_first_behind(p, first, last, d, index[d]);
        below += (plan_before(p, s, cell) - plan_before(p, s, first)) / copies;
        if (cell == last || p->cells[cell].box.begin[d] > index[d])
            return below;
        const plan_box *box = &p->cells[cell].box;
        first = cell;
        last = plan_first_after(p, cell, last, d, index[d]);
        copies *= box->end[d] - box->begin[d];
        below += (plan_before(p, s, last) - plan_before(p, s, first)) / copies *
                 (index[d] - box->begin[d]);
    }
    return below;
}

/*
 * The last unit of a stream that has at most this many wanted units before it; the stream's end if
 * all units have.
 */
static uint64_t plan_unit_after(const plan *p, const plan_stream *s, uint64_t wanted) {
    uint64_t first = 0, last = s->units;
    while (first < last) {
        uint64_t middle = last - (last - first) / 2;
        if (plan_wanted_below(p, s, middle) <= wanted)
            first = middle;
        else
            last = middle - 1;
    }
    return last;
}

/*
 * The first contiguous run of wanted units from `at` on, across cells. It need not be exact beyond
 * `limit`.
 */
static bool plan_wanted_run(const plan *p, const plan_stream *s, uint64_t at, uint64_t limit,
                            uint64_t *begin, uint64_t *end) {
    uint64_t next;
    size_t cell;
    bool longer = true;
    *begin = at;
    *end = s->units;
    if (plan_is_dense(s))
        return at < s->units;
    if (!plan_next_wanted(p, s, at, begin, &cell))
        return false;
    for (next = *begin; longer;) {
        (void)plan_run(s, &p->cells[cell].box, next, &next, end);
        longer = *end < limit && plan_next_wanted(p, s, *end, &next, &cell) && next == *end;
    }
    return true;
}

/*
 * Groups
 */

static uint64_t plan_hash(const uint64_t *set, size_t words) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < words; i++) {
        hash = (hash ^ set[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

static bool plan_has(const uint64_t *set, int taker) {
    return set[taker / 64] >> (taker % 64) & 1;
}

/* Adds the ranks of a new group, ordered by host. */
static bool plan_add_members(plan *p, const uint64_t *set) {
    plan_group *group = &p->groups[p->group_count];
    group->member = p->member_count;
    for (int i = 0; i < p->ranks; i++) {
        if (!plan_has(set, p->taker_of[p->by_host[i]]))
            continue;
        if (!PLAN_GROW(p->members, p->member_count, p->member_room))
            return false;
        p->members[p->member_count++] = p->by_host[i];
    }
    group->members = p->member_count - group->member;
    return true;
}

static bool plan_grow_table(plan *p) {
    size_t room = p->table_room ? p->table_room * 2 : 64;
    uint32_t *table = calloc(room, sizeof *table);
    if (!table)
        return false;
    for (size_t g = 0; g < p->group_count; g++) {
        size_t at = (size_t)plan_hash(p->sets + g * p->words, p->words) & (room - 1);
        while (table[at])
            at = (at + 1) & (room - 1);
        table[at] = (uint32_t)g + 1;
    }
    free(p->table);
    p->table = table;
    p->table_room = room;
    return true;
}

/* Finds or adds the group of this set. */
static bool plan_group_of(plan *p, const uint64_t *set, uint32_t *number) {
    if (p->group_count * 2 >= p->table_room && !plan_grow_table(p))
        return false;
    size_t at = (size_t)plan_hash(set, p->words) & (p->table_room - 1);
    for (; p->table[at]; at = (at + 1) & (p->table_room - 1))
        if (memcmp(p->sets + (p->table[at] - 1) * p->words, set, p->words * sizeof *set) == 0) {
            *number = p->table[at] - 1;
            return true;
        }
    if (p->group_count == p->group_room) {
        size_t room = p->group_room ? p->group_room * 2 : 16;
        plan_group *groups = realloc(p->groups, room * sizeof *groups);
        if (!groups)
            return false;
        p->groups = groups;
        uint64_t *sets = realloc(p->sets, room * p->words * sizeof *sets);
        if (!sets)
            return false;
        p->sets = sets;
        p->group_room = room;
    }
    if (!plan_add_members(p, set))
        return false;
    memcpy(p->sets + p->group_count * p->words, set, p->words * sizeof *set);
    p->table[at] = (uint32_t)p->group_count + 1;
    *number = (uint32_t)p->group_count++;
    return true;
}

/*
 * Cells
 */

static int plan_compare_cuts(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The borders of all boxes along one axis, sorted and unique. */
static size_t plan_cuts(const plan_want *wants, size_t n, uint32_t axis, uint64_t *cuts) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        cuts[2 * i] = wants[i].box.begin[axis];
        cuts[2 * i + 1] = wants[i].box.end[axis];
    }
    qsort(cuts, 2 * n, sizeof *cuts, plan_compare_cuts);
    for (size_t i = 0; i < 2 * n; i++)
        if (kept == 0 || cuts[kept - 1] != cuts[i])
            cuts[kept++] = cuts[i];
    return kept;
}

static size_t plan_cut_number(const uint64_t *cuts, size_t n, uint64_t cut) {
    size_t low = 0;
    while (n > 1) {
        size_t half = n / 2;
        if (cuts[low + half] <= cut)
            low += half;
        n -= half;
    }
    return low;
}

static bool plan_add_cell(plan *p, plan_stream *s, const plan_box *box, const uint64_t *set) {
    uint32_t group;
    if (!plan_group_of(p, set, &group) || !PLAN_GROW(p->cells, p->cell_count, p->cell_room))
        return false;
    p->cells[p->cell_count++] = (plan_cell){*box, s->wanted, group};
    s->cells++;
    s->wanted += plan_volume(s, box);
    return true;
}

/* The grid that the boxes cut a stream into. */
typedef struct plan_grid {
    uint64_t *cuts[PLAN_AXES];
    size_t count[PLAN_AXES]; /* of cuts; there is one cell fewer */
    size_t cells;
    uint64_t *sets; /* of each cell */
} plan_grid;

static void plan_grid_free(plan_grid *g) {
    for (int d = 0; d < PLAN_AXES; d++)
        free(g->cuts[d]);
    free(g->sets);
}

/* False if memory runs out; g->cells is 0 if there would be too many. */
static bool plan_grid_make(const plan_stream *s, const plan_want *wants, size_t n, plan_grid *g) {
    memset(g, 0, sizeof *g);
    g->cells = 1;
    for (uint32_t d = 0; d < s->axes; d++) {
        g->cuts[d] = malloc(2 * n * sizeof *g->cuts[d]);
        if (!g->cuts[d])
            return false;
        g->count[d] = plan_cuts(wants, n, d, g->cuts[d]);
        if (g->cells && g->count[d] - 1 <= PLAN_CELLS / g->cells)
            g->cells *= g->count[d] - 1;
        else
            g->cells = 0;
    }
    return true;
}

/* Adds a taker to the set of each cell that its box covers. */
static void plan_grid_mark(const plan_stream *s, plan_grid *g, const plan_want *w, size_t words) {
    size_t first[PLAN_AXES] = {0}, last[PLAN_AXES] = {0}, at[PLAN_AXES] = {0};
    for (uint32_t d = 0; d < s->axes; d++) {
        first[d] = at[d] = plan_cut_number(g->cuts[d], g->count[d], w->box.begin[d]);
        last[d] = plan_cut_number(g->cuts[d], g->count[d], w->box.end[d]);
    }
    for (;;) {
        size_t cell = 0;
        for (uint32_t d = 0; d < s->axes; d++)
            cell = cell * (g->count[d] - 1) + at[d];
        g->sets[cell * words + w->taker / 64] |= (uint64_t)1 << (w->taker % 64);
        uint32_t d = s->axes;
        while (d > 0 && ++at[d - 1] == last[d - 1]) {
            at[d - 1] = first[d - 1];
            d--;
        }
        if (d == 0)
            return;
    }
}

/* The cells of the grid that somebody wants. */
static bool plan_grid_keep(plan *p, plan_stream *s, const plan_grid *g) {
    for (size_t cell = 0; cell < g->cells; cell++) {
        const uint64_t *set = g->sets + cell * p->words;
        plan_box box = {{0}, {0}};
        size_t rest = cell;
        bool wanted = false;
        for (size_t i = 0; i < p->words; i++)
            wanted = wanted || set[i];
        if (!wanted)
            continue;
        for (uint32_t d = s->axes; d-- > 0;) {
            size_t at = rest % (g->count[d] - 1);
            rest /= g->count[d] - 1;
            box.begin[d] = g->cuts[d][at];
            box.end[d] = g->cuts[d][at + 1];
        }
        if (!plan_add_cell(p, s, &box, set))
            return false;
    }
    return true;
}

/* Makes the box one axis, from its first unit to its last. */
static void plan_flatten_box(const plan_stream *s, plan_box *box) {
    uint64_t first = 0, last = 0;
    for (uint32_t d = 0; d < s->axes; d++) {
        first = first * s->dims[d] + box->begin[d];
        last = last * s->dims[d] + box->end[d] - 1;
    }
    box->begin[0] = first;
    box->end[0] = last + 1;
}

static void plan_flatten(plan_stream *s, plan_want *wants, size_t n) {
    for (size_t i = 0; i < n; i++)
        plan_flatten_box(s, &wants[i].box);
    s->axes = 1;
    s->dims[0] = s->units;
}

/* The last resort: everything from the first unit to the last, for all that want any of it. */
static bool plan_one_cell(plan *p, plan_stream *s, plan_want *wants, size_t n, uint64_t *set) {
    plan_box box = {{0}, {0}};
    if (s->axes > 1)
        plan_flatten(s, wants, n);
    box.begin[0] = s->units;
    memset(set, 0, p->words * sizeof *set);
    for (size_t i = 0; i < n; i++) {
        set[wants[i].taker / 64] |= (uint64_t)1 << (wants[i].taker % 64);
        if (wants[i].box.begin[0] < box.begin[0])
            box.begin[0] = wants[i].box.begin[0];
        if (wants[i].box.end[0] > box.end[0])
            box.end[0] = wants[i].box.end[0];
    }
    p->cell_count = s->cell;
    s->cells = 0;
    s->wanted = 0;
    return plan_add_cell(p, s, &box, set);
}

static size_t plan_groups_of(const plan *p, const plan_stream *s, unsigned char *seen) {
    size_t count = 0;
    memset(seen, 0, p->group_count);
    for (size_t i = 0; i < s->cells; i++) {
        count += !seen[p->cells[s->cell + i].group];
        seen[p->cells[s->cell + i].group] = 1;
    }
    return count;
}

static bool plan_cut_stream(plan *p, plan_stream *s, plan_want *wants, size_t n, uint64_t *set) {
    plan_grid g;
    s->cell = p->cell_count;
    bool good = plan_grid_make(s, wants, n, &g);
    if (good && g.cells == 0) {
        plan_grid_free(&g);
        plan_flatten(s, wants, n);
        good = plan_grid_make(s, wants, n, &g);
    }
    if (good && g.cells) {
        g.sets = calloc(g.cells, p->words * sizeof *g.sets);
        good = g.sets;
        for (size_t i = 0; i < n && good; i++)
            plan_grid_mark(s, &g, &wants[i], p->words);
        good = good && plan_grid_keep(p, s, &g);
    }
    bool many = good && (g.cells == 0 || s->cells > PLAN_GROUPS);
    plan_grid_free(&g);
    if (many && s->cells) { /* many cells may still be few groups */
        unsigned char *seen = malloc(p->group_count);
        good = seen;
        many = good && plan_groups_of(p, s, seen) > PLAN_GROUPS;
        free(seen);
    }
    return many ? plan_one_cell(p, s, wants, n, set) : good;
}

/*
 * The plan
 */

/* A stable counting sort of ranks by numbers below the number of ranks. */
static void plan_sort_ranks(const int *number_of, const int *ranks, int n, int *place, int *out) {
    memset(place, 0, (size_t)n * sizeof *place);
    for (int r = 0; r < n; r++)
        place[number_of[r]]++;
    for (int i = 0, before = 0; i < n; i++) {
        int count = place[i];
        place[i] = before;
        before += count;
    }
    for (int i = 0; i < n; i++)
        out[place[number_of[ranks[i]]]++] = ranks[i];
}

/* Orders all ranks by host, and the readers with hosts alternating. */
static bool plan_order_ranks(plan *p) {
    size_t n = (size_t)p->ranks;
    p->by_host = malloc(n * sizeof *p->by_host);
    p->reader = malloc(n * sizeof *p->reader);
    int *turn =
        calloc(2 * n, sizeof *turn); /* of each rank on its host; how many hosts had each turn */
    if (!p->by_host || !p->reader || !turn) {
        free(turn);
        return false;
    }
    for (int r = 0; r < p->ranks; r++) {
        p->reader[r] = r;
        turn[r] = turn[p->ranks + p->host_of[r]]++;
    }
    plan_sort_ranks(p->host_of, p->reader, p->ranks, turn + n, p->by_host);
    plan_sort_ranks(turn, p->by_host, p->ranks, turn + n, p->reader);
    free(turn);
    return true;
}

/*
 * For each rank, the first rank whose head (of `words` words) is equal; false if memory runs out.
 */
static bool plan_first_alike(const uint64_t *heads, size_t words, int ranks, int *first) {
    size_t room = 64;
    while (room < 2 * (size_t)ranks)
        room *= 2;
    int *table = calloc(room, sizeof *table); /* a rank + 1 */
    for (int r = 0; r < ranks && table; r++) {
        const uint64_t *head = heads + words * (size_t)r;
        size_t at = (size_t)plan_hash(head, words) & (room - 1);
        while (table[at] &&
               memcmp(heads + words * (size_t)(table[at] - 1), head, words * sizeof *head) != 0)
            at = (at + 1) & (room - 1);
        if (!table[at])
            table[at] = r + 1;
        first[r] = table[at] - 1;
    }
    bool good = table;
    free(table);
    return good;
}

/*
 * Cuts the streams by the wants, which must be in the order of streams, and chooses the readers.
 * The caller has set p->ranks, takers, host_of, taker_of, streams and chunk, and frees the plan in
 * any case. False if memory runs out. The boxes of the wants are changed.
 */
static bool plan_make(plan *p, plan_want *wants, size_t n, uint64_t least_read) {
    p->words = ((size_t)p->takers + 63) / 64;
    uint64_t *set = malloc((p->words + 1) * sizeof *set);
    bool good = plan_order_ranks(p) && set;
    for (size_t i = 0, w = 0; i < p->stream_count && good; i++) {
        plan_stream *s = &p->streams[i];
        size_t first = w;
        while (w < n && wants[w].stream == i)
            w++;
        s->units = 1;
        for (uint32_t d = 0; d < s->axes; d++)
            s->units *= s->dims[d];
        s->before = p->total;
        s->cells = 0;
        s->wanted = 0;
        good = plan_cut_stream(p, s, wants + first, w - first, set);
        p->total += s->wanted * s->read_bits;
    }
    free(set);
    uint64_t readers = p->total / 8 / least_read + 1;
    p->readers = readers < (uint64_t)p->ranks ? (int)readers : p->ranks;
    return good;
}

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

/*
 * Trees
 */

/* The route of a message to one of its receivers. */
typedef struct plan_route {
    int parent; /* -1 for the reader */
    int children, child[PLAN_MOST_CHILDREN];
} plan_route;

/* The children of this position in a binomial tree of n, larger branches first. */
static int plan_branches(int position, int n, int *out) {
    int lowest = position ? position & -position : 1 << 30, count = 0;
    for (int step = 1; step < lowest && step < n - position; step *= 2)
        out[count++] = position + step;
    for (int i = 0; i < count / 2; i++) {
        int other = out[i];
        out[i] = out[count - 1 - i];
        out[count - 1 - i] = other;
    }
    return count;
}

/*
 * One tree leads from the reader to one rank on each other host; a second tree leads on within each
 * host, the reader's included. The reader need not be in the group. `first` has room for all ranks.
 */
static void plan_find_route(const plan *p, uint32_t group, int reader, int me, int *first,
                            plan_route *route) {
    const plan_group *g = &p->groups[group];
    const int *member = p->members + g->member;
    int hosts = 1, mine = p->host_of[me] == p->host_of[reader] ? 0 : -1, n = 0, position = 0;
    int below[PLAN_MOST_CHILDREN];
    int local[2] = {-1, -1}; /* my host's members in the list: the first, and how many */
    first[0] = reader;
    for (size_t i = 0; i < g->members; i++) {
        int host = p->host_of[member[i]];
        if (host != p->host_of[reader] && (i == 0 || p->host_of[member[i - 1]] != host)) {
            if (host == p->host_of[me])
                mine = hosts;
            first[hosts++] = member[i];
        }
        if (host == p->host_of[me] && local[0] < 0)
            local[0] = (int)i;
        if (host == p->host_of[me])
            local[1] = (int)i + 1 - local[0];
    }
    /* On a host: first the rank that gets it from outside, then the others in order. */
    int leader = first[mine < 0 ? 0 : mine];
    route->parent = -1;
    route->children = 0;
    if (me == leader && mine > 0)
        route->parent = first[mine & (mine - 1)];
    if (me == leader) {
        int count = plan_branches(mine, hosts, below);
        for (int i = 0; i < count; i++)
            route->child[route->children++] = first[below[i]];
    }
    for (int i = 0; i < local[1]; i++) /* positions from 1 on; `first` can hold them now */
        if (member[local[0] + i] != leader) {
            first[++n] = member[local[0] + i];
            position = first[n] == me ? n : position;
        }
    first[0] = leader;
    if (me != leader)
        route->parent = first[position & (position - 1)];
    int count = plan_branches(position, n + 1, below);
    for (int i = 0; i < count; i++)
        route->child[route->children++] = first[below[i]];
}

#endif
