/* What conversions lose beyond rounding: counted for a plan, and told. */
#ifndef TOOL_LOSSES_H
#define TOOL_LOSSES_H

#include <stdbool.h>

#include "output/output_plan.h"

/* Sums over a plan's sources. */
typedef struct loss_sum {
    uint64_t overflowed, flushed, nans;
    uint64_t elements; /* of the tensors that lose something */
    size_t tensors;    /* that lose something; those that only had NaN are not among them */
} loss_sum;
loss_sum losses_sum(const plan *p);

/* Counts without writing anything, into p->losses: reads what is converted. 0, or an exit code. */
int losses_count(plan *p);

/* A sentence and the worst tensors; nothing where nothing is lost. */
void losses_print(const plan *p);
/* The key "losses" with its object, into the object that is open. */
void losses_json(const plan *p);

#endif
