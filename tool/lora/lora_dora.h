/*
 * DoRA: each output of a weight is scaled so that its norm becomes a magnitude of the adapter. The
 * norms come from a first pass over the weight.
 */
#ifndef TOOL_LORA_DORA_H
#define TOOL_LORA_DORA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

typedef struct lora_dora {
    const tenmap_tensor *weight; /* the base with the product added: what the norms are of */
    const tenmap_tensor *magnitude;
    uint64_t rows, columns, outputs; /* of the weight as a matrix */
    bool by_column;                  /* an output is a column, not a row */
    bool exact; /* two terms: the value as F32, and what is left of it; scales are F64 */
    float *single;
    double *full; /* one of both: magnitude / norm of each output, 0 where the norm is 0 */
} lora_dora;

/* Computes the scales of all. Returns 0 or an exit code. */
int lora_measure_norms(lora_dora *const *doras, size_t count);
void lora_dora_free(lora_dora *d);

/* lora_scaling.c: for tenmap_derived.call. */
tenmap_status lora_scale_outputs(void *ctx, uint64_t matrix, uint64_t row, uint64_t column,
                                 size_t count, const float *const *terms, float *out,
                                 tenmap_error *error);
tenmap_status lora_copy_values(void *ctx, uint64_t matrix, uint64_t row, uint64_t column,
                               size_t count, const float *const *terms, float *out,
                               tenmap_error *error);

#endif
