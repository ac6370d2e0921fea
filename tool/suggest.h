/* "Did you mean": the known word that is nearest to a mistyped one. */
#ifndef TOOL_SUGGEST_H
#define TOOL_SUGGEST_H

#include <stddef.h>

typedef struct suggestion {
    const char *word; /* NULL while none is near enough */
    size_t len, distance;
} suggestion;

/* Keeps `word` if it is nearer to what was given than the one before, and near enough to be meant. */
void suggest(suggestion *best, const char *given, size_t given_len, const char *word, size_t len);

#endif
