/* Which weights convert --quantize quantises, their parts in the plan of the output, what it reports. */
#ifndef TOOL_QUANTISE_PLAN_H
#define TOOL_QUANTISE_PLAN_H

#include "quantize/quantize.h"
#include "output/output_plan.h"

/* Embeddings, norms, output heads and the routers of experts, by their names. */
bool stays_by_default(const tenmap_tensor *tensor);

/* Weights that would be quantised but for their shape: how many, and why the first is not. */
size_t count_unfit(const plan *p, quantise_scheme scheme, const char **why);

/* Both parts of a weight become sources. */
void plan_add_parts(plan *p, const quantiser *q, size_t weight);
/* After quantiser_open: its model is the plan's from here on. */
void plan_take_made(plan *p, const quantiser *q);

/* The value of "quantization_config": modules of the model's weights that are not quantised are named. */
void plan_quantise_config(const plan *p, const quantiser *q, text *out);

/* How much was lost, and the weights that lose most; nothing is known of it without a measurement. */
void quantise_print(const quantiser *q);
void quantise_json(const quantiser *q); /* the key "quantised", into the object that is open */

#endif
