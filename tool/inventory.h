/* All models below a folder. */
#ifndef TOOL_INVENTORY_H
#define TOOL_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

typedef struct inventory_model {
    char *path;
    char *broken;        /* why it does not open; NULL: it does */
    tenmap_model *model; /* NULL where it is broken */
    char *what;          /* "LoRA rank 16" */
    char *dtype;         /* that most of its bytes have */
    bool mixed;          /* there are others */
    bool part;           /* its name is that of a shard */
    uint64_t bytes, params;
    size_t tensors;
} inventory_model;

/* Two models that have tensors in common. */
typedef struct inventory_share {
    size_t a, b; /* places in models */
    size_t tensors;
    uint64_t bytes;
} inventory_share;

typedef struct inventory {
    const char *top;
    inventory_model *models;
    size_t count, room;
    size_t folders, unreadable, not_compared;
    inventory_share *shares; /* the most bytes first */
    size_t share_count;
} inventory;

/* shared.c: fills shares. 0, or the exit code of a failure that has been told. */
int find_shared(inventory *all, unsigned threads);

#endif
