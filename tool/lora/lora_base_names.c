/*
 * Finds the tensors of a base model that the modules of an adapter are for. kohya's scripts write
 * underscores for the dots of a module's name, so those are found in a table of the base's names
 * written that way.
 */
#include "lora/lora_base_names.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/print.h"

/* A module of the base by its name with underscores. */
typedef struct underscored {
    char *name; /* owned */
    size_t len;
    lora_place place; /* that a prefix, which was removed from the name, belongs to */
    const tenmap_tensor *weight;
} underscored;

struct lora_base_names {
    const tenmap_model *base;
    underscored *items; /* sorted by name; made for the first name with underscores */
    size_t count;
};

static const char weight_end[] = ".weight", bias_end[] = ".bias";
enum { WEIGHT_END = sizeof weight_end - 1 };

lora_base_names *lora_base_names_new(const tenmap_model *base) {
    lora_base_names *names = need(1, sizeof *names);
    names->base = base;
    return names;
}

void lora_base_names_free(lora_base_names *names) {
    for (size_t i = 0; names && i < names->count; i++)
        free(names->items[i].name);
    if (names)
        free(names->items);
    free(names);
}

/* Names with underscores. */

static void add_underscored(lora_base_names *names, const tenmap_tensor *t, size_t skip,
                            lora_place place) {
    size_t len = t->name_len - WEIGHT_END - skip;
    char *name = need_copy(t->name + skip, len);
    for (size_t i = 0; i < len; i++)
        if (name[i] == '.')
            name[i] = '_';
    names->items = need_next(names->items, names->count, sizeof *names->items);
    names->items[names->count++] = (underscored){name, len, place, t};
}

static int compare_name(const underscored *u, const char *name, size_t len) {
    int order = memcmp(u->name, name, u->len < len ? u->len : len);
    return order ? order : (u->len > len) - (u->len < len);
}

static int compare_underscored(const void *a, const void *b) {
    const underscored *y = b;
    return compare_name(a, y->name, y->len);
}

static void make_underscored(lora_base_names *names) {
    for (size_t i = 0; i < tenmap_count(names->base); i++) {
        const tenmap_tensor *t = tenmap_at(names->base, i);
        const lora_prefix *prefix;
        if (t->name_len <= WEIGHT_END ||
            memcmp(t->name + t->name_len - WEIGHT_END, weight_end, WEIGHT_END) != 0)
            continue;
        add_underscored(names, t, 0, LORA_ANY_PLACE);
        for (size_t k = 0; (prefix = lora_base_prefix(k)); k++) {
            size_t n = strlen(prefix->text);
            if (t->name_len > n + WEIGHT_END && memcmp(t->name, prefix->text, n) == 0)
                add_underscored(names, t, n, prefix->place);
        }
    }
    if (names->items)
        qsort(names->items, names->count, sizeof *names->items, compare_underscored);
}

static const tenmap_tensor *find_underscored(const lora_base_names *names,
                                             const lora_prefix *prefix, const char *module,
                                             size_t len, const tenmap_tensor **other) {
    const tenmap_tensor *found = NULL;
    size_t first = 0, end = names->items ? names->count : 0;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (compare_name(&names->items[middle], module, len) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    for (; names->items && first < names->count; first++) {
        const underscored *u = &names->items[first];
        if (compare_name(u, module, len) != 0)
            break;
        if (u->weight == found || (u->place != LORA_ANY_PLACE && u->place != prefix->place))
            continue;
        if (found)
            *other = u->weight;
        else
            found = u->weight;
    }
    return found;
}

/* Names with dots. */

static const tenmap_tensor *find_named(const lora_base_names *names, const char *before,
                                       const char *name, size_t len, const char *after) {
    text t = {0};
    text_addf(&t, "%s", before);
    text_add(&t, name, len);
    text_addf(&t, "%s", after);
    const tenmap_tensor *found = tenmap_find_n(names->base, t.bytes, t.len);
    text_free(&t);
    return found;
}

static const tenmap_tensor *find_with(const lora_base_names *names, const char *before,
                                      const char *module, size_t len) {
    const tenmap_tensor *found = find_named(names, before, module, len, weight_end);
    if (found)
        return found;
    found = find_named(names, before, module, len, "");
    return found && found->rank >= 2 ? found : NULL;
}

const char *lora_strip_prefixes(const char *name, size_t *len) {
    const lora_prefix *prefix = lora_prefix_of(name, *len);
    if (!prefix->peft && prefix->place == LORA_ANY_PLACE)
        return name;
    *len -= strlen(prefix->text);
    return name + strlen(prefix->text);
}

/*
 * Old diffusers files name the attention's processor, and to_out, which is a list:
 * "attn1.processor.to_out".
 */
static void add_modern(text *out, const char *module, size_t len) {
    static const char processor[] = ".processor.", to_out[] = ".to_out";
    const size_t n = sizeof processor - 1, m = sizeof to_out - 1;
    for (size_t i = 0; i < len; i++)
        if (len - i > n && memcmp(module + i, processor, n) == 0) {
            text_add(out, ".", 1);
            i += n - 1;
        } else {
            text_add(out, module + i, 1);
        }
    if (out->len > m && memcmp(out->bytes + out->len - m, to_out, m) == 0)
        text_addf(out, ".0");
}

static const tenmap_tensor *find_prefixed(const lora_base_names *names, const lora_prefix *prefix,
                                          const char *module, size_t len,
                                          const tenmap_tensor **other) {
    const tenmap_tensor *found = NULL, *next;
    const lora_prefix *base;
    for (size_t i = 0; (base = lora_base_prefix(i)); i++) {
        bool fits = base->place == LORA_ANY_PLACE || base->place == prefix->place;
        if (!fits || !(next = find_with(names, base->text, module, len)))
            continue;
        if (found)
            *other = next;
        else
            found = next;
    }
    return found;
}

static const tenmap_tensor *find_dotted(const lora_base_names *names, const char *module,
                                        size_t len, const tenmap_tensor **other) {
    const tenmap_tensor *found = find_with(names, "", module, len);
    const lora_prefix *prefix = lora_prefix_of(module, len), *last = prefix;
    text modern = {0};
    while (!found && (prefix->peft || prefix->place != LORA_ANY_PLACE)) {
        last = prefix;
        module = lora_strip_prefixes(module, &len);
        found = find_with(names, "", module, len);
        prefix = lora_prefix_of(module, len);
    }
    add_modern(&modern, module, len);
    if (!found && modern.len)
        found = find_with(names, "", modern.bytes, modern.len);
    if (!found && modern.len)
        found = find_prefixed(names, last, modern.bytes, modern.len, other);
    text_free(&modern);
    return found;
}

const tenmap_tensor *lora_find_weight(lora_base_names *names, const char *module, size_t len,
                                      const tenmap_tensor **other) {
    const lora_prefix *prefix = lora_prefix_of(module, len);
    *other = NULL;
    if (!prefix->underscores)
        return find_dotted(names, module, len, other);
    if (!names->items)
        make_underscored(names);
    module += strlen(prefix->text);
    len -= strlen(prefix->text);
    const tenmap_tensor *found = find_underscored(names, prefix, module, len, other);
    /* Some write the module's dots after kohya's prefix. */
    return found ? found : find_dotted(names, module, len, other);
}

const tenmap_tensor *lora_find_tensor(const lora_base_names *names, const char *name, size_t len) {
    const tenmap_tensor *found = tenmap_find_n(names->base, name, len);
    for (size_t before = 0; !found && before != len;) {
        before = len;
        name = lora_strip_prefixes(name, &len);
        found = tenmap_find_n(names->base, name, len);
    }
    return found;
}

const tenmap_tensor *lora_find_bias(const tenmap_tensor *weight) {
    text t = {0};
    if (weight->name_len <= WEIGHT_END ||
        memcmp(weight->name + weight->name_len - WEIGHT_END, weight_end, WEIGHT_END) != 0)
        return NULL;
    text_add(&t, weight->name, weight->name_len - WEIGHT_END);
    text_addf(&t, "%s", bias_end);
    const tenmap_tensor *found = tenmap_find_n(weight->model, t.bytes, t.len);
    text_free(&t);
    return found;
}
