/*
 * Finds the wanted units of a stream by searching its cells.
 *
 * Cells of a stream are cut from a grid. Those with the same place along the first axes form a row
 * that is sorted by their place along the next axis, so searches go down axis by axis.
 */
#ifndef TENMAP_MPI_PLAN_WANTED_H
#define TENMAP_MPI_PLAN_WANTED_H

#include "tenmap_mpi_plan_boxes.h"
#include "tenmap_mpi_plan_types.h"

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

/* A search that goes down axis by axis: for each axis, its row of cells and the index there. */
typedef struct plan_search {
    size_t first[PLAN_AXES + 1], last[PLAN_AXES + 1];
    uint64_t index[PLAN_AXES];
} plan_search;

/*
 * Where the row of cells continues after those of axis d that were searched: true, with its first
 * index.
 */
static bool plan_step_up(const plan *p, plan_search *down, uint32_t d, size_t *cell,
                         uint32_t *axis) {
    while (d-- > 0) {
        *cell = down->first[d + 1];
        *axis = d + 1;
        if (++down->index[d] < p->cells[*cell].box.end[d])
            return true; /* the same cells, one further along this axis */
        *cell = down->last[d + 1];
        *axis = d;
        if (*cell < down->last[d])
            return true;
    }
    return false;
}

/* The first wanted unit from `at` on, and its cell; false if there is none. */
static bool plan_next_wanted(const plan *p, const plan_stream *s, uint64_t at, uint64_t *unit,
                             size_t *cell) {
    plan_search down = {.first = {s->cell}, .last = {s->cell + s->cells}};
    uint32_t d, from = s->axes; /* the axes from here on start at the cell's first index */
    if (at >= s->units)
        return false;
    plan_indexes(s, s->axes, at, down.index);
    for (d = 0; d < s->axes; d++) {
        *cell = plan_first_behind(p, down.first[d], down.last[d], d, down.index[d]);
        bool behind = *cell == down.last[d]; /* past all of them: others may follow */
        if (behind && !plan_step_up(p, &down, d, cell, &from))
            return false;
        if (!behind && p->cells[*cell].box.begin[d] > down.index[d])
            from = d;
        if (from < s->axes)
            break;
        down.first[d + 1] = *cell;
        down.last[d + 1] = plan_first_after(p, *cell, down.last[d], d, down.index[d]);
    }
    for (*unit = 0, d = 0; d < s->axes; d++)
        *unit = *unit * s->dims[d] + (d < from ? down.index[d] : p->cells[*cell].box.begin[d]);
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

#endif
