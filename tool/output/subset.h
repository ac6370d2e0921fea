/* What extract and drop share: some of the tensors of a model, as a model. */
#ifndef TOOL_SUBSET_H
#define TOOL_SUBSET_H

#include "command.h"
#include "output/output_plan.h"
#include "tensor_patterns.h"

typedef struct subset_settings {
    output_settings out;
    filter wanted;
    tenmap_dtype to; /* TENMAP_AS_STORED: not given */
    bool dequantize;
} subset_settings;

extern const option subset_options[];

/* Writes the tensors that the names and filters select, or with `keep` false all others. Exit code. */
int run_subset(const invocation *call, bool keep);

#endif
