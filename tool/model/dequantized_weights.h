/* Weights that the library puts together from their parts (--dequantize), and what belongs to them. */
#ifndef TOOL_COMPUTED_H
#define TOOL_COMPUTED_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

bool is_computed(const tenmap_tensor *tensor);
/* Its scheme; of a plain tensor its dtype. */
const char *stored_as(const tenmap_tensor *tensor);
/* In the file: of all parts. */
uint64_t stored_bytes(const tenmap_tensor *tensor);
/* "M.input_scale" beside an M.weight that is put together: a plain weight would have none. */
bool is_activation_scale(const tenmap_model *model, const tenmap_tensor *tensor);

#endif
