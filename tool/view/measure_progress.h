/* Measuring a selection with a progress bar. */
#ifndef TOOL_MEASURE_H
#define TOOL_MEASURE_H

#include "tensor_patterns.h"

/* Leaves out what has no values: tensors of unknown dtypes, in a lenient open. */
void drop_opaque(selection *s);
/*
 * tenmap_measure with the options given and a progress bar of its own; stats has room for all. 0, or
 * the exit code of a failure that has been told.
 */
int measure_selection(const selection *s, const tenmap_stats_options *options, tenmap_stats *stats);

#endif
