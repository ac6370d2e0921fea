/* Random numbers, and random damage to a text: for tests that compare two readers. */
#ifndef TENMAP_TESTS_DAMAGE_H
#define TENMAP_TESTS_DAMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint64_t random_state; /* never 0 */

static size_t pick(size_t below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % below);
}

/*
 * Changes or removes one byte, inserts one of `letters`, or copies a piece shorter than `most` over
 * another.
 */
static size_t damage(char *text, size_t length, size_t most, const char *letters) {
    size_t at = pick(length - 1), from = pick(length - 1), size = pick(most);
    switch (pick(4)) {
    case 0:
        text[at] = (char)pick(256);
        break;
    case 1:
        memmove(text + at, text + at + 1, length - at - 1);
        return length - 1;
    case 2:
        memmove(text + at + 1, text + at, length - at);
        text[at] = letters[pick(strlen(letters))];
        return length + 1;
    default:
        if (at + size < length && from + size < length)
            memmove(text + at, text + from, size);
    }
    return length;
}

#endif
