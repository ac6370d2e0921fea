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

/* What config.json must say about a model that was written. */
typedef struct config_change {
    bool dequantized;         /* remove the keys that describe quantization */
    tenmap_dtype dtype;       /* the weights' new dtype; TENMAP_AS_STORED: unchanged */
    const char *quantization; /* the value of "quantization_config"; NULL: none is written */
} config_change;

/* Applies the changes and describes them in `said`: "quantization_config removed, ...". */
void config_apply(text *json, const config_change *change, text *said);
/* Whether the file only describes how a model was quantized, such as "hf_quant_config.json". */
bool is_quantization_config(const char *name);

#endif
