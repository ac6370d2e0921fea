/*
 * Weights that a model stores in parts: codes of a few bits, and the scales that make numbers of them.
 * Told by names and dtypes alone, as the programs that make such models choose them.
 */
#ifndef TOOL_SCALED_H
#define TOOL_SCALED_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

enum { SCALED_PARTS_AT_MOST = 12 };

typedef struct scaled_weight {
    const char *scheme;                               /* "GPTQ or AWQ" */
    const tenmap_tensor *parts[SCALED_PARTS_AT_MOST]; /* the codes first, then what says so */
    size_t count;                                     /* at least 2 */
} scaled_weight;

/* Whether the tensor is the codes of such a weight. A parameter that is only called "scale" is none. */
bool find_scaled(const tenmap_model *model, const tenmap_tensor *codes, scaled_weight *out);

/*
 * How many numbers the weight has, which packed codes hold several of; what is not told by shapes is
 * read: descriptors of a few bytes. False if it cannot be told.
 */
bool scaled_values(const scaled_weight *weight, uint64_t *out);

#endif
