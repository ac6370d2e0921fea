/*
 * The one table of model architectures: how tensors are named, what each of them is for, and which
 * shape config.json implies. A row describes the architectures that share all of that.
 */
#ifndef TOOL_ARCHITECTURE_H
#define TOOL_ARCHITECTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "model/config_json.h"

/* What a tensor is for. Roles say what is stored, not how it is named. */
typedef enum tensor_role {
    ROLE_OTHER,
    ROLE_EMBEDDING,
    ROLE_HEAD, /* from hidden states to the vocabulary */
    ROLE_POSITIONS,
    ROLE_NORM,
    ROLE_BIAS,
    ROLE_QUERY,
    ROLE_KEY,
    ROLE_VALUE,
    ROLE_QKV, /* query, key and value in one tensor */
    ROLE_ATTENTION_OUT,
    ROLE_GATE,
    ROLE_UP,
    ROLE_GATE_UP, /* gate and up in one tensor */
    ROLE_DOWN,
    ROLE_ROUTER,
    ROLE_EXPERT_GATE,
    ROLE_EXPERT_UP,
    ROLE_EXPERT_GATE_UP,
    ROLE_EXPERT_DOWN,
    ROLE_EXPERT_BIAS
} tensor_role;

/*
 * One tensor. A # in the name is a number: the first is that of the layer, the second that of the
 * expert. The name may have any prefix that ends with a dot. The shape lists expressions of
 * dimensions, "heads*head, hidden"; NULL: only the role is known.
 */
typedef struct tensor_rule {
    const char *name;
    tensor_role role;
    const char *shape;
} tensor_rule;

/*
 * A dimension by which shapes are expressed: the keys that config.json may have for it, and the key
 * in GGUF after "ARCHITECTURE.". `otherwise` is an expression for files that do not say.
 */
typedef struct dimension {
    const char *name;
    const char *keys; /* separated by |; the first that is there counts */
    const char *gguf;
    const char *otherwise;
} dimension;

/* A stack of numbered layers, and the dimension that counts them. */
typedef struct layer_stack {
    const char *name;
    const char *count;
} layer_stack;

/* Which layers attend only to a sliding window of tokens, if the configuration has a window. */
typedef enum window_layers {
    WINDOW_NONE,
    WINDOW_ALL,
    WINDOW_MOST,     /* all but every n-th layer, where n is the dimension full_every */
    WINDOW_ON_DEMAND /* those from max_window_layers on, if use_sliding_window is true */
} window_layers;

/* What a decoder keeps for each token. */
typedef enum cache_kind {
    CACHE_KEY_VALUE,
    CACHE_LATENT, /* one compressed vector for keys and values: MLA */
    CACHE_CROSS,  /* keys and values, and those of the encoder's output */
    CACHE_NONE    /* an encoder: nothing is kept */
} cache_kind;

enum { MAX_STACKS = 2, MAX_DIMENSIONS = 48 };

typedef struct architecture {
    const char *types; /* values of model_type, with a space before and after each */
    const char *gguf;  /* values of general.architecture, in the same form; NULL: none */
    const tensor_rule *const
        *rules; /* lists, each of which ends with a NULL name; ends with NULL */
    layer_stack stacks[MAX_STACKS];
    const dimension *own; /* instead of the common dimensions of these names; may be NULL */
    window_layers windows;
    cache_kind cache;
} architecture;

/* The values of dimensions for one model; 0: not known. */
typedef struct model_sizes {
    uint64_t values[MAX_DIMENSIONS];
} model_sizes;

/* All rows, for lookups by something else than below; the last has no types. */
extern const architecture architectures[];

/*
 * Finds the architecture by config.json, or by general.architecture of a GGUF file. A multimodal
 * model is found by its language model. NULL: it is not in the table.
 */
const architecture *architecture_of_config(const config *c);
const architecture *architecture_of_gguf(const tenmap_model *model);

/* `a` may be NULL: then only the common dimensions are read. */
void sizes_of_config(const architecture *a, const config *c, model_sizes *out);
void sizes_of_gguf(const architecture *a, const tenmap_model *model, model_sizes *out);
uint64_t size_named(const model_sizes *sizes, const char *name);

/*
 * Evaluates an expression of dimensions with + * / and parentheses, up to a comma or the end.
 * Returns 0 if a dimension is not known or the value is too large. Sets *end to what stopped it.
 */
uint64_t size_of_expression(const model_sizes *sizes, const char *expression, const char **end);

typedef struct tensor_match {
    const tensor_rule *rule;
    uint64_t layer; /* UINT64_MAX: in no layer */
} tensor_match;

/*
 * Finds the rule for a tensor's name. `a` may be NULL: then the rules of all decoders are tried,
 * and only the role of the rule means something. Names of vision and audio towers match no rule of
 * a language model. Returns false if no rule matches.
 */
bool match_tensor(const architecture *a, const char *name, size_t len, tensor_match *out);

/* The same for a name in a GGUF file. The rule has no shape. */
bool match_gguf_tensor(const char *name, size_t len, tensor_match *out);

/* Whether the name is that of a tower for images or sound beside a language model. */
bool is_other_tower(const char *name, size_t len);

#endif
