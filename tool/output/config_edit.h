/*
 * The text of config.json with some keys changed: everything else stays as it is written, byte for byte.
 * What a converted model needs said otherwise there, and what was done about it.
 */
#ifndef TOOL_CONFIG_EDIT_H
#define TOOL_CONFIG_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

#include "view/print.h"

/* Whether the text is one JSON object, as far as this file looks at it. */
bool config_is_object(const text *json);
/* At the top, and in objects one level below it ("text_config"). Whether there was one. */
bool config_remove(text *json, const char *key);
/*
 * Sets a key to a JSON value. Where there is none yet, it is added at the top if `add`. False if nothing
 * had to be changed.
 */
bool config_set(text *json, const char *key, const char *value, bool add);

/* What a model that was written needs its config.json to say. */
typedef struct config_change {
    bool dequantised;         /* keys that tell how weights are quantised go */
    tenmap_dtype dtype;       /* of the weights now; TENMAP_AS_STORED: as it was */
    const char *quantization; /* the value of "quantization_config"; NULL: none is written */
} config_change;

/* Makes the changes; what they were goes into `said`: "quantization_config removed, ...". */
void config_apply(text *json, const config_change *change, text *said);
/* Files that only tell how a model was quantised, as "hf_quant_config.json". */
bool tells_quantisation(const char *name);

#endif
