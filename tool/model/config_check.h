/* Compares a model's tensors with what its config.json implies. */
#ifndef TOOL_CONFIG_CHECK_H
#define TOOL_CONFIG_CHECK_H

#include <stdbool.h>

#include <tenmap.h>

typedef struct config_finding {
    bool note;                   /* false: a warning */
    const tenmap_tensor *tensor; /* NULL if none applies */
    const char *message;
} config_finding;

/*
 * Calls `say` for each stack with missing or surplus layers, and for each tensor whose shape
 * differs from the one that config.json implies. Calls it with a note if the table of architectures
 * does not have this one, or none of the names. Packed weights are not compared. Returns 0, or an
 * exit code after printing an error: there is no config.json.
 */
int config_check(const tenmap_model *model, void (*say)(void *ctx, const config_finding *found),
                 void *ctx);

#endif
