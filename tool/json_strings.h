/* Reads a JSON object of strings: metadata as an editor leaves it. */
#ifndef TOOL_JSON_IN_H
#define TOOL_JSON_IN_H

#include <stdbool.h>
#include <stddef.h>

#include "view/print.h"

typedef struct json_pair {
    char *key, *value; /* NUL-terminated; may hold NUL inside */
    size_t key_len, value_len;
    size_t key_end; /* bytes of the text up to the end of the key */
} json_pair;

typedef struct json_pairs {
    json_pair *items;
    size_t count;
} json_pairs;

/* On failure `why` is a sentence with the line. The pairs are to be freed in either case. */
bool json_read_pairs(const char *bytes, size_t len, json_pairs *out, text *why);
void json_free_pairs(json_pairs *p);

#endif
