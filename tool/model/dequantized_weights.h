/*
 * Helpers for weights that the library dequantizes (--dequantize), for the tensors that belong to
 * them, and for other tensors without bytes of their own.
 */
#ifndef TOOL_DEQUANTIZED_WEIGHTS_H
#define TOOL_DEQUANTIZED_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

/*
 * Whether the tensor has no bytes of its own in the file, so that only its values can be read: it
 * is dequantized, or its elements do not lie one after the other. No other file tests the flag.
 */
bool has_no_bytes(const tenmap_tensor *tensor);
bool is_dequantized(const tenmap_tensor *tensor);
/* Whether it is computed from tensors of other models (tenmap_derive), so values are rounded. */
bool is_derived(const tenmap_tensor *tensor);
/* The scheme of a quantized weight, or the dtype of a plain tensor. */
const char *stored_as(const tenmap_tensor *tensor);
/* Bytes in the file, summed over all parts. */
uint64_t stored_bytes(const tenmap_tensor *tensor);
/*
 * Whether this is "M.input_scale" beside a dequantized M.weight; a plain weight has no such tensor.
 */
bool is_activation_scale(const tenmap_model *model, const tenmap_tensor *tensor);

#endif
