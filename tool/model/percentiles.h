/*
 * Exact percentiles of any number of values in bounded memory: each pass over the values narrows
 * the bits of the wanted ones. BF16 and 8-bit values take one pass, F16 and F32 two, F64 up to
 * four.
 */
#ifndef TOOL_PERCENTILES_H
#define TOOL_PERCENTILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_PERCENTILES = 16 };

typedef struct percentile_search percentile_search;

/* `count` is the number of finite values that every pass adds; at least 1. */
percentile_search *percentiles_new(const double *wanted, size_t wanted_count, uint64_t count);
/* Adds values of the current pass. Those that are not finite are ignored. */
void percentiles_add(percentile_search *p, const double *values, size_t count);
/* Ends a pass. Returns true if another one is needed. */
bool percentiles_end_pass(percentile_search *p);
/*
 * After the last pass: the wanted percentiles, interpolated linearly between neighbors, as
 * numpy.percentile does by default.
 */
void percentiles_get(const percentile_search *p, double *out);
void percentiles_free(percentile_search *p);

#endif
