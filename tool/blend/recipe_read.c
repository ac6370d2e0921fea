/*
 * Reads recipes of mergekit: the keys that are listed here, as YAML or JSON. A key that is not
 * listed is an error that names it, so that no recipe gives another model than it asks for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blend/recipe.h"
#include "blend/yaml_subset.h"
#include "command.h"
#include "model/model_files.h"
#include "remote/remote.h"
#include "suggest.h"
#include "view/print.h"

/* A key of a map, and what reads its value into `into`. */
typedef struct recipe_key {
    const char *name;
    int (*read)(blend_recipe *r, const yaml_node *value, void *into);
} recipe_key;

/* Text from a recipe, made safe for a message. The last four results stay valid. */
static const char *shown(const char *given) {
    static text all[4];
    static unsigned turn;
    text *t = &all[turn++ % 4];
    size_t len = strlen(given);
    text_clear(t);
    text_add(t, "'", 1);
    text_add_safe(t, given, len < 100 ? len : 100);
    text_addf(t, len < 100 ? "'" : "...'");
    return t->bytes;
}

static const char *kind_name(const yaml_node *n) {
    static const char *const names[] = {"nothing", "a text", "a list", "a map"};
    return names[n->kind];
}

static int fail_kind(const blend_recipe *r, const yaml_node *n, const char *expected) {
    return recipe_fail(r, n->line, "%s takes %s, not %s", n->key ? shown(n->key) : "an item",
                       expected, kind_name(n));
}

static int unknown_key(const blend_recipe *r, const yaml_node *n, const recipe_key *keys) {
    suggestion best = {0};
    for (; keys->name; keys++)
        suggest(&best, n->key, strlen(n->key), keys->name, strlen(keys->name));
    if (best.word)
        return recipe_fail(r, n->key_line, "unknown key %s; did you mean '%s'?", shown(n->key),
                           best.word);
    return recipe_fail(r, n->key_line, "unknown key %s", shown(n->key));
}

static int read_map(blend_recipe *r, const yaml_node *map, const recipe_key *keys, void *into) {
    int status = EXIT_FINE;
    if (map->kind != YAML_MAP)
        return fail_kind(r, map, "a map");
    for (const yaml_node *n = map->first; n && !status; n = n->next) {
        const recipe_key *k = keys;
        while (k->name && strcmp(k->name, n->key) != 0)
            k++;
        status = k->name ? k->read(r, n, into) : unknown_key(r, n, keys);
    }
    return status;
}

/* Calls `read` for each item of a list, or for none if the value is null. */
static int read_list(blend_recipe *r, const yaml_node *list, size_t most,
                     int (*read)(blend_recipe *r, const yaml_node *item, void *into), void *into) {
    int status = EXIT_FINE;
    if (list->kind != YAML_LIST)
        return fail_kind(r, list, "a list");
    if (list->count > most)
        return recipe_fail(r, list->line, "%s has %zu items, and at most %zu are read",
                           shown(list->key), list->count, most);
    for (const yaml_node *n = list->first; n && !status; n = n->next)
        status = read(r, n, into);
    return status;
}

/* Parameters. */

typedef struct setting_reader {
    blend_parameter which;
    blend_setting *setting;
    blend_condition *condition;
} setting_reader;

static int check_range(const blend_recipe *r, const yaml_node *n, blend_parameter which,
                       double value) {
    bool share = which == PARAMETER_DENSITY;
    if (share && (value < 0 || value > 1))
        return recipe_fail(r, n->line, "%s is a share between 0 and 1, not %s",
                           blend_parameter_names[which], shown(n->text));
    return EXIT_FINE;
}

static int read_value(blend_recipe *r, const yaml_node *n, void *into) {
    setting_reader *s = into;
    blend_condition *c = s->condition;
    bool on;
    double value;
    if (is_switch(s->which)) {
        if (!yaml_bool(n, &on))
            return recipe_fail(r, n->line, "%s is true or false, not %s",
                               blend_parameter_names[s->which],
                               n->kind == YAML_TEXT ? shown(n->text) : kind_name(n));
        value = on;
    } else if (!yaml_number(n, &value)) {
        return recipe_fail(r, n->line, "%s is a number, not %s", blend_parameter_names[s->which],
                           n->kind == YAML_TEXT ? shown(n->text) : kind_name(n));
    }
    c->values = need_next(c->values, c->count, sizeof *c->values);
    c->values[c->count++] = value;
    return check_range(r, n, s->which, value);
}

static int read_values(blend_recipe *r, const yaml_node *n, void *into) {
    if (n->kind != YAML_LIST)
        return read_value(r, n, into);
    if (!n->count)
        return recipe_fail(r, n->line, "a list of values needs one");
    return read_list(r, n, MAX_GRADIENT, read_value, into);
}

static int read_filter(blend_recipe *r, const yaml_node *n, void *into) {
    setting_reader *s = into;
    if (n->kind == YAML_NULL)
        return EXIT_FINE;
    if (n->kind != YAML_TEXT)
        return fail_kind(r, n, "a text");
    s->condition->filter = need_copy(n->text, strlen(n->text));
    return EXIT_FINE;
}

static const recipe_key condition_keys[] = {
    {"value", read_values}, {"filter", read_filter}, {NULL, NULL}};

static int read_condition(blend_recipe *r, const yaml_node *n, void *into) {
    setting_reader *s = into;
    blend_setting *all = s->setting;
    all->items = need_next(all->items, all->count, sizeof *all->items);
    s->condition = &all->items[all->count++];
    *s->condition = (blend_condition){0};
    int status = read_map(r, n, condition_keys, into);
    if (!status && !s->condition->count)
        return recipe_fail(r, n->line, "a filter without a value");
    return status;
}

/* A value, a list of values for layers, or maps of value and filter. */
static int read_setting(blend_recipe *r, const yaml_node *n, blend_parameter which,
                        blend_setting *out) {
    setting_reader s = {.which = which, .setting = out};
    if (n->kind == YAML_NULL || (n->kind == YAML_LIST && !n->count))
        return EXIT_FINE;
    if (n->kind == YAML_MAP)
        return read_condition(r, n, &s);
    if (n->kind == YAML_LIST && n->first->kind == YAML_MAP)
        return read_list(r, n, MAX_CONDITIONS, read_condition, &s);
    out->items = need(1, sizeof *out->items);
    out->count = 1;
    s.condition = &out->items[0];
    return read_values(r, n, &s);
}

static int read_parameters(blend_recipe *r, const yaml_node *map, void *into) {
    blend_parameters *p = into;
    suggestion best = {0};
    int status = EXIT_FINE;
    if (map->kind == YAML_NULL)
        return status;
    if (map->kind != YAML_MAP)
        return fail_kind(r, map, "a map");
    for (const yaml_node *n = map->first; n && !status; n = n->next) {
        size_t i = 0;
        for (; i < PARAMETERS && strcmp(blend_parameter_names[i], n->key) != 0; i++)
            suggest(&best, n->key, strlen(n->key), blend_parameter_names[i],
                    strlen(blend_parameter_names[i]));
        if (i < PARAMETERS)
            status = read_setting(r, n, (blend_parameter)i, &p->items[i]);
        else
            status = recipe_fail(r, n->key_line, "unknown parameter %s%s%s%s", shown(n->key),
                                 best.word ? "; did you mean '" : "", best.word ? best.word : "",
                                 best.word ? "'?" : "");
    }
    return status;
}

/* Models and slices. */

static int read_model_name(blend_recipe *r, const yaml_node *n, void *into) {
    size_t *model = into;
    if (n->kind != YAML_TEXT || !*n->text)
        return recipe_fail(r, n->line, "%s takes a path or an address, not %s", shown(n->key),
                           n->kind == YAML_TEXT ? "''" : kind_name(n));
    *model = recipe_model(r, n->text);
    return EXIT_FINE;
}

static int read_base(blend_recipe *r, const yaml_node *n, void *into) {
    return n->kind == YAML_NULL ? EXIT_FINE : read_model_name(r, n, into);
}

static int read_source_model(blend_recipe *r, const yaml_node *n, void *into) {
    blend_source *s = into;
    return read_model_name(r, n, &s->model);
}

static int read_source_parameters(blend_recipe *r, const yaml_node *n, void *into) {
    blend_source *s = into;
    return read_parameters(r, n, &s->parameters);
}

static int read_layer_range(blend_recipe *r, const yaml_node *n, void *into) {
    blend_source *s = into;
    size_t begin, end;
    bool two = n->kind == YAML_LIST && n->count == 2;
    if (!two || !yaml_whole(n->first, &begin) || !yaml_whole(n->last, &end) || begin >= end)
        return recipe_fail(r, n->line,
                           "layer_range is [FIRST, END]: layers from FIRST up to the one before "
                           "END, at least one");
    s->begin = begin;
    s->end = end;
    return EXIT_FINE;
}

static const recipe_key model_keys[] = {
    {"model", read_source_model}, {"parameters", read_source_parameters}, {NULL, NULL}};
static const recipe_key source_keys[] = {{"model", read_source_model},
                                         {"layer_range", read_layer_range},
                                         {"parameters", read_source_parameters},
                                         {NULL, NULL}};

static int read_source_of(blend_recipe *r, const yaml_node *n, blend_slice *slice,
                          const recipe_key *keys) {
    blend_source *s = slice_add_source(slice, NO_MODEL);
    s->line = n->line;
    int status = read_map(r, n, keys, s);
    if (!status && s->model == NO_MODEL)
        return recipe_fail(r, n->line, "this source has no key 'model'");
    if (!status && keys == source_keys && s->end == ALL_LAYERS)
        return recipe_fail(r, n->line, "this source has no key 'layer_range'");
    return status;
}

static int read_whole_model(blend_recipe *r, const yaml_node *n, void *into) {
    return read_source_of(r, n, into, model_keys);
}

static int read_source(blend_recipe *r, const yaml_node *n, void *into) {
    return read_source_of(r, n, into, source_keys);
}

static int read_sources(blend_recipe *r, const yaml_node *n, void *into) {
    return read_list(r, n, MAX_BLENDED, read_source, into);
}

static int read_slice_base(blend_recipe *r, const yaml_node *n, void *into) {
    blend_slice *s = into;
    return read_base(r, n, &s->base);
}

static int read_slice_parameters(blend_recipe *r, const yaml_node *n, void *into) {
    blend_slice *s = into;
    return read_parameters(r, n, &s->parameters);
}

static const recipe_key slice_keys[] = {{"sources", read_sources},
                                        {"base_model", read_slice_base},
                                        {"parameters", read_slice_parameters},
                                        {NULL, NULL}};

static int read_slice(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    blend_slice *s = recipe_add_slice(r);
    s->line = n->line;
    int status = read_map(r, n, slice_keys, s);
    if (!status && !s->count)
        return recipe_fail(r, n->line, "this slice has no sources");
    return status;
}

/* The top of the recipe. */

static int read_method(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    suggestion best = {0};
    const char *given = n->kind == YAML_TEXT ? n->text : "";
    for (size_t i = 0; i < BLEND_METHODS; i++) {
        const char *name = blend_method_names[i];
        if (strcmp(given, name) == 0) {
            r->method = (blend_method)i;
            return EXIT_FINE;
        }
        suggest(&best, given, strlen(given), name, strlen(name));
    }
    if (best.word)
        return recipe_fail(r, n->line, "unknown method %s; did you mean '%s'?", shown(given),
                           best.word);
    return recipe_fail(r, n->line,
                       "unknown method %s: there are linear, slerp, task_arithmetic, ties, "
                       "dare_linear, dare_ties and passthrough",
                       shown(given));
}

static int read_models(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    blend_slice *s = recipe_add_slice(r);
    s->line = n->line;
    return read_list(r, n, MAX_BLENDED, read_whole_model, s);
}

static int read_slices(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    r->by_layers = true;
    return read_list(r, n, MAX_SLICES, read_slice, NULL);
}

static int read_base_model(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    return read_base(r, n, &r->base);
}

static int read_top_parameters(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    return read_parameters(r, n, &r->parameters);
}

/* out_dtype is that of the output; dtype is too, if there is no out_dtype. */
static int read_dtype(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    tenmap_dtype dtype;
    if (n->kind == YAML_NULL)
        return EXIT_FINE;
    if (n->kind != YAML_TEXT || !parse_dtype(n->text, &dtype))
        return recipe_fail(r, n->line, "%s takes a dtype such as bfloat16, not %s", shown(n->key),
                           n->kind == YAML_TEXT ? shown(n->text) : kind_name(n));
    if (r->dtype == TENMAP_AS_STORED || strcmp(n->key, "out_dtype") == 0)
        r->dtype = dtype;
    return EXIT_FINE;
}

static int read_tokenizer_source(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    if (n->kind == YAML_NULL || (n->kind == YAML_TEXT && strcmp(n->text, "base") == 0))
        return EXIT_FINE;
    return recipe_fail(r, n->line,
                       "tokenizer_source: blend changes no vocabulary, and copies the tokenizer of "
                       "the base or the first model (base); give models of one vocabulary, and "
                       "remove this key");
}

static int refuse_key(blend_recipe *r, const yaml_node *n, void *into) {
    (void)into;
    static const struct {
        const char *key, *why;
    } reasons[] = {
        {"tokenizer", "blend changes no vocabulary"},
        {"chat_template", "blend copies the files of the base or the first model as they are"},
        {"modules", "models of several modules are blended by 'models'"},
    };
    size_t i = 0;
    while (strcmp(reasons[i].key, n->key) != 0)
        i++;
    return recipe_fail(r, n->key_line, "the key '%s' is not supported: %s", n->key, reasons[i].why);
}

static const recipe_key top_keys[] = {{"merge_method", read_method},
                                      {"models", read_models},
                                      {"slices", read_slices},
                                      {"base_model", read_base_model},
                                      {"parameters", read_top_parameters},
                                      {"dtype", read_dtype},
                                      {"out_dtype", read_dtype},
                                      {"tokenizer_source", read_tokenizer_source},
                                      {"tokenizer", refuse_key},
                                      {"chat_template", refuse_key},
                                      {"modules", refuse_key},
                                      {NULL, NULL}};

/* Of models, the base is one even if the list does not name it. */
static void add_base(blend_recipe *r) {
    blend_slice *s = r->by_layers || r->base == NO_MODEL ? NULL : &r->slices[0];
    for (size_t i = 0; s && i < s->count; i++)
        if (s->sources[i].model == r->base)
            return;
    if (s)
        slice_add_source(s, r->base);
}

static int read_tree(blend_recipe *r, const yaml_node *root) {
    int status = read_map(r, root, top_keys, NULL);
    if (status)
        return status;
    if (!yaml_find(root, "merge_method"))
        return recipe_fail(r, 0, "the recipe has no key 'merge_method'");
    if (!yaml_find(root, "models") == !yaml_find(root, "slices"))
        return recipe_fail(r, 0, "a recipe has one of the keys 'models' and 'slices'");
    if (!r->slice_count || !r->slices[0].count)
        return recipe_fail(r, 0, "the recipe names no models");
    add_base(r);
    return EXIT_FINE;
}

static int read_text(const char *path, text *out) {
    char block[1 << 14];
    int fd, status = open_regular(path, &fd);
    if (status)
        return status;
    ssize_t n = 1;
    while (n > 0 && out->len <= YAML_MAX_BYTES) {
        n = read(fd, block, sizeof block);
        if (n > 0)
            text_add(out, block, (size_t)n);
    }
    if (n < 0)
        status = fail(EXIT_FAILED, "'%s': %s", shown_path(path), os_error_text(errno));
    close(fd);
    return status;
}

int recipe_read(const char *path, blend_recipe *out) {
    text bytes = {0}, why = {0};
    yaml_node *root = NULL;
    *out = (blend_recipe){.path = path, .base = NO_MODEL};
    int status = read_text(path, &bytes);
    if (!status && !yaml_read(bytes.bytes ? bytes.bytes : "", bytes.len, &root, &why))
        status = fail(EXIT_FAILED, "'%s', %s", shown_path(path), why.bytes);
    if (!status)
        status = read_tree(out, root);
    yaml_free(root);
    text_free(&bytes);
    text_free(&why);
    return status;
}
