/* Boxes in a stream: their volumes, and the contiguous runs of units that lie in them. */
#ifndef TENMAP_MPI_PLAN_BOXES_H
#define TENMAP_MPI_PLAN_BOXES_H

#include "tenmap_mpi_plan_types.h"

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

#endif
