/* Tensors into files: .npy as numpy reads it, or the bytes alone. */
#ifndef TOOL_NPY_H
#define TOOL_NPY_H

#include "slice_syntax.h"

typedef struct export_form {
    tenmap_dtype as; /* TENMAP_AS_STORED: the tensor's own */
    bool raw;        /* .npy of bit patterns: BF16 as uint16, F8 as uint8 */
    bool bytes;      /* no .npy header, file order */
    bool force;      /* a file that is there is replaced */
    /* Of a model that is not here, so many parts of the tensor are read at a time. */
    unsigned threads;
} export_form;

/*
 * Writes in blocks, to a path or "-", all or nothing, and never over the tensor's model. 0, or the exit
 * code of a failure it told.
 */
int export_tensor(const tenmap_model *model, const tenmap_tensor *tensor, const slice *s,
                  const export_form *form, const char *path);

#endif
