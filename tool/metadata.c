/* Lists, compares and shows a model's metadata over all shards. */
#include "metadata.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/json_out.h"
#include "remote/remote.h"

const char *edit_way(uint32_t how) {
    static const char *const ways[] = {
        [TENMAP_EDIT_IN_PLACE] = "changed in place",
        [TENMAP_EDIT_CLONED] = "changed; the new file shares the data's blocks with the old one",
        [TENMAP_EDIT_COPIED] = "changed by copying the data",
    };
    return how < sizeof ways / sizeof ways[0] && ways[how] ? ways[how] : "changed";
}

const char *edit_method(uint32_t how) {
    static const char *const methods[] = {[TENMAP_EDIT_IN_PLACE] = "in_place",
                                          [TENMAP_EDIT_CLONED] = "clone",
                                          [TENMAP_EDIT_COPIED] = "copy"};
    return how < sizeof methods / sizeof methods[0] && methods[how] ? methods[how] : "unknown";
}

const char *base_name(const char *path) {
    const char *shown = shown_path(path), *slash = strrchr(shown, '/');
    return slash ? slash + 1 : shown;
}

static int compare_bytes(const char *a, size_t n, const char *b, size_t m) {
    int order = memcmp(a, b, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static int compare_values(const tenmap_metadata *x, const tenmap_metadata *y) {
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    if (x->element_type != y->element_type)
        return x->element_type < y->element_type ? -1 : 1;
    return compare_bytes(x->raw, (size_t)x->raw_bytes, y->raw, (size_t)y->raw_bytes);
}

static int same_pair(const tenmap_metadata *x, const tenmap_metadata *y) {
    int order = compare_bytes(x->key, x->key_len, y->key, y->key_len);
    return order ? order : compare_values(x, y);
}

bool metadata_is_same(const tenmap_metadata *a, const tenmap_metadata *b) {
    return compare_values(a, b) == 0;
}

uint64_t metadata_first_change(const tenmap_metadata *a, const tenmap_metadata *b) {
    tenmap_value x, y, p, q;
    uint64_t i = 0;
    tenmap_metadata_value(a, &x);
    tenmap_metadata_value(b, &y);
    while (tenmap_value_next(&x, &p) && tenmap_value_next(&y, &q) && p.type == q.type &&
           p.raw_bytes == q.raw_bytes && memcmp(p.raw, q.raw, (size_t)p.raw_bytes) == 0)
        i++;
    return i;
}

/* Sorts equal pairs together, that of the first shard first. */
static int compare_pairs(const void *a, const void *b) {
    const tenmap_metadata *x = ((const metadata_entry *)a)->pair;
    const tenmap_metadata *y = ((const metadata_entry *)b)->pair;
    int order = same_pair(x, y);
    return order ? order : (x->shard > y->shard) - (x->shard < y->shard);
}

static int compare_places(const void *a, const void *b) {
    const metadata_entry *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

size_t metadata_entries(const tenmap_model *model, size_t first_shard, size_t end_shard,
                        metadata_entry **out) {
    size_t all = 0, count = 0;
    metadata_entry *entries = need(tenmap_metadata_count(model), sizeof *entries);
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(model, i);
        if (pair->shard >= first_shard && pair->shard < end_shard)
            entries[all++] = (metadata_entry){pair, i, 1};
    }
    *out = entries;
    if (end_shard - first_shard == 1)
        return all;
    qsort(entries, all, sizeof *entries, compare_pairs);
    for (size_t i = 0; i < all; i++) {
        if (count && same_pair(entries[count - 1].pair, entries[i].pair) == 0)
            entries[count - 1].shards++;
        else
            entries[count++] = entries[i];
    }
    qsort(entries, count, sizeof *entries, compare_places);
    return count;
}

static int compare_keys(const void *a, const void *b) {
    const tenmap_metadata *x = ((const metadata_entry *)a)->pair;
    const tenmap_metadata *y = ((const metadata_entry *)b)->pair;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return compare_bytes(x->key, x->key_len, y->key, y->key_len);
}

void metadata_finder_init(metadata_finder *f, const tenmap_model *model) {
    f->count = tenmap_metadata_count(model);
    f->entries = need(f->count, sizeof *f->entries);
    for (size_t i = 0; i < f->count; i++)
        f->entries[i] = (metadata_entry){tenmap_metadata_at(model, i), i, 1};
    qsort(f->entries, f->count, sizeof *f->entries, compare_keys);
}

const metadata_entry *metadata_find(const metadata_finder *f, size_t shard, const char *key,
                                    size_t len) {
    const tenmap_metadata pair = {.key = key, .key_len = len, .shard = (uint32_t)shard};
    const metadata_entry wanted = {&pair, 0, 1};
    return bsearch(&wanted, f->entries, f->count, sizeof *f->entries, compare_keys);
}

void metadata_finder_free(metadata_finder *f) {
    free(f->entries);
    *f = (metadata_finder){0};
}

/* Adds the first `cut` of `len` bytes without splitting a character, and dots if there is more. */
static void add_word(text *out, const char *word, size_t cut, size_t len) {
    while (cut < len && cut > 0 && ((unsigned char)word[cut - 1] & 0x80) != 0)
        cut--;
    text_add_safe(out, word, cut);
    if (cut < len)
        text_add(out, "...", 3);
}

/* Adds the first few elements and their number: [<unk>, <s>, a, ... 32000 in all]. */
static void add_array(text *out, const tenmap_metadata *pair) {
    enum { SHOWN = 6, LONGEST = 40 };
    tenmap_value array, element;
    size_t shown = 0;
    tenmap_metadata_value(pair, &array);
    text_add(out, "[", 1);
    while (shown < SHOWN && tenmap_value_next(&array, &element)) {
        char word[LONGEST];
        size_t len = tenmap_value_text(&element, word, sizeof word);
        text_addf(out, shown++ ? ", " : "");
        if (element.type == TENMAP_VALUE_ARRAY)
            text_addf(out, "[%llu value%s]", (unsigned long long)element.count,
                      element.count == 1 ? "" : "s");
        else
            add_word(out, word, len < sizeof word ? len : sizeof word - 1, len);
    }
    if (array.count)
        text_addf(out, ", ... %llu in all", (unsigned long long)pair->count);
    text_add(out, "]", 1);
}

void metadata_add_value(text *out, const tenmap_metadata *pair, size_t columns) {
    if (pair->type == TENMAP_VALUE_ARRAY)
        add_array(out, pair);
    else
        text_add_short(out, pair->value, pair->value_len, columns);
}

static void put_entry(table *t, const tenmap_model *model, const metadata_entry *e,
                      const metadata_range *range) {
    size_t shards = tenmap_shard_count(model);
    bool one = range->end_shard - range->first_shard == 1;
    text_add(table_cell(t), range->indent, strlen(range->indent));
    text_add_short(table_cell(t), e->pair->key, e->pair->key_len, range->columns ? 40 : 0);
    table_end_cell(t, STYLE_CYAN);
    metadata_add_value(table_cell(t), e->pair, range->columns);
    if (!one && e->shards == 1)
        text_addf(table_cell(t), "  (only shard %u)", e->pair->shard + 1);
    else if (!one && e->shards < shards)
        text_addf(table_cell(t), "  (%zu of %zu shards)", e->shards, shards);
    table_end_cell(t, STYLE_NONE);
}

size_t metadata_print(const tenmap_model *model, const metadata_range *range) {
    static const column titles[] = {{"", false, false}, {"", false, false}};
    metadata_entry *entries;
    size_t count = metadata_entries(model, range->first_shard, range->end_shard, &entries);
    size_t shown = range->rows && range->rows < count ? range->rows : count;
    table *t = table_new(titles, 2);
    for (size_t i = 0; i < shown; i++)
        put_entry(t, model, &entries[i], range);
    table_print(t);
    table_free(t);
    if (shown < count)
        printf("%s… and %zu more\n", range->indent, count - shown);
    free(entries);
    return count;
}

void metadata_json_pair(const tenmap_model *model, const tenmap_metadata *pair) {
    json_open('{', true);
    json_key_text("key", pair->key, pair->key_len);
    if (pair->type == TENMAP_VALUE_ARRAY) {
        text shown = {0};
        add_array(&shown, pair);
        json_key_text("value", shown.bytes, shown.len);
        json_key_uint("elements", pair->count);
        text_free(&shown);
    } else {
        json_key_text("value", pair->value, pair->value_len);
    }
    json_key_text("file", base_name(tenmap_shard_at(model, pair->shard)->path), TENMAP_CSTR);
    json_close();
}
