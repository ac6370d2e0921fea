/* Lists of rules that several files of this folder share. */
#ifndef TOOL_ARCHITECTURE_RULES_H
#define TOOL_ARCHITECTURE_RULES_H

#include "architectures/architecture.h"

#define END_OF_RULES                                                                               \
    { NULL, ROLE_OTHER, NULL }
#define END_OF_DIMENSIONS                                                                          \
    { NULL, NULL, NULL, NULL }

/* The rules of all decoders together, for a model whose architecture is not known. */
extern const tensor_rule *const decoder_rules[];
extern const tensor_rule gguf_rules[];

/* One list of lists for each row of the table. */
extern const tensor_rule *const llama_rules[],
    *const olmo2_rules[], *const moe_rules[],
                              *const mixtral_rules[],
                                  *const deepseek_rules[],
                                      *const gpt_oss_rules[],
                                          *const phi3_rules[],
                                              *const gpt2_rules[],
                                                  *const bert_rules[],
                                                      *const t5_rules[],
                                                          *const clip_rules[],
                                                              *const clip_text_rules[],
                                                                  *const clip_vision_rules[],
                                                                      *const whisper_rules[];

#endif
