/* Declares the inventory: all models below a folder, and what they share. */
#ifndef TOOL_INVENTORY_H
#define TOOL_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "model/identify_model.h"
#include "view/print.h"

typedef struct inventory_model {
    char *path;
    char *broken;        /* why it does not open; NULL: it does */
    tenmap_model *model; /* NULL where it is broken */
    char *kind;          /* "LlamaForCausalLM"; NULL: unknown */
    const char *source;  /* what names the kind, as in `identity`; NULL: unknown */
    adapter adapter;
    char *dtype;           /* that most of its bytes have */
    bool mixed;            /* there are others */
    unsigned part_of;      /* its name is that of a shard: of which format, plus 1; else 0 */
    bool shared_ending;    /* other programs use its ending too */
    bool foreign;          /* it turned out to be no model: it is not listed */
    bool by_itself;        /* kind and adapter do not depend on the folder */
    bool quantized, named; /* `named`: by_names is known, if only as NULL */
    const char *by_names;
    uint64_t bytes, params;
    size_t tensors;
    /* Index of the first model with the same files, by links; its own index if there is none. */
    size_t first;
    size_t group; /* index of the first model with the same tensors */
} inventory_model;

/* Two models that have tensors in common. */
typedef struct inventory_share {
    size_t a, b; /* indices into models */
    size_t tensors;
    uint64_t bytes;
    bool whole; /* all tensors of both */
    bool shown; /* worth a line */
} inventory_share;

/* Models that have the same tensors. */
typedef struct inventory_group {
    size_t first, count; /* the first of them, and how many they are */
    uint64_t freed;      /* bytes of all other files: of links, none */
} inventory_group;

/* The most folders that are visited, and the most files besides models that are listed. */
enum { INVENTORY_MOST = 1000000 };

/* Files that are not models: left by a download, or of a hub's cache. */
typedef enum leftover_kind {
    LEFTOVER_INCOMPLETE, /* NAME.incomplete: a download that did not end */
    LEFTOVER_DANGLING,   /* a link whose target does not exist */
    LEFTOVER_BLOB,       /* a file in blobs/ of a hub's cache, whose name is a digest */
} leftover_kind;

typedef enum blob_verdict {
    BLOB_UNREAD,
    BLOB_RIGHT,      /* its name is its SHA-256 */
    BLOB_WRONG,      /* it is not */
    BLOB_GIT_NAME,   /* its name is a SHA-1 of Git's, as small files have, and no SHA-256 */
    BLOB_OTHER_NAME, /* its name is not a digest */
    BLOB_UNREADABLE, /* an error message has said why */
} blob_verdict;

typedef struct leftover {
    leftover_kind kind;
    blob_verdict verdict;
    char *path;
    uint64_t bytes;
} leftover;

typedef struct inventory {
    const char *top;
    inventory_model *models;
    size_t count, room;
    size_t folders, unreadable, not_compared;
    inventory_share *shares; /* most bytes first */
    size_t share_count;
    bool abridged;           /* there are more pairs than are listed */
    inventory_group *groups; /* most freed bytes first */
    size_t group_count;
    leftover *leftovers; /* sorted by kind */
    size_t leftover_count;
    bool more; /* there are more than INVENTORY_MOST */
} inventory;

/*
 * inventory_find.c: fills models and leftovers. Hidden folders and links to folders are followed,
 * each folder once; not followed are links to a folder that contains `top`.
 */
void find_models(const char *top, uint64_t depth, inventory *all);

/* inventory_hub.c */

/* Where a model lies in a hub's cache. */
typedef struct hub_place {
    size_t name_len;      /* of "ORG/NAME", in the text that was added */
    const char *revision; /* in the path */
    size_t revision_len;
} hub_place;

/* Adds "ORG/NAME@12345678" for a model in a hub's cache; false: the path is not in one. */
bool text_add_hub_name(text *out, const char *path, hub_place *place);
bool is_blobs_folder(const char *path);
bool is_snapshot_folder(const char *path);
/* Folders of a hub's cache that list what does not exist, and what is locked. */
bool is_hub_record(const char *name);
void add_leftover(inventory *all, leftover_kind kind, const char *folder, const char *name);
void sort_leftovers(inventory *all);
/*
 * Compares the blobs with their names. Files that cannot be read have a verdict of their own.
 * Returns 0 or an exit code.
 */
int verify_blobs(inventory *all, unsigned threads);

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

/* inventory_groups.c: fills groups, and marks the shares that are worth a line. */
void group_models(inventory *all);

/* inventory_machine.c */

/* "LoRA rank 16", "LlamaForCausalLM, quantized", "?". */
void inventory_add_what(text *t, const inventory_model *m);
/* Whether it is a file whose SHA-256 is not its name. */
bool is_damaged(const leftover *l);
void print_inventory_json(const inventory *all);
void print_inventory_tsv(const inventory *all);

/* cross_model_duplicates.c: fills shares. Returns 0, or an exit code after printing an error. */
int find_cross_model_duplicates(inventory *all, unsigned threads);

#endif
