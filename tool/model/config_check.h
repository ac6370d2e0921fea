/* What a config.json says of tensors, compared with those that are there. */
#ifndef TOOL_EXPECT_H
#define TOOL_EXPECT_H

#include <tenmap.h>

/*
 * Calls with a sentence for each layer that is missing or too many and each tensor whose shape is not
 * the one that the config.json beside the model implies: for decoders as Llama, Mistral, Qwen and Gemma
 * have them, for GPT-2 and for encoders as BERT's. Weights that are stored in parts are not compared.
 * `tensor` is NULL where none applies. 0, or an exit code: there is no config.json, or one of another
 * architecture, and it has told.
 */
int expect_check(const tenmap_model *model,
                 void (*say)(void *ctx, const tenmap_tensor *tensor, const char *sentence),
                 void *ctx);

#endif
