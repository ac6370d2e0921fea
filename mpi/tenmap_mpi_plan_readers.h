/* Orders the ranks, chooses the readers, and makes the plan from what all ranks want. */
#ifndef TENMAP_MPI_PLAN_READERS_H
#define TENMAP_MPI_PLAN_READERS_H

#include "tenmap_mpi_plan_cells.h"
#include "tenmap_mpi_plan_groups.h"
#include "tenmap_mpi_plan_types.h"

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

#endif
