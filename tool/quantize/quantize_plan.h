/*
 * Decides which weights convert --quantize quantizes, adds their parts to the output plan, and
 * reports the result.
 */
#ifndef TOOL_QUANTIZE_PLAN_H
#define TOOL_QUANTIZE_PLAN_H

#include "quantize/quantize.h"
#include "output/output_plan.h"

/* Whether the name is that of an embedding, norm, output head or expert router. */
bool stays_by_default(const tenmap_tensor *tensor);

/*
 * Whether programs that load the scheme refuse or misread a weight of this shape. For fp8-block,
 * both dimensions must be multiples of 128, and those of the weights that are loaded as one with it
 * (q_proj, k_proj and v_proj). Such a weight is quantized only if a rule names it.
 */
bool is_refused_by_loaders(quantize_scheme scheme, const tenmap_tensor *tensor);

/*
 * Counts the weights that only their shape keeps from being quantized; *why is the reason for the
 * first.
 */
size_t count_unfit(const plan *p, quantize_scheme scheme, const char **why);

/*
 * Quantizes those of the plan's sources that convert --quantize would: replaces them by their
 * parts. Reads all of their values. Returns 0 or an exit code; call quantizer_free after plan_free.
 */
int plan_quantize_sources(plan *p, quantizer *q);

/* Adds both parts of a weight as sources. */
void plan_add_parts(plan *p, const quantizer *q, size_t weight);
/* Call after quantizer_open. The plan takes ownership of the quantizer's model. */
void plan_own_quantized(plan *p, const quantizer *q);

/*
 * Writes the value of "quantization_config"; it names the modules whose weights are not quantized.
 */
void plan_quantize_config(const plan *p, const quantizer *q, text *out);

/* Prints how many weights loaders would refuse and were therefore kept; nothing if none were. */
void refused_print(const plan *p, quantize_scheme scheme);
/* Writes the key "kept_for_loaders", their names, into the open object. */
void refused_json(const plan *p, quantize_scheme scheme);

/* Prints the losses and the weights that lose most. They are unknown unless they were measured. */
void quantize_print(const quantizer *q);
/* Writes the key "quantized" into the open object. */
void quantize_json(const quantizer *q);

#endif
