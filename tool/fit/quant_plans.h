/* How large a model's weights are in common quantizations. */
#ifndef TOOL_QUANT_PLANS_H
#define TOOL_QUANT_PLANS_H

#include <stddef.h>
#include <stdint.h>

#include "model/model_weights.h"

typedef struct quant_plan quant_plan;

/* The i-th plan, or NULL past the end. The first is the model as it is stored. */
const quant_plan *quant_plan_at(size_t i);
const char *quant_plan_name(const quant_plan *plan); /* "Q4_K_M" */
const char *quant_plan_word(const quant_plan *plan); /* "q4_k_m", on the command line */

/* What the rules for mixed quantizations depend on. */
typedef struct quant_model {
    const model_weights *weights;
    uint64_t layers, experts;
    bool has_head; /* false: the embedding is the output head as well */
} quant_model;

/* Finds the facts by the weights; `experts` is 0 for a model without experts. */
quant_model quant_model_of(const model_weights *weights, uint64_t experts);

/* Bytes of all weights; UINT64_MAX if there are too many to count. */
uint64_t quant_plan_bytes(const quant_plan *plan, const quant_model *model);

#endif
