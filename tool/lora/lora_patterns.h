/* The keys of PEFT's rank_pattern and alpha_pattern: names of modules, or regular expressions. */
#ifndef TOOL_LORA_PATTERNS_H
#define TOOL_LORA_PATTERNS_H

#include <regex.h>
#include <stddef.h>

#include "model/config_json.h"

typedef enum pattern_kind { PATTERN_UNREAD, PATTERN_NAME, PATTERN_REGEX } pattern_kind;

typedef struct lora_pattern {
    const char *pattern, *value; /* of the settings */
    size_t len;                  /* of the pattern */
    pattern_kind kind;           /* known once a module was compared with it */
    regex_t compiled;
} lora_pattern;

typedef struct lora_patterns {
    lora_pattern *items; /* in the order of the settings */
    size_t count, regexes;
} lora_patterns;

/* The entries of the settings below this key: "alpha_pattern". They point into the settings. */
void lora_patterns_take(const config *c, const char *key, lora_patterns *out);
void lora_patterns_free(lora_patterns *patterns);

/*
 * Sets *value to that of the first pattern that matches the module, and leaves it if none does.
 * Returns 0, or an exit code after printing an error.
 */
int lora_patterns_find(lora_patterns *patterns, const char *name, size_t len, const char **value);

#endif
