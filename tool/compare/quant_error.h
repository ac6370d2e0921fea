/* What quantisation cost: how far weights that were put together are from those that they were made of. */
#ifndef TOOL_COST_H
#define TOOL_COST_H

#include <stdbool.h>
#include <stddef.h>

#include "compare/compare_values.h"
#include "view/print.h"

/* Whether one side is a weight in parts, so that the difference is a cost of its scheme. */
bool is_cost(const pair *p);

/* In dB: the norm of the original by that of the difference; infinite where they are equal. */
double snr_of(double relative_error);
void text_add_snr(text *t, double relative_error); /* "31.5 dB", "exact" */

/*
 * The pairs that are a cost and differ, in their order, at most `most`, then kinds of layers, and all
 * together. Returns how many there are; nothing is printed of none.
 */
size_t print_cost(const pair *pairs, size_t count, size_t most);
/* The key "quantisation" with all of it, into the object that is open. */
void cost_json(const pair *pairs, size_t count);

#endif
