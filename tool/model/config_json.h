/*
 * config.json and its like: what lies in one, as a flat list of scalars with their paths; of an array the
 * first element.
 */
#ifndef TOOL_CONFIG_H
#define TOOL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/print.h"

typedef struct config_entry {
    char *path;  /* "text_config.hidden_size", "architectures.0" */
    char *value; /* a string's text, or the number or word as it is written */
} config_entry;

typedef struct config {
    config_entry *items;
    size_t count;
} config;

/* Reads FOLDER/NAME. False if there is none, or none that is JSON and of a size that people write. */
bool config_read(const char *folder, const char *name, config *out);
void config_free(config *c);

/*
 * The value of a key at the top, or in "text_config" or "llm_config", where models with several parts
 * keep what belongs to their language model; NULL: it is in neither.
 */
const char *config_text(const config *c, const char *key);
bool config_uint(const config *c, const char *key, uint64_t *out);

#endif
