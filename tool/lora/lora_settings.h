/* What an adapter says about its scale: adapter_config.json, or metadata of diffusers. */
#ifndef TOOL_LORA_SETTINGS_H
#define TOOL_LORA_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "lora/lora_patterns.h"
#include "model/config_json.h"

/* What the settings say about the modules of one model: found once, then used for all of them. */
typedef struct lora_scope {
    const config *of;   /* NULL: not found yet */
    const char *prefix; /* of the model: "unet." */
    const char *rank, *alpha;
    bool rslora;
    lora_patterns ranks, alphas;
} lora_scope;

typedef struct lora_settings {
    config peft;      /* adapter_config.json */
    config diffusers; /* the metadata "lora_adapter_metadata" */

    bool has_peft;
    bool fan_in_fan_out, dora; /* of adapter_config.json */
    lora_scope scope;          /* of the module that lora_scale_of was called for last */
} lora_settings;

/* Refuses adapters of other kinds. Returns 0 or an exit code. */
int lora_settings_read(const tenmap_model *adapter, lora_settings *out);
void lora_settings_free(lora_settings *s);

/* A module of the adapter, for lora_scale. */
typedef struct lora_module_name {
    const char *prefix; /* "unet."; "" */
    const char *name;   /* without the prefix */
    size_t len;
    bool peft;
} lora_module_name;

typedef struct lora_scale {
    double alpha;     /* NaN: not known, so the adapter is used as it is (alpha = rank) */
    double factor;    /* of B @ A */
    bool rslora;      /* alpha / sqrt(rank) */
    uint64_t rank;    /* that the settings say; 0: they say none */
    const char *from; /* what says alpha */
} lora_scale;

/*
 * The scale of a module of this rank. `alpha` is what a tensor of the adapter says, or NaN. Returns
 * 0, or an exit code after printing an error.
 */
int lora_scale_of(lora_settings *s, const tenmap_model *adapter, const lora_module_name *module,
                  uint64_t rank, double alpha, lora_scale *out);

#endif
