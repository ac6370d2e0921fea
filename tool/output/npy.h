/* Writes tensors to files: as .npy for numpy, or as bare bytes. */
#ifndef TOOL_NPY_H
#define TOOL_NPY_H

#include "slice_syntax.h"

typedef struct export_form {
    tenmap_dtype as; /* TENMAP_AS_STORED: the tensor's own */
    bool raw;        /* .npy of bit patterns: BF16 as uint16, F8 as uint8 */
    bool bytes;      /* no .npy header, file order */
    bool force;      /* replace an existing file */
    /* How many pieces of a remote tensor are read at a time. */
    unsigned threads;
} export_form;

/*
 * Writes in blocks to a path or "-", all or nothing, and never over the tensor's own model. Returns
 * 0, or an exit code after printing an error.
 */
int export_tensor(const tenmap_model *model, const tenmap_tensor *tensor, const slice *s,
                  const export_form *form, const char *path);

#endif
