/* Builds .npy arrays and .npz archives for tests exactly as told, valid or not. */
#ifndef TENMAP_TESTS_NUMPY_FILES_H
#define TENMAP_TESTS_NUMPY_FILES_H

#include "torch_files.h"

/* A .npy array of this version, with this dict and `data` bytes of a fixed pattern. */
static inline bytes make_npy(unsigned version, const char *dict, size_t data) {
    torch_bytes b = {{NULL, 0}, 0};
    TORCH_LITERAL(&b, "\x93NUMPY");
    torch_number(&b, version, 2);
    torch_number(&b, strlen(dict), version == 1 ? 2 : 4);
    torch_put(&b, dict, strlen(dict));
    for (size_t i = 0; i < data; i++) {
        unsigned char byte = pattern_byte(i);
        torch_put(&b, &byte, 1);
    }
    return b.out;
}

/* The dict that numpy writes. */
#define NPY_DICT(descr, order, shape)                                                              \
    "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }       \n"

#endif
