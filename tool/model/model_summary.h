/* What can be said of a model from its headers alone. */
#ifndef TOOL_SUMMARY_H
#define TOOL_SUMMARY_H

#include "tensor_patterns.h"

enum { MAX_LAYERS = 8 };

typedef struct dtype_share {
    const char *name;
    size_t tensors;
    uint64_t params, bytes;
} dtype_share;

/* Modules that are numbered: "model.layers" with 32 of them. */
typedef struct layers {
    const char *prefix;
    size_t len, count;
} layers;

typedef struct summary {
    const tenmap_model *model;
    selection all;       /* the largest first */
    dtype_share *dtypes; /* the largest first */
    size_t dtype_count;
    layers found[MAX_LAYERS];
    size_t layers_count;
    uint64_t
        params; /* numbers of the model: packed codes unpacked, scales and the like not counted */
    bool params_least;  /* some codes do not tell how many they hold: there are at least so many */
    size_t quantised;   /* weights that are stored as codes and scales */
    const char *scheme; /* of the first of them; NULL: there is none */
    uint64_t header_bytes, alignment; /* of the start of the data, in all files */
    uint64_t unclaimed;               /* bytes of no tensor */
    size_t misaligned, empty;
    size_t strange; /* names that are empty or hold characters that are not seen */
} summary;

/* 0, or the exit code of a failure that has been told. Headers only: no tensor is read. */
int summarize(const tenmap_model *model, summary *out);
void summary_free(summary *s);

#endif
