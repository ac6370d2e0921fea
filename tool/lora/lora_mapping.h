/*
 * Maps LoRA adapters to the tensors of their base: what has to be done to which tensor, in order.
 * Every key of an adapter is applied, ignored with a reason, or an error.
 */
#ifndef TOOL_LORA_MAPPING_H
#define TOOL_LORA_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "lora/lora_base_names.h"
#include "lora/lora_dialects.h"
#include "lora/lora_settings.h"

typedef enum lora_op {
    LORA_REPLACE,  /* terms[0] takes the place of the tensor */
    LORA_ADD,      /* terms[0] is a tensor that the base lacks */
    LORA_LOW_RANK, /* + factor * (terms[0] @ terms[1]) */
    LORA_DORA,     /* the same, then each output scaled to its magnitude */
    LORA_SUM       /* + factor * terms[0] */
} lora_op;
const char *lora_op_name(lora_op op);

/* One step of what happens to a tensor. */
typedef struct lora_step {
    lora_op op;
    size_t adapter;
    const tenmap_tensor *target; /* of the base; of LORA_ADD the adapter's own tensor */
    const char *name;            /* of the tensor in the output */
    size_t name_len;
    char *own_name; /* of LORA_ADD; freed with the mapping */
    /* In the order of the product: B and A or, if they are transposed, A and B. */
    const tenmap_tensor *terms[2];
    const tenmap_tensor *magnitude; /* of LORA_DORA */
    double factor;
    bool transposed; /* both terms are; with LORA_DORA, columns are scaled instead of rows */
    uint64_t rank;
    double alpha; /* NaN: the adapter says none */
} lora_step;

typedef struct lora_ignored {
    const tenmap_tensor *key;
    const char *why;
} lora_ignored;

typedef struct lora_source {
    const tenmap_model *model;
    double scale; /* from the command line */
    lora_settings settings;
    lora_ignored *ignored;
    size_t ignored_count, applied; /* keys */
    bool rslora;
    const char *dialect; /* of most keys: "PEFT" */
} lora_source;

typedef struct lora_mapping {
    const tenmap_model *base;
    lora_base_names *names;
    lora_source *sources; /* one per adapter; the caller sets model and scale */
    size_t source_count;
    const char *component; /* only keys with this prefix, without its last character; NULL: all */
    lora_step *steps;      /* by adapter, then replacements first */
    size_t step_count;
} lora_mapping;

/* Maps the adapters. Returns 0, or an exit code after printing an error. */
int lora_map(lora_mapping *m);
void lora_mapping_free(lora_mapping *m);

/* Refuses factors with NaN or infinities. Returns 0 or an exit code. */
int lora_check_values(const lora_mapping *m);

#endif
