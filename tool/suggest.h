/* "Did you mean": finds the known word that is closest to a mistyped one. */
#ifndef TOOL_SUGGEST_H
#define TOOL_SUGGEST_H

#include <stddef.h>

typedef struct suggestion {
    const char *word; /* NULL while no word is close enough */
    size_t len, distance;
} suggestion;

/*
 * Keeps `word` if it is closer to the given text than the best so far, and close enough to be
 * meant.
 */
void suggest(suggestion *best, const char *given, size_t given_len, const char *word, size_t len);

#endif
