/*
 * Finds numbers in names that count modules: layers.3, block-0, down_blocks_0_attentions_1,
 * w_a_000. A number is a run of at most nine digits with a separator (. / - _) or an end of the
 * name on both sides.
 */
#ifndef TOOL_MODULE_NUMBERS_H
#define TOOL_MODULE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/print.h"
#include "tensor_patterns.h"

typedef struct number_span {
    size_t begin, end; /* byte offsets in the name */
    uint64_t value;
} number_span;

/* Finds the first number that begins at or after `from`. Returns false if there is none. */
bool number_find(const char *name, size_t len, size_t from, number_span *out);

/*
 * The length of the name's first part. A part ends at a dot or slash, or at a - or _ next to a
 * number: block-0.attn has the parts block, 0 and attn.
 */
size_t name_part_length(const char *name, size_t len);

/*
 * Adds "0…9, 11…23" for numbers in ascending order, which may repeat. After some ranges it adds how
 * many more there are.
 */
void text_add_ranges(text *t, const uint64_t *numbers, size_t count);

/* A stack of numbered modules that lacks some between others with the same contents. */
typedef struct number_gap {
    const char *prefix; /* start of a tensor's name, without the last separator */
    size_t prefix_len;
    const uint64_t *numbers; /* the numbers that exist, ascending */
    size_t count;
    uint64_t missing;
} number_gap;

/*
 * Calls `found` for each stack of modules with gaps. A stack has gaps if fewer than half of the
 * modules between its lowest and highest number are missing, and the modules next to a gap hold the
 * same tensors, at least three. By this rule layers without parameters, which torch.nn.Sequential
 * also counts, are not gaps.
 */
void find_gaps(const selection *s, void (*found)(void *ctx, const number_gap *gap), void *ctx);

#endif
