/* Summarizes a model from its headers alone. */
#ifndef TOOL_MODEL_SUMMARY_H
#define TOOL_MODEL_SUMMARY_H

#include "tensor_patterns.h"

enum { MAX_LAYERS = 8 };

typedef struct dtype_share {
    const char *name;
    size_t tensors;
    uint64_t params, bytes;
} dtype_share;

/* A stack of numbered modules: "model.layers" with 32 of them. */
typedef struct layers {
    const char *prefix;
    size_t len, count;
} layers;

typedef struct summary {
    const tenmap_model *model;
    selection all;       /* largest first */
    dtype_share *dtypes; /* largest first */
    size_t dtype_count;
    layers found[MAX_LAYERS];
    size_t layers_count;
    /*
     * Number of values in the model: packed codes count unpacked; scales and similar parts do not
     * count.
     */
    uint64_t params;
    bool params_least; /* params is a lower bound: for some codes the number of values is unknown */
    size_t quantized;  /* weights stored as codes and scales */
    const char *scheme; /* scheme of the first quantized weight; NULL: there is none */
    uint64_t header_bytes, alignment; /* alignment: of the start of the data, in all files */
    uint64_t unclaimed;               /* bytes that belong to no tensor */
    size_t misaligned, empty;
    size_t strange; /* names that are empty or contain invisible characters */
} summary;

/* Returns 0, or an exit code after printing an error. Reads only headers, no tensors. */
int summarize(const tenmap_model *model, summary *out);
void summary_free(summary *s);

#endif
