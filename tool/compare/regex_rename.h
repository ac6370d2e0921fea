/* Names changed by regular expressions, as sed -E does: s/REGEX/NEW/g. */
#ifndef TOOL_SUBSTITUTE_H
#define TOOL_SUBSTITUTE_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "view/print.h"

typedef struct substitution {
    regex_t regex;
    char *replacement; /* as given: \1 to \9 and & stand for what was matched */
    bool everywhere;
} substitution;

/* All of them, or EXIT_USAGE, which has been told, and *out NULL. */
int substitutions_parse(const char *const *given, size_t count, substitution **out);
void substitutions_free(substitution *list, size_t count); /* NULL is fine */

/* A name, which holds no NUL, after each of them in turn. */
void substitute_all(const substitution *list, size_t count, const char *name, size_t len,
                    text *out);

#endif
