/*
 * Reads config.json and similar files into a flat list of scalars with their paths. Only the first
 * element of an array is kept, except for "layer_types".
 */
#ifndef TOOL_CONFIG_JSON_H
#define TOOL_CONFIG_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/print.h"

typedef struct config_entry {
    char *path;  /* "text_config.hidden_size", "architectures.0" */
    char *value; /* the string's text, or the number or word as written */
} config_entry;

typedef struct config {
    config_entry *items;
    size_t count;
    bool incomplete; /* a value was left out because its path is longer than 256 bytes */
    bool unreadable; /* by config_read: the file is there, but cannot be read, or is no JSON */
} config;

/*
 * Reads FOLDER/NAME. Returns false if it does not exist, is not JSON, or is too large for a
 * configuration file.
 */
bool config_read(const char *folder, const char *name, config *out);
/* The same for a text. */
bool config_parse(const char *bytes, size_t len, config *out);
void config_free(config *c);

/*
 * The value of a key at the top level, or in "text_config" or "llm_config", where multimodal models
 * keep the settings of their language model. NULL if it is in none of them.
 */
const char *config_text(const config *c, const char *key);
bool config_uint(const config *c, const char *key, uint64_t *out);
/* How many elements of the array at this key, in one of these places, have this value. */
size_t config_count(const config *c, const char *key, const char *value);

#endif
