/*
 * Helpers for weights that the library dequantizes (--dequantize) and for the tensors that belong
 * to them.
 */
#ifndef TOOL_DEQUANTIZED_WEIGHTS_H
#define TOOL_DEQUANTIZED_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

bool is_dequantized(const tenmap_tensor *tensor);
/* The scheme of a quantized weight, or the dtype of a plain tensor. */
const char *stored_as(const tenmap_tensor *tensor);
/* Bytes in the file, summed over all parts. */
uint64_t stored_bytes(const tenmap_tensor *tensor);
/*
 * Whether this is "M.input_scale" beside a dequantized M.weight; a plain weight has no such tensor.
 */
bool is_activation_scale(const tenmap_model *model, const tenmap_tensor *tensor);

#endif
