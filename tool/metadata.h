/* A model's __metadata__ as one list: what all shards say alike is there once. */
#ifndef TOOL_METADATA_H
#define TOOL_METADATA_H

#include <stddef.h>

#include "view/print.h"

typedef struct metadata_entry {
    const tenmap_metadata *pair; /* as the first shard that has it holds it */
    size_t place;                /* of all shards' pairs */
    size_t shards;               /* how many say the same */
} metadata_entry;

/* Those of some shards, in the order of shards and headers; *out is the caller's to free. */
size_t metadata_entries(const tenmap_model *model, size_t first_shard, size_t end_shard,
                        metadata_entry **out);

/* The pairs of all shards, to be found by shard and key. */
typedef struct metadata_finder {
    metadata_entry *entries; /* sorted; `place` is that in the model */
    size_t count;
} metadata_finder;
void metadata_finder_init(metadata_finder *f, const tenmap_model *model);
/* NULL where the shard has no such key. */
const metadata_entry *metadata_find(const metadata_finder *f, size_t shard, const char *key,
                                    size_t len);
void metadata_finder_free(metadata_finder *f);

/* Whether two values are the same: type and bytes; keys are not looked at. */
bool metadata_is_same(const tenmap_metadata *a, const tenmap_metadata *b);
/* The first element, counted from 0, that two arrays do not have in common. */
uint64_t metadata_first_change(const tenmap_metadata *a, const tenmap_metadata *b);

/* Which pairs are shown, and how much of them. */
typedef struct metadata_range {
    size_t first_shard, end_shard;
    size_t columns; /* values are cut after so many; 0: never */
    size_t rows;    /* 0: all */
    const char *indent;
} metadata_range;

/* Rows of key and value; how many pairs there are. */
size_t metadata_print(const tenmap_model *model, const metadata_range *range);

/* The value as text, cut after `columns` columns (0: never); of an array its first few elements. */
void metadata_add_value(text *out, const tenmap_metadata *pair, size_t columns);

/* An object with key, value, file; of an array the first few elements, and their number. */
void metadata_json_pair(const tenmap_model *model, const tenmap_metadata *pair);

/* What is said of a file whose header was edited; `how` is what tenmap_edit_metadata gave. */
const char *edit_way(uint32_t how);

/* The last part of a path. */
const char *base_name(const char *path);

#endif
