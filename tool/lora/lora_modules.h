/* The modules of a LoRA adapter: which of its tensors belong together, and for which weight. */
#ifndef TOOL_LORA_MODULES_H
#define TOOL_LORA_MODULES_H

#include "lora/lora_mapping.h"

typedef struct lora_module {
    const char *name; /* with its prefix */
    size_t len;
    const lora_prefix *prefix;
    const tenmap_tensor *parts[LORA_PARTS]; /* NULL: none */
    const tenmap_tensor *first;             /* the first part, for messages */
    const tenmap_tensor *weight;            /* of the base; NULL: it has none */
    bool ignored;
} lora_module;

typedef struct lora_modules {
    lora_module *items; /* sorted by name */
    size_t count;
    const tenmap_tensor **whole; /* tensors stored as they are */
    size_t whole_count;
} lora_modules;

/*
 * Groups the adapter's tensors and finds the weight of each module. Modules of a component that the
 * base does not have are ignored if others apply; other modules without a weight are an error.
 * Returns 0 or an exit code; call lora_modules_free in either case.
 */
int lora_modules_find(lora_mapping *m, lora_source *source, lora_modules *out);
void lora_modules_free(lora_modules *modules);

void lora_ignore(lora_source *source, const tenmap_tensor *key, const char *why);

#endif
