/* The tensors of a linear module, and how they follow its weight. */
#include "layout/matrix_leaves.h"

#include <inttypes.h>
#include <string.h>

static const matrix_leaf leaves[] = {
    {".weight", "", LEAF_WEIGHT},
    {".bias", "_bias", LEAF_VECTOR},
    {".weight_scale_inv", "_scale_inv", LEAF_BLOCK_SCALES},
    {".weight_scale", "_scale", LEAF_ROW_SCALES},
    {"_blocks", "_blocks", LEAF_CODES},
    {"_scales", "_scales", LEAF_CODES},
};

const matrix_leaf *find_leaf(const char *name, size_t len, bool stacked) {
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        const char *wanted = stacked ? leaves[i].of_stack : leaves[i].of_module;
        if (strlen(wanted) == len && (!len || memcmp(wanted, name, len) == 0))
            return &leaves[i];
    }
    return NULL;
}

bool leaf_transposes(const matrix_leaf *leaf) {
    return leaf->kind == LEAF_WEIGHT || leaf->kind == LEAF_BLOCK_SCALES ||
           leaf->kind == LEAF_ROW_SCALES;
}

static int refuse_scales(const tenmap_tensor *scales, const tenmap_tensor *weight, uint64_t rows) {
    return fail(EXIT_FAILED,
                "%s has the shape %s: its scales do not follow %s when this is joined or cut after "
                "%" PRIu64 " rows; add --dequantize to write plain weights",
                shown_name(scales->name, scales->name_len), shown_shape(scales),
                shown_name(weight->name, weight->name_len), rows);
}

int leaf_rows(const layout *l, const matrix_leaf *leaf, const tenmap_tensor *tensor,
              const tenmap_tensor *weight, uint64_t rows, uint64_t *out) {
    uint64_t all = weight->rank ? weight->shape[0] : 0, block = l->facts.scale_block;
    bool by_block = leaf->kind == LEAF_BLOCK_SCALES;
    *out = by_block ? rows / block : rows;
    if (leaf->kind == LEAF_WEIGHT)
        return EXIT_FINE;
    uint64_t expected = by_block ? all / block + (all % block != 0) : all;
    if (!tensor->rank || tensor->shape[0] != expected || (by_block && rows % block))
        return refuse_scales(tensor, weight, rows);
    return EXIT_FINE;
}

int refuse_leaf(const tenmap_tensor *t, const char *what) {
    return fail(EXIT_FAILED,
                "%s cannot be moved with its module (%s): only weights, biases, FP8 scales of "
                "blocks and rows, and gpt-oss's MXFP4 can; --dequantize writes quantized weights "
                "as plain ones, drop leaves tensors out",
                shown_name(t->name, t->name_len), what);
}

int refuse_turns(const tenmap_tensor *t) {
    return fail(EXIT_FAILED,
                "%s has one scale for a block of rows, but rows of gate and up take turns in this "
                "arrangement, so blocks would mix both; add --dequantize to write plain weights",
                shown_name(t->name, t->name_len));
}
