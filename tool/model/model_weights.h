/* The weights of a model, each once: a quantized weight is one, however many tensors store it. */
#ifndef TOOL_MODEL_WEIGHTS_H
#define TOOL_MODEL_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "architectures/architecture.h"

#define NO_LAYER UINT64_MAX

typedef struct model_weight {
    uint64_t values;  /* 0: not known */
    uint64_t columns; /* values of a row; 0: not known, because they are packed */
    uint64_t bytes;   /* as stored, with all parts */
    uint64_t layer;   /* NO_LAYER: in no layer */
    uint32_t rank;
    tensor_role role;
} model_weight;

typedef struct model_weights {
    model_weight *items;
    size_t count;
} model_weights;

/*
 * Lists the weights by headers alone. `a` may be NULL: then roles are those that the names of
 * common decoders suggest.
 */
void weights_list(const tenmap_model *model, const architecture *a, model_weights *out);
void weights_free(model_weights *w);

/* Whether the weight belongs to one of many experts of which a token uses a few. */
bool is_expert(const model_weight *w);

#endif
