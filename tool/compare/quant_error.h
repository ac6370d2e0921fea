/* Measures quantization error: how far dequantized weights are from the originals. */
#ifndef TOOL_QUANT_ERROR_H
#define TOOL_QUANT_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "compare/compare_values.h"
#include "view/print.h"

/* Whether one side is a quantized weight, so that the difference is its scheme's error. */
bool is_quantized_pair(const pair *p);

/*
 * Signal-to-noise ratio in dB: the norm of the original over that of the difference. Infinite if
 * they are equal.
 */
double snr_of(double relative_error);
void text_add_snr(text *t, double relative_error); /* "31.5 dB", "exact" */

/*
 * Prints the pairs with a quantization error beyond the tolerance, in their order, at most `most`,
 * then totals by kind of layer and overall. Returns how many there are; prints nothing if there are
 * none.
 */
size_t print_quant_error(const pair *pairs, size_t count, size_t most);
/* Writes the key "quantization" with all of this into the open object. */
void quant_error_json(const pair *pairs, size_t count);

#endif
