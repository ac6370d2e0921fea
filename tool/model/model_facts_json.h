/*
 * Writes what a model is as JSON, for commands that describe models in addition to their own
 * output.
 */
#ifndef TOOL_MODEL_FACTS_JSON_H
#define TOOL_MODEL_FACTS_JSON_H

#include <tenmap.h>

/*
 * Writes the keys "architecture", "architecture_source", "adapter" and "quantization", where known,
 * into the open object. Reads config.json and small tensors that describe others, no weights.
 */
void model_facts_json(const tenmap_model *model);

#endif
