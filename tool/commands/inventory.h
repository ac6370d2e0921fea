/* Declares the inventory: all models below a folder, and what they share. */
#ifndef TOOL_INVENTORY_H
#define TOOL_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "model/identify_model.h"

typedef struct inventory_model {
    char *path;
    char *broken;        /* why it does not open; NULL: it does */
    tenmap_model *model; /* NULL where it is broken */
    char *kind;          /* "LlamaForCausalLM"; NULL: unknown */
    const char *source;  /* what names the kind, as in `identity`; NULL: unknown */
    adapter adapter;
    char *dtype;           /* that most of its bytes have */
    bool mixed;            /* there are others */
    bool part;             /* its name is that of a shard */
    bool by_itself;        /* kind and adapter do not depend on the folder */
    bool quantized, named; /* `named`: by_names is known, if only as NULL */
    const char *by_names;
    uint64_t bytes, params;
    size_t tensors;
    /* Index of the first model with the same files, by links; its own index if there is none. */
    size_t first;
} inventory_model;

/* Two models that have tensors in common. */
typedef struct inventory_share {
    size_t a, b; /* indices into models */
    size_t tensors;
    uint64_t bytes;
} inventory_share;

typedef struct inventory {
    const char *top;
    inventory_model *models;
    size_t count, room;
    size_t folders, unreadable, not_compared;
    inventory_share *shares; /* most bytes first */
    size_t share_count;
    bool abridged; /* there are more pairs than are listed */
} inventory;

/* same_files.c: finds models with the same files, so that files are read only once. */
typedef struct seen_files seen_files;
seen_files *seen_new(void);
/*
 * Returns the index of an earlier model, still open, with the same files as `m`. If `m` is not
 * open, the file at its path counts. SIZE_MAX if there is none.
 */
size_t seen_before(const seen_files *seen, const inventory_model *m);
void seen_add(seen_files *seen, const inventory_model *m, size_t place);
void seen_free(seen_files *seen);

/* cross_model_duplicates.c: fills shares. Returns 0, or an exit code after printing an error. */
int find_cross_model_duplicates(inventory *all, unsigned threads);

#endif
