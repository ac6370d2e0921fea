/*
 * What a linear module stores besides its weight, and how each of these tensors follows the weight
 * when its rows are joined, cut or transposed.
 */
#ifndef TOOL_MATRIX_LEAVES_H
#define TOOL_MATRIX_LEAVES_H

#include "layout/layout_plan.h"

typedef enum leaf_kind {
    LEAF_WEIGHT,       /* a matrix: outputs by inputs */
    LEAF_VECTOR,       /* one value for each output */
    LEAF_BLOCK_SCALES, /* a matrix: one value for a square block of the weight */
    LEAF_ROW_SCALES,   /* one value for each output, as a matrix of one column, or as a vector */
    LEAF_CODES         /* what has a row for each output, in its first axis; never transposed */
} leaf_kind;

typedef struct matrix_leaf {
    const char *of_module; /* after the name of a linear module: ".weight" */
    const char *of_stack;  /* after the name of stacked experts: "", "_bias" */
    leaf_kind kind;
} matrix_leaf;

/* The leaf whose of_module (of_stack if `stacked`) is exactly this text; NULL: there is none. */
const matrix_leaf *find_leaf(const char *name, size_t len, bool stacked);

/* Whether the leaf's first two axes are exchanged when those of the weight are. */
bool leaf_transposes(const matrix_leaf *leaf);

/*
 * Checks that rows of a leaf follow rows of its weight when these are cut or joined at multiples of
 * `rows`, and sets *out to how many rows of the leaf that is. `weight` is the name of the weight,
 * for the message. Returns 0 or an exit code.
 */
int leaf_rows(const layout *l, const matrix_leaf *leaf, const tenmap_tensor *tensor,
              const tenmap_tensor *weight, uint64_t rows, uint64_t *out);

/* Refuses a tensor of a module that is to change, because it is no leaf that is known. */
int refuse_leaf(const tenmap_tensor *tensor, const char *what);
/* Refuses scales of blocks where the rows of gate and up take turns. */
int refuse_turns(const tenmap_tensor *scales);

#endif
