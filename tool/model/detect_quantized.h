/*
 * Recognizes quantized weights, which are stored as codes of a few bits and their scales. Uses only
 * the names and dtypes that quantization programs choose.
 */
#ifndef TOOL_SCALED_H
#define TOOL_SCALED_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

enum { SCALED_PARTS_AT_MOST = 12 };

typedef struct scaled_weight {
    const char *scheme; /* "GPTQ or AWQ" */
    /* The codes, then the parts that identify the scheme. */
    const tenmap_tensor *parts[SCALED_PARTS_AT_MOST];
    size_t count; /* at least 2 */
} scaled_weight;

/*
 * Whether the tensor holds the codes of a quantized weight. A parameter that is merely named
 * "scale" does not count.
 */
bool find_scaled(const tenmap_model *model, const tenmap_tensor *codes, scaled_weight *out);

/*
 * Computes how many values the weight has; packed codes hold several each. If shapes are not
 * enough, reads descriptors of a few bytes. Returns false if the number is unknown.
 */
bool scaled_values(const scaled_weight *weight, uint64_t *out);

#endif
