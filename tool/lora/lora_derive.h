/* Makes the merged model: tensors that are computed from those of the base and of the adapters. */
#ifndef TOOL_LORA_DERIVE_H
#define TOOL_LORA_DERIVE_H

#include "lora/lora_dora.h"
#include "lora/lora_mapping.h"
#include "output/output_plan.h"

typedef struct lora_merged {
    tenmap_model **hidden; /* steps between a tensor of the base and one of the output */
    size_t hidden_count;
    lora_dora **doras;
    size_t dora_count;
} lora_merged;

/*
 * Adds all tensors of the merged model to the plan, in the order of the base, with the dtypes that
 * they are written in: `to`, or that of the base. Returns 0 or an exit code. Call
 * lora_merged_free in either case, after the plan's derived model was closed.
 */
int lora_derive(const lora_mapping *m, tenmap_dtype to, plan *p, lora_merged *out);
void lora_merged_free(lora_merged *merged);

#endif
