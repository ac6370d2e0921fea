/* Finds the known word that is closest to a mistyped one, by edit distance. */
#include "suggest.h"

#include <string.h>

enum { LONGEST = 127 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/*
 * The number of letters to insert, delete, replace or swap with their neighbor. Both words have at
 * most LONGEST letters.
 */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m) {
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[m];
}

void suggest(suggestion *best, const char *given, size_t given_len, const char *word, size_t len) {
    size_t near_enough = given_len < 5 ? 1 : given_len < 7 ? 2 : 3;
    size_t gap = len > given_len ? len - given_len : given_len - len;
    if (len > LONGEST || given_len > LONGEST)
        return;
    size_t distance = near_enough + 1;
    if (len > given_len && given_len > 1 && memcmp(given, word, given_len) == 0)
        distance = 1; /* a prefix counts as the word cut short */
    else if (gap <= near_enough)
        distance = edit_distance(given, given_len, word, len);
    if (distance > near_enough || distance >= len || (best->word && distance >= best->distance))
        return;
    *best = (suggestion){word, len, distance};
}
