/* Reads a JSON object whose values are strings: metadata that the user has edited. */
#ifndef TOOL_JSON_STRING_MAP_H
#define TOOL_JSON_STRING_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "view/print.h"

typedef struct json_pair {
    char *key, *value; /* NUL-terminated; may contain NUL bytes */
    size_t key_len, value_len;
    size_t key_end; /* offset in the text just after the key */
} json_pair;

typedef struct json_pairs {
    json_pair *items;
    size_t count;
} json_pairs;

/* On failure `why` is an error message with the line number. Free the pairs in either case. */
bool json_read_pairs(const char *bytes, size_t len, json_pairs *out, text *why);
void json_free_pairs(json_pairs *p);

#endif
