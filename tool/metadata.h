/* A model's __metadata__ as one list, in which a pair that several shards share appears once. */
#ifndef TOOL_METADATA_H
#define TOOL_METADATA_H

#include <stddef.h>

#include "view/print.h"

typedef struct metadata_entry {
    const tenmap_metadata *pair; /* from the first shard that has it */
    size_t place;                /* index among the pairs of all shards */
    size_t shards;               /* how many shards have the same pair */
} metadata_entry;

/*
 * Lists the pairs of a range of shards, in the order of shards and headers. The caller frees *out.
 */
size_t metadata_entries(const tenmap_model *model, size_t first_shard, size_t end_shard,
                        metadata_entry **out);

/* The pairs of all shards, searchable by shard and key. */
typedef struct metadata_finder {
    metadata_entry *entries; /* sorted; `place` is the index in the model */
    size_t count;
} metadata_finder;
void metadata_finder_init(metadata_finder *f, const tenmap_model *model);
/* Returns NULL if the shard has no such key. */
const metadata_entry *metadata_find(const metadata_finder *f, size_t shard, const char *key,
                                    size_t len);
void metadata_finder_free(metadata_finder *f);

/* Whether two values have the same type and bytes. Keys are not compared. */
bool metadata_is_same(const tenmap_metadata *a, const tenmap_metadata *b);
/* The index, from 0, of the first element in which two arrays differ. */
uint64_t metadata_first_change(const tenmap_metadata *a, const tenmap_metadata *b);

/* Which pairs are shown, and how much of them. */
typedef struct metadata_range {
    size_t first_shard, end_shard;
    size_t columns; /* values are cut after this many columns; 0: never */
    size_t rows;    /* 0: all */
    const char *indent;
} metadata_range;

/* Prints rows of key and value. Returns the number of pairs. */
size_t metadata_print(const tenmap_model *model, const metadata_range *range);

/*
 * Adds the value as text, cut after `columns` columns (0: never). For an array it adds the first
 * few elements.
 */
void metadata_add_value(text *out, const tenmap_metadata *pair, size_t columns);

/*
 * Writes an object with key, value and file. For an array the value is the first few elements, with
 * their number.
 */
void metadata_json_pair(const tenmap_model *model, const tenmap_metadata *pair);

/* Describes how a file's header was edited; `how` is the result of tenmap_edit_metadata. */
const char *edit_way(uint32_t how);
const char *edit_method(uint32_t how); /* in one word, for JSON: "in_place", "clone", "copy" */

/* The last component of a path as shown_path returns it. */
const char *base_name(const char *path);

#endif
