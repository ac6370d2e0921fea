/*
 * How architectures name and arrange the experts of a layer: one by one, as on the hub, or stacked
 * in one tensor for each projection, as transformers 5 holds them.
 */
#ifndef TOOL_EXPERT_LAYOUTS_H
#define TOOL_EXPERT_LAYOUTS_H

#include <stdbool.h>

/* The axes of the stacked tensors, where I is the width of an expert. */
typedef enum expert_axes {
    EXPERT_ROWS,    /* gate_up [experts, 2 I, hidden]: gate, then up; down [experts, hidden, I] */
    EXPERT_COLUMNS, /* gate_up [experts, hidden, 2 I]: gate, then up; down [experts, I, hidden] */
    EXPERT_INTERLEAVED /* as EXPERT_COLUMNS, but gate and up take turns: gate 0, up 0, gate 1, */
} expert_axes;

typedef struct expert_layout {
    const char *types;          /* values of model_type, with a space before and after each */
    const char *split_module;   /* what comes before ".experts.3.", "mlp" */
    const char *stacked_module; /* what comes before ".experts.gate_up_proj" */
    const char *parts[3];       /* gate, up and down of one expert, without "weight" */
    expert_axes axes;
} expert_layout;

/* NULL: the type is not in the table. */
const expert_layout *expert_layout_of_type(const char *type);
/* "mixtral, qwen2_moe, ..." for messages. The text stays valid until the next call. */
const char *expert_layout_types(void);

/* Whether "mlp.experts.gate_up_proj" begins with the inputs of the matrix, not the outputs. */
bool experts_are_transposed(const expert_layout *layout);

#endif
