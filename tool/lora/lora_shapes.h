/* Checks that the factors of a LoRA have the shapes that a weight needs. Nothing broadcasts. */
#ifndef TOOL_LORA_SHAPES_H
#define TOOL_LORA_SHAPES_H

#include <stdbool.h>

#include <tenmap.h>

typedef struct lora_fit {
    const tenmap_tensor *weight, *down, *up;
    const tenmap_tensor *magnitude; /* NULL: none */
    bool embedding;
    bool known;          /* fan_in_fan_out comes from adapter_config.json */
    bool fan_in_fan_out; /* the base stores its weights transposed, as inputs x outputs */
    bool transposed;     /* set: the product is added transposed */
} lora_fit;

/*
 * adapter_config.json has one fan_in_fan_out for all modules, even if a model has layers of both
 * kinds. The shape decides, and where it cannot, nothing may contradict the setting.
 */
typedef struct lora_orientation {
    const tenmap_tensor *square;      /* a weight whose shape fits both */
    const tenmap_tensor *contradicts; /* one whose shape contradicts the setting */
} lora_orientation;

/* Sets fit->transposed. Returns 0, or an exit code after printing an error. */
int lora_fit_factors(lora_fit *fit, lora_orientation *seen);
int lora_check_orientation(const lora_orientation *seen);
/* Requires that both have the same shape. */
int lora_same_shape(const tenmap_tensor *weight, const tenmap_tensor *term);

#endif
