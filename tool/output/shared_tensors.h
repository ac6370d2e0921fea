/* Tensors of a plan that are one and the same in a PyTorch file: written once, under one name. */
#ifndef TOOL_SHARED_TENSORS_H
#define TOOL_SHARED_TENSORS_H

#include <stdbool.h>

#include "output/output_plan.h"

/*
 * Leaves out of the plan tensors that have the dtype, first byte, shape and strides of another one
 * and would be written with the same dtype. The name that comes first in byte order is kept, as in
 * safetensors.torch.save_model. plan_collect_metadata writes pairs LEFT OUT: KEPT. A tensor whose
 * name is a key of the output's metadata, such as "format", is not left out.
 */
void plan_share(plan *p, const output_settings *out);

/*
 * What the output leaves out of a checkpoint: other names of tensors, tensors of other branches,
 * metadata. As lines, or as keys of the open JSON object.
 */
void left_out_print(const plan *p);
void left_out_json(const plan *p);

#endif
