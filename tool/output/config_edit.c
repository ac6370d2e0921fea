/*
 * Edits the text of config.json in place: removes and sets keys, and leaves all other bytes alone.
 */
#include "output/config_edit.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"

/* A pair of an object: "key": value. */
typedef struct member {
    size_t begin, key_end; /* of the key, with its quotes */
    size_t value, end;     /* of the value */
} member;

static size_t after_space(const text *j, size_t at) {
    while (at < j->len && strchr(" \t\r\n", j->bytes[at]) && j->bytes[at])
        at++;
    return at;
}

/*
 * The offset just after the string that begins at `at`, or the length of the text if the string
 * does not end.
 */
static size_t after_string(const text *j, size_t at) {
    for (at++; at < j->len && j->bytes[at] != '"'; at++)
        at += j->bytes[at] == '\\';
    return at < j->len ? at + 1 : j->len;
}

static size_t after_value(const text *j, size_t at) {
    size_t depth = 0, begin = at;
    for (; at < j->len; at++) {
        char c = j->bytes[at];
        if (c == '"')
            at = after_string(j, at) - 1;
        else if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth)
            depth--;
        else if (depth == 0 && strchr(",}] \t\r\n", c))
            break;
        if (depth == 0 && (c == '"' || c == '}' || c == ']'))
            return at + 1;
    }
    return at > begin ? at : begin;
}

/*
 * Reads the pair at *at, inside an object, and moves *at to the next one. Returns false at the end
 * of the object.
 */
static bool next_member(const text *j, size_t *at, member *m) {
    m->begin = after_space(j, *at);
    if (m->begin >= j->len || j->bytes[m->begin] != '"')
        return false;
    m->key_end = after_string(j, m->begin);
    size_t colon = after_space(j, m->key_end);
    if (colon >= j->len || j->bytes[colon] != ':')
        return false;
    m->value = after_space(j, colon + 1);
    m->end = after_value(j, m->value);
    if (m->end == m->value || m->end > j->len)
        return false;
    *at = after_space(j, m->end);
    if (*at < j->len && j->bytes[*at] == ',')
        ++*at;
    return true;
}

static bool is_called(const text *j, const member *m, const char *key) {
    size_t len = strlen(key);
    return m->key_end - m->begin == len + 2 && memcmp(j->bytes + m->begin + 1, key, len) == 0;
}

/* Offset of the first byte inside the top object; 0 if the text is not an object. */
static size_t inside(const text *j) {
    size_t at = after_space(j, 0);
    return at < j->len && j->bytes[at] == '{' ? at + 1 : 0;
}

bool config_is_object(const text *j) {
    size_t at = inside(j);
    member m;
    if (!at)
        return false;
    while (next_member(j, &at, &m))
        continue;
    at = after_space(j, at);
    return at < j->len && j->bytes[at] == '}' && after_space(j, at + 1) == j->len;
}

/* Changes from front to back, applied in one pass. A file may contain a key any number of times. */
typedef struct splice {
    size_t begin, end; /* the range to replace */
    const char *with;
} splice;

typedef struct splices {
    splice *items;
    size_t count;
} splices;

static void add_splice(splices *list, size_t begin, size_t end, const char *with) {
    list->items = need_next(list->items, list->count, sizeof *list->items);
    list->items[list->count++] = (splice){begin, end, with};
}

/* Applies the changes and frees the list. Returns whether there were any. */
static bool apply_splices(text *j, splices *list) {
    text made = {0};
    size_t at = 0;
    bool any = list->count > 0;
    for (size_t i = 0; i < list->count; i++) {
        const splice *s = &list->items[i];
        text_add(&made, j->bytes + at, s->begin - at);
        text_add(&made, s->with, strlen(s->with));
        at = s->end;
    }
    if (any) {
        text_add(&made, j->bytes + at, j->len - at);
        text_free(j);
        *j = made;
    }
    free(list->items);
    *list = (splices){0};
    return any;
}

/* Offset of the comma after a pair; 0 if there is none. */
static size_t comma_behind(const text *j, const member *m) {
    size_t at = after_space(j, m->end);
    return at < j->len && j->bytes[at] == ',' ? at : 0;
}

/*
 * Removes a pair with the comma that separates it from the next. For the last pair, it removes from
 * the comma after the last remaining pair, which covers everything cut since.
 */
static void cut_member(const text *j, const member *m, size_t comma_before, splices *list) {
    size_t comma = comma_behind(j, m), begin = m->begin;
    if (!comma && comma_before) {
        begin = comma_before;
        while (list->count && list->items[list->count - 1].begin > begin)
            list->count--;
    }
    add_splice(list, begin, comma ? after_space(j, comma + 1) : m->end, "");
}

/*
 * Starts at `at`, inside an object. With `below`, also searches the objects directly inside that
 * object.
 */
static void cut_inside(const text *j, size_t at, const char *key, bool below, splices *list) {
    size_t comma_before = 0;
    for (member m; next_member(j, &at, &m);) {
        if (is_called(j, &m, key)) {
            cut_member(j, &m, comma_before, list);
            continue;
        }
        if (below && j->bytes[m.value] == '{')
            cut_inside(j, m.value + 1, key, false, list);
        comma_before = comma_behind(j, &m);
    }
}

bool config_remove(text *j, const char *key) {
    splices list = {0};
    if (inside(j))
        cut_inside(j, inside(j), key, true, &list);
    return apply_splices(j, &list);
}

/*
 * Sets the first pair with this key if its value differs. Returns whether there is one in the
 * object at `at`.
 */
static bool set_inside(const text *j, size_t at, const char *key, const char *value, bool below,
                       splices *list) {
    bool found = false;
    for (member m; next_member(j, &at, &m);) {
        size_t len = m.end - m.value;
        bool same = len == strlen(value) && memcmp(j->bytes + m.value, value, len) == 0;
        if (!found && is_called(j, &m, key)) {
            found = true;
            if (!same)
                add_splice(list, m.value, m.end, value);
        } else if (below && j->bytes[m.value] == '{') {
            (void)set_inside(j, m.value + 1, key, value, false, list);
        } else if (found && !below) {
            break;
        }
    }
    return found;
}

/* Adds a pair after the last one, with the same spacing as the first. */
static void add_member(text *j, const char *key, const char *value) {
    size_t first = inside(j), at = first, end = first;
    member m;
    text added = {0};
    splices list = {0};
    while (next_member(j, &at, &m))
        end = m.end;
    size_t space = after_space(j, first) - first;
    if (end > first)
        text_add(&added, ",", 1);
    if (end > first && space)
        text_add(&added, j->bytes + first, space);
    else
        text_addf(&added, end > first ? " " : "\n  ");
    text_addf(&added, "\"%s\": %s%s", key, value, end > first ? "" : "\n");
    add_splice(&list, end, end > first ? end : after_space(j, end), added.bytes);
    apply_splices(j, &list);
    text_free(&added);
}

bool config_set(text *j, const char *key, const char *value, bool add) {
    splices list = {0};
    bool object = inside(j) > 0;
    bool top = object && set_inside(j, inside(j), key, value, true, &list);
    bool changed = apply_splices(j, &list);
    if (!object || top || changed || !add)
        return changed;
    add_member(j, key, value);
    return true;
}

/* Changes that a converted model needs. */

static const char *torch_name(tenmap_dtype dtype) {
    switch (dtype) {
    case TENMAP_BF16:
        return "bfloat16";
    case TENMAP_F16:
        return "float16";
    case TENMAP_F32:
        return "float32";
    case TENMAP_F64:
        return "float64";
    default:
        return NULL;
    }
}

static void add_edit(config_edits *done, const char *key, const char *action, const char *value) {
    if (done->count < MAX_CONFIG_EDITS)
        done->items[done->count++] = (struct config_edit){key, action, value, 0};
}

static bool set_text(text *json, const char *key, const char *value) {
    text quoted = {0};
    text_addf(&quoted, "\"%s\"", value);
    bool changed = config_set(json, key, quoted.bytes, false);
    text_free(&quoted);
    return changed;
}

/* Layers that are dropped. */

static const char *const layer_counts[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                                           NULL};
/* Lists with an element for each layer. */
static const char *const layer_lists[] = {"layer_types",    "mlp_layer_types",  "layers_block_type",
                                          "no_rope_layers", "attention_layers", NULL};
/* Keys whose numbers refer to layers in other ways. */
static const char *const layer_references[] = {
    "mlp_only_layers",      "first_k_dense_replace",   "max_window_layers",
    "num_kv_shared_layers", "full_attention_interval", "sliding_window_pattern",
    "attn_layer_indices",   "decoder_sparse_step",     "interleave_moe_layer_step",
    "attn_layer_period",    "expert_layer_period",     NULL};

static const char *name_among(const text *j, const member *m, const char *const *names) {
    while (*names && !is_called(j, m, *names))
        names++;
    return *names;
}

static bool is_number(const text *j, const member *m, size_t number) {
    text shown = {0};
    text_addf(&shown, "%zu", number);
    bool same =
        shown.len == m->end - m->value && memcmp(j->bytes + m->value, shown.bytes, shown.len) == 0;
    text_free(&shown);
    return same;
}

/*
 * Counts the objects, at the top and one level below, that have this number of layers. *object is
 * the offset inside the last of them.
 */
static size_t find_layer_count(const text *j, size_t at, size_t number, bool below,
                               size_t *object) {
    size_t found = 0, begin = at;
    for (member m; next_member(j, &at, &m);) {
        if (name_among(j, &m, layer_counts) && is_number(j, &m, number)) {
            found++;
            *object = begin;
        } else if (below && j->bytes[m.value] == '{') {
            found += find_layer_count(j, m.value + 1, number, false, object);
        }
    }
    return found;
}

typedef struct element {
    size_t begin, end;
} element;

/* The elements of a list; NULL if it has another number of them than there are layers. */
static element *list_elements(const text *j, const member *m, const config_layers *l) {
    element *list = need(l->count + 1, sizeof *list);
    size_t n = 0, at = m->value + 1;
    for (; at < m->end && n <= l->count; n++) {
        size_t begin = after_space(j, at), end = after_value(j, begin);
        if (begin >= m->end || j->bytes[begin] == ']' || end == begin)
            break;
        list[n] = (element){begin, end};
        at = after_space(j, end);
        at += at < m->end && j->bytes[at] == ',';
    }
    if (n == l->count)
        return list;
    free(list);
    return NULL;
}

/* The layer before of a layer of the output, which is searched from *at; l->count: none. */
static size_t next_layer(const config_layers *l, size_t i, size_t *at) {
    if (l->from)
        return l->from[i];
    while (*at < l->count && !l->kept[*at])
        ++*at;
    return (*at)++;
}

/* The list with an element for each layer of the output; empty if that is not known. */
static void rearrange_list(const text *j, const member *m, const config_layers *l, text *out) {
    element *list = list_elements(j, m, l);
    bool known = list != NULL;
    size_t at = 0;
    text_add(out, "[", 1);
    for (size_t i = 0; known && i < l->left; i++) {
        size_t from = next_layer(l, i, &at);
        known = from < l->count;
        text_addf(out, i ? ", " : "");
        if (known)
            text_add(out, j->bytes + list[from].begin, list[from].end - list[from].begin);
    }
    text_add(out, "]", 1);
    if (!known)
        text_clear(out);
    free(list);
}

static bool is_nothing(const text *j, const member *m) {
    size_t len = m->end - m->value;
    const char *value = j->bytes + m->value;
    return (len == 2 && memcmp(value, "[]", 2) == 0) || (len == 1 && *value == '0') ||
           (len == 4 && memcmp(value, "null", 4) == 0);
}

/* Changes one member as the dropped layers require. */
static void follow_layers(const text *j, const member *m, const config_layers *l, text *now,
                          config_edits *done) {
    const char *count = name_among(j, m, layer_counts), *list = name_among(j, m, layer_lists);
    const char *refers = name_among(j, m, layer_references);
    text_clear(now);
    if (count && is_number(j, m, l->count))
        text_addf(now, "%zu", l->left);
    else if (list && j->bytes[m->value] == '[')
        rearrange_list(j, m, l, now);
    if (now->len)
        add_edit(done, count ? count : list,
                 count     ? "set"
                 : l->from ? "rearranged"
                           : "shortened",
                 NULL);
    else if ((refers || (list && l->from)) && !is_nothing(j, m))
        add_edit(done, refers ? refers : list, "check", NULL);
    if (now->len && done->count)
        done->items[done->count - 1].number = l->left;
}

/* If several objects have this number of layers, it is not known which of them is meant. */
static void apply_layers(text *json, const config_layers *l, config_edits *done) {
    size_t object = 0;
    text made = {0}, now = {0};
    size_t found = inside(json) ? find_layer_count(json, inside(json), l->count, true, &object) : 0;
    if (found > 1)
        add_edit(done, layer_counts[0], "check", NULL);
    if (found != 1)
        return;
    size_t at = object, copied = 0;
    for (member m; next_member(json, &at, &m);) {
        follow_layers(json, &m, l, &now, done);
        if (!now.len)
            continue;
        text_add(&made, json->bytes + copied, m.value - copied);
        text_add(&made, now.bytes, now.len);
        copied = m.end;
    }
    text_add(&made, json->bytes + copied, json->len - copied);
    text_free(&now);
    text_free(json);
    *json = made;
}

void config_apply(text *json, const config_change *change, config_edits *done) {
    static const char *const quantization_keys[] = {"quantization_config", "quantization",
                                                    "compression_config"};
    static const char *const dtypes[] = {"torch_dtype", "dtype"};
    const char *name = torch_name(change->dtype);
    bool had[sizeof quantization_keys / sizeof quantization_keys[0]] = {false};
    for (size_t i = 0; i < sizeof quantization_keys / sizeof quantization_keys[0]; i++) {
        had[i] = (change->dequantized || change->quantization) &&
                 config_remove(json, quantization_keys[i]);
        if (had[i] && (i > 0 || !change->quantization))
            add_edit(done, quantization_keys[i], "removed", NULL);
    }
    for (size_t i = 0; name && i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (set_text(json, dtypes[i], name))
            add_edit(done, dtypes[i], "set", name);
    for (size_t i = 0; i < change->layers_count; i++)
        apply_layers(json, &change->layers[i], done);
    if (change->quantization && config_set(json, quantization_keys[0], change->quantization, true))
        add_edit(done, quantization_keys[0], had[0] ? "replaced" : "added", NULL);
}

void text_add_config_edits(text *t, const config_edits *done) {
    for (size_t i = 0; i < done->count; i++) {
        const struct config_edit *e = &done->items[i];
        bool check = strcmp(e->action, "check") == 0;
        text_addf(t, "%s%s %s", i ? ", " : "", e->key, check ? "to be checked" : e->action);
        if (e->value)
            text_addf(t, " to \"%s\"", e->value);
        else if (e->number)
            text_addf(t, " to %zu", e->number);
    }
}

bool is_quantization_config(const char *name) {
    static const char *const names[] = {"hf_quant_config.json", "quantize_config.json",
                                        "quant_config.json", "quantization_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}
