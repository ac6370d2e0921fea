/* Finds the tensors of a base model that the modules of a LoRA adapter are for. */
#ifndef TOOL_LORA_BASE_NAMES_H
#define TOOL_LORA_BASE_NAMES_H

#include <stddef.h>

#include <tenmap.h>

#include "lora/lora_dialects.h"

typedef struct lora_base_names lora_base_names;

lora_base_names *lora_base_names_new(const tenmap_model *base);
void lora_base_names_free(lora_base_names *names);

/*
 * Finds the weight of a module, by its name in the adapter with its prefix. Returns NULL if there
 * is none. If several fit, *other is a second one; otherwise it is NULL.
 */
const tenmap_tensor *lora_find_weight(lora_base_names *names, const char *module, size_t len,
                                      const tenmap_tensor **other);
/* The tensor of exactly this name, after the adapter's prefixes are removed; NULL if none. */
const tenmap_tensor *lora_find_tensor(const lora_base_names *names, const char *name, size_t len);
/* The bias of the module that has this weight; NULL if it has none. */
const tenmap_tensor *lora_find_bias(const tenmap_tensor *weight);
/* The name without the adapter's prefixes; *len is its length before and after. */
const char *lora_strip_prefixes(const char *name, size_t *len);

#endif
