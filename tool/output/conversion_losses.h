/* Counts and reports what the conversions of a plan lose beyond rounding. */
#ifndef TOOL_CONVERSION_LOSSES_H
#define TOOL_CONVERSION_LOSSES_H

#include <stdbool.h>

#include "output/output_plan.h"

/* Sums over a plan's sources. */
typedef struct loss_sum {
    uint64_t overflowed, flushed, nans;
    uint64_t elements; /* of the tensors that lose values */
    size_t tensors;    /* that lose values; tensors that only had NaN do not count */
} loss_sum;
loss_sum losses_sum(const plan *p);

/*
 * Counts losses into p->losses without writing anything; reads all tensors that are converted.
 * Returns 0 or an exit code.
 */
int losses_count(plan *p);

/* Prints a message and the worst tensors, or nothing if nothing is lost. */
void losses_print(const plan *p);
/* Writes the key "losses" with its object into the open object. */
void losses_json(const plan *p);

#endif
