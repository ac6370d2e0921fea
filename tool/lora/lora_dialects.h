/*
 * Reads the names in LoRA adapters: which part of which module a tensor is, in the dialects of
 * PEFT, kohya's scripts and ComfyUI, diffusers, AI-toolkit and llama.cpp.
 */
#ifndef TOOL_LORA_DIALECTS_H
#define TOOL_LORA_DIALECTS_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

typedef enum lora_part {
    LORA_PART_DOWN,      /* A: rank x inputs */
    LORA_PART_UP,        /* B: outputs x rank */
    LORA_PART_EMBED_A,   /* of an embedding: rank x entries */
    LORA_PART_EMBED_B,   /* dimensions x rank */
    LORA_PART_MAGNITUDE, /* of DoRA: one number per output */
    LORA_PART_ALPHA,     /* a scalar */
    LORA_PART_UP_BIAS,   /* added to the module's bias, scaled as the product is */
    LORA_PART_DIFF,      /* added to the module's weight */
    LORA_PART_DIFF_BIAS, /* added to its bias */
    LORA_PARTS,
    LORA_PART_WHOLE = LORA_PARTS, /* not a part of a product: a tensor stored as it is */
    LORA_PART_REFUSED             /* of an adapter of another kind */
} lora_part;

/* Which of a pipeline's models a key is for. */
typedef enum lora_place {
    LORA_ANY_PLACE,
    LORA_DENOISER, /* a UNet or a transformer */
    LORA_TEXT_1,
    LORA_TEXT_2,
    LORA_TEXT_3
} lora_place;

typedef struct lora_key {
    lora_part part;
    size_t stem;         /* how many bytes at the start of the name belong to the module */
    const char *refused; /* of LORA_PART_REFUSED: "a LoHa"; else NULL */
} lora_key;

lora_key lora_key_read(const tenmap_tensor *tensor);

/* The prefix of a module's name. */
typedef struct lora_prefix {
    const char *text; /* "unet."; "" if there is none */
    lora_place place;
    bool underscores; /* kohya: the module's dots are written as underscores */
    bool peft;        /* "base_model.model." */
} lora_prefix;

/* Never NULL. */
const lora_prefix *lora_prefix_of(const char *name, size_t len);

/*
 * Prefixes by which base models name the modules of a place, such as "model.diffusion_model.".
 * Prefix `i`, or NULL after the last one.
 */
const lora_prefix *lora_base_prefix(size_t i);

#endif
