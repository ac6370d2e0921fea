/*
 * Reads the part of YAML that recipes are written in: maps and lists by indentation, maps and lists
 * in brackets, texts with or without quotes, comments. JSON is a part of that. Everything else
 * (anchors, tags, texts over several lines, several documents) is refused by name and line, never
 * guessed. docs/blend.md describes it.
 */
#ifndef TOOL_YAML_SUBSET_H
#define TOOL_YAML_SUBSET_H

#include <stdbool.h>
#include <stddef.h>

#include "view/print.h"

enum {
    YAML_MAX_BYTES = 1 << 20,
    YAML_MAX_DEPTH = 32,
    YAML_MAX_NODES = 1 << 16,
    YAML_MAX_KEYS = 256 /* of one map */
};

typedef enum yaml_kind {
    YAML_NULL, /* nothing, null or ~ */
    YAML_TEXT,
    YAML_LIST,
    YAML_MAP
} yaml_kind;

typedef struct yaml_node {
    yaml_kind kind;
    size_t line; /* from 1 */
    char *text;  /* of TEXT; without NUL inside */
    bool quoted; /* of TEXT: so it is neither a number nor true or false */
    char *key;   /* if this is a value of a map */
    size_t key_line;
    size_t count; /* of LIST and MAP */
    struct yaml_node *first, *last, *next;
} yaml_node;

/*
 * On failure `why` is an error message with the line, and *out is NULL. `why` must be empty before.
 */
bool yaml_read(const char *bytes, size_t len, yaml_node **out, text *why);
void yaml_free(yaml_node *node);

/* NULL if the map has no such key. */
const yaml_node *yaml_find(const yaml_node *map, const char *key);
/* Decimal notation; finite. */
bool yaml_number(const yaml_node *node, double *out);
/* A whole number without a sign. */
bool yaml_whole(const yaml_node *node, size_t *out);
/* true, false, yes, no, on, off: in lower case, upper case, or with a capital. */
bool yaml_bool(const yaml_node *node, bool *out);

#endif
