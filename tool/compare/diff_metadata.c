/* Compares the metadata of two models by key. */
#include <stdlib.h>
#include <string.h>

#include "compare/diff.h"
#include "metadata.h"

/* A model's metadata by key, with the value of the first shard that has it. */
typedef struct key_list {
    const tenmap_metadata **items;
    size_t count;
} key_list;

static int compare_keys(const tenmap_metadata *a, const tenmap_metadata *b) {
    size_t shorter = a->key_len < b->key_len ? a->key_len : b->key_len;
    int order = memcmp(a->key, b->key, shorter);
    return order ? order : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

static int by_key(const void *left, const void *right) {
    const tenmap_metadata *a = *(const tenmap_metadata *const *)left;
    const tenmap_metadata *b = *(const tenmap_metadata *const *)right;
    int order = compare_keys(a, b);
    return order ? order : (a > b) - (a < b); /* in the order of the shards */
}

static key_list list_keys(const tenmap_model *model) {
    size_t all = tenmap_metadata_count(model);
    key_list list = {need(all, sizeof *list.items), 0};
    for (size_t i = 0; i < all; i++)
        list.items[i] = tenmap_metadata_at(model, i);
    qsort(list.items, all, sizeof *list.items, by_key);
    for (size_t i = 0; i < all; i++)
        if (list.count == 0 || compare_keys(list.items[list.count - 1], list.items[i]) != 0)
            list.items[list.count++] = list.items[i];
    return list;
}

size_t walk_metadata(const models *m, each_key *each) {
    key_list a = list_keys(m->a), b = list_keys(m->b);
    size_t i = 0, k = 0, count = 0;
    while (i < a.count || k < b.count) {
        int order = i == a.count ? 1 : k == b.count ? -1 : compare_keys(a.items[i], b.items[k]);
        const tenmap_metadata *mine = order <= 0 ? a.items[i++] : NULL;
        const tenmap_metadata *other = order >= 0 ? b.items[k++] : NULL;
        if (order == 0 && metadata_is_same(mine, other))
            continue;
        count++;
        if (each)
            each(order <= 0 ? mine : other, mine, other);
    }
    free(a.items);
    free(b.items);
    return count;
}

bool are_arrays(const tenmap_metadata *a, const tenmap_metadata *b) {
    return a && b && a->type == TENMAP_VALUE_ARRAY && b->type == TENMAP_VALUE_ARRAY;
}
