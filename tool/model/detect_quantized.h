/*
 * Recognizes quantized weights, which are stored as codes of a few bits and their scales. Uses only
 * the names and dtypes that quantization programs choose.
 */
#ifndef TOOL_DETECT_QUANTIZED_H
#define TOOL_DETECT_QUANTIZED_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

enum { MAX_QUANTIZED_PARTS = 12 };

typedef struct quantized_parts {
    const char *scheme; /* "GPTQ or AWQ" */
    /* The codes, then the parts that identify the scheme. */
    const tenmap_tensor *parts[MAX_QUANTIZED_PARTS];
    size_t count; /* at least 2 */
} quantized_parts;

/*
 * Whether the tensor holds the codes of a quantized weight. A parameter that is merely named
 * "scale" does not count.
 */
bool detect_quantized(const tenmap_model *model, const tenmap_tensor *codes, quantized_parts *out);

/*
 * Computes how many values the weight has; packed codes hold several each. If shapes are not
 * enough, reads descriptors of a few bytes. Returns false if the number is unknown.
 */
bool quantized_value_count(const quantized_parts *weight, uint64_t *out);

#endif
