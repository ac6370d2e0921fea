/* PyTorch checkpoints of any size for linear.c: pickles of one construction each, in both forms. */
#ifndef TENMAP_TESTS_LINEAR_PICKLES_H
#define TENMAP_TESTS_LINEAR_PICKLES_H

#include <stdint.h>
#include <stdio.h>

/* Each writes a pickle of n repetitions and returns how many storages of one F32 it refers to. */
typedef uint64_t write_pickle(FILE *f, size_t n);

write_pickle pickle_memos, pickle_gets, pickle_tuples, pickle_nested, pickle_string, pickle_tensors,
    pickle_values, pickle_keys, pickle_alternating, pickle_storages, pickle_references,
    pickle_views, pickle_copies;

/* Writes a checkpoint around a pickle: a zip archive, or the form from before torch 1.6. */
void write_torch_zip(FILE *f, write_pickle *pickle, size_t n);
void write_torch_legacy(FILE *f, write_pickle *pickle, size_t n);

#endif
