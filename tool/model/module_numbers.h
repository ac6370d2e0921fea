/*
 * Numbers in names that count modules: layers.3, block-0, down_blocks_0_attentions_1, w_a_000. A number
 * is a run of at most nine digits with a separator (. / - _) or an end of the name on both sides.
 */
#ifndef TOOL_NUMBERED_H
#define TOOL_NUMBERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/print.h"
#include "tensor_patterns.h"

typedef struct number_place {
    size_t begin, end; /* bytes of the name */
    uint64_t value;
} number_place;

/* The first number that begins at `from` or after it; false: there is none. */
bool number_find(const char *name, size_t len, size_t from, number_place *out);

/*
 * The length of the part that a name begins with: up to a dot or slash, or to a - or _ that stands
 * before or behind a number. So block-0.attn has three parts: block, 0, attn.
 */
size_t numbered_part(const char *name, size_t len);

/* "0…9, 11…23" from numbers in rising order, equal ones allowed; after some ranges, how many more. */
void text_add_ranges(text *t, const uint64_t *numbers, size_t count);

/* Modules that are counted, some of which are missing between others that are alike. */
typedef struct number_gap {
    const char *prefix; /* of a tensor's name, without its last separator */
    size_t prefix_len;
    const uint64_t *numbers; /* that are there, rising */
    size_t count;
    uint64_t missing;
} number_gap;

/*
 * Calls with each stack of modules that has gaps: of the modules between its least and its greatest
 * number fewer than half are missing, and those beside a gap hold the same tensors, at least three.
 * Layers without parameters, which torch.nn.Sequential counts too, make no gap by that rule.
 */
void find_gaps(const selection *s, void (*found)(void *ctx, const number_gap *gap), void *ctx);

#endif
