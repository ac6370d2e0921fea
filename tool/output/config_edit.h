/*
 * Changes some keys in the text of config.json and leaves everything else byte for byte. Also
 * decides which keys a converted model has to change, and describes the changes.
 */
#ifndef TOOL_CONFIG_EDIT_H
#define TOOL_CONFIG_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

#include "view/print.h"

/* Whether the text is one JSON object, as far as this parser checks. */
bool config_is_object(const text *json);
/*
 * Removes a key at the top level and in objects one level below it ("text_config"). Returns whether
 * there was one.
 */
bool config_remove(text *json, const char *key);
/*
 * Sets a key to a JSON value. A missing key is added at the top level if `add` is set. Returns
 * false if nothing had to change.
 */
bool config_set(text *json, const char *key, const char *value, bool add);

/* The layers of a stack, some of which are dropped, or which are arranged anew. */
typedef struct config_layers {
    size_t count, left; /* before and after */
    const bool *kept;   /* one per layer; NULL if `from` is given */
    const size_t *from; /* for each layer of the output, the layer that it was before */
} config_layers;

/* What config.json must say about a model that was written. */
typedef struct config_change {
    bool dequantized;            /* remove the keys that describe quantization */
    tenmap_dtype dtype;          /* the weights' new dtype; TENMAP_AS_STORED: unchanged */
    const char *quantization;    /* the value of "quantization_config"; NULL: none is written */
    const config_layers *layers; /* a list, whose numbers have no gap in the output */
    size_t layers_count;
} config_change;

enum { MAX_CONFIG_EDITS = 24 };

/* What was changed in config.json, key by key. */
typedef struct config_edits {
    struct config_edit {
        const char *key;
        const char *action; /* "removed", "added", "replaced", "set", "shortened", "rearranged",
                               "check" */
        const char *value;  /* of "set", if it is a text: "bfloat16"; else NULL */
        size_t number;      /* of "set", if it is a number; of a list, the elements that it has */
    } items[MAX_CONFIG_EDITS];
    size_t count;
} config_edits;

/* Applies the changes and lists them. */
void config_apply(text *json, const config_change *change, config_edits *done);
/* "quantization_config removed, torch_dtype set to "bfloat16"". */
void text_add_config_edits(text *t, const config_edits *done);
/* Whether the file only describes how a model was quantized, such as "hf_quant_config.json". */
bool is_quantization_config(const char *name);

#endif
