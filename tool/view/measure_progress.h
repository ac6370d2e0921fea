/* Measures a selection of tensors with a progress bar. */
#ifndef TOOL_MEASURE_PROGRESS_H
#define TOOL_MEASURE_PROGRESS_H

#include "tensor_patterns.h"

/* Removes tensors of unknown dtypes (from a lenient open), which have no values. */
void drop_opaque(selection *s);
/*
 * Calls tenmap_measure with the given options and a progress bar; stats has room for all tensors.
 * Returns 0, or an exit code after printing an error.
 */
int measure_selection(const selection *s, const tenmap_stats_options *options, tenmap_stats *stats);

#endif
