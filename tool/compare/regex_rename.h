/* Renames by regular expressions, as sed -E does: s/REGEX/NEW/g. */
#ifndef TOOL_REGEX_RENAME_H
#define TOOL_REGEX_RENAME_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "view/print.h"

typedef struct substitution {
    regex_t regex;
    char *replacement; /* as given: \1 to \9 and & refer to the match */
    bool everywhere;
} substitution;

/* Parses all of them. On failure prints an error, returns EXIT_USAGE and sets *out to NULL. */
int substitutions_parse(const char *const *given, size_t count, substitution **out);
void substitutions_free(substitution *list, size_t count); /* NULL is allowed */

/* Applies each substitution in turn to a name, which contains no NUL. */
void substitute_all(const substitution *list, size_t count, const char *name, size_t len,
                    text *out);

#endif
