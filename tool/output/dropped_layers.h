/*
 * Finds stacks of layers (model.layers.0 to model.layers.5) of which an output lacks some,
 * renumbers the rest, and says what config.json has to follow.
 */
#ifndef TOOL_DROPPED_LAYERS_H
#define TOOL_DROPPED_LAYERS_H

#include "output/config_edit.h"
#include "output/output_plan.h"

/* A stack whose layers have the numbers 0 to count - 1 in the input. */
typedef struct layer_stack {
    const char *prefix; /* the start of a tensor's name, with the last separator */
    size_t prefix_len;
    size_t count, left; /* layers of the input, and of the output */
    bool *kept;         /* one per layer of the input */
    size_t *numbers;    /* of the layers that are kept, without a gap */
} layer_stack;

typedef struct dropped_layers {
    layer_stack *stacks; /* only those of which some layers are left, but not all */
    size_t count;
} dropped_layers;

/* Looks at the first number of each name, in the first model and in the plan. */
void find_dropped_layers(const plan *p, dropped_layers *out);
void dropped_layers_free(dropped_layers *d);
/* Whether numbers are missing before the last layer that is left. */
bool has_gap(const layer_stack *s);
/* Renames the sources so that the layers that are left have the numbers from 0 on. */
void renumber_layers(plan *p, const dropped_layers *d);
/* Prints a line for each stack with a gap, or writes the key "layer_gaps". */
void print_layer_gaps(const dropped_layers *d);
void layer_gaps_json(const dropped_layers *d);

#endif
