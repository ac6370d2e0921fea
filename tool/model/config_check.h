/* Compares a model's tensors with what its config.json implies. */
#ifndef TOOL_CONFIG_CHECK_H
#define TOOL_CONFIG_CHECK_H

#include <tenmap.h>

/*
 * Calls `say` with a message for each missing or surplus layer, and for each tensor whose shape
 * differs from the one that config.json implies. Knows decoders like Llama, Mistral, Qwen and
 * Gemma, GPT-2, and encoders like BERT. Quantized weights are not compared. `tensor` is NULL if
 * none applies. Returns 0, or an exit code after printing an error: there is no config.json, or it
 * is of another architecture.
 */
int config_check(const tenmap_model *model,
                 void (*say)(void *ctx, const tenmap_tensor *tensor, const char *sentence),
                 void *ctx);

#endif
