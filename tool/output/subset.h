/* Shared by extract and drop: writes some of a model's tensors as a new model. */
#ifndef TOOL_SUBSET_H
#define TOOL_SUBSET_H

#include "command.h"
#include "output/output_plan.h"
#include "tensor_patterns.h"

typedef struct subset_settings {
    output_settings out;
    filter wanted;
    tenmap_dtype to; /* TENMAP_AS_STORED: not given */
    bool dequantize, renumber;
} subset_settings;

extern const option subset_options[];

/*
 * Writes the tensors that the names and filters select, or all others if `keep` is false. Returns
 * an exit code.
 */
int run_subset(const invocation *call, bool keep);

#endif
