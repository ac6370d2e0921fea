/* Groups the tensors of an adapter by module, and finds the weights that they are for. */
#include "lora/lora_modules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/gguf_metadata.h"
#include "output/output_plan.h"
#include "remote/remote.h"
#include "suggest.h"

typedef struct keyed {
    const tenmap_tensor *tensor;
    lora_key key;
} keyed;

static int compare_keyed(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    size_t n = x->key.stem < y->key.stem ? x->key.stem : y->key.stem;
    int order = memcmp(x->tensor->name, y->tensor->name, n);
    if (order || x->key.stem != y->key.stem)
        return order ? order : x->key.stem < y->key.stem ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

void lora_ignore(lora_source *source, const tenmap_tensor *key, const char *why) {
    source->ignored = need_next(source->ignored, source->ignored_count, sizeof *source->ignored);
    source->ignored[source->ignored_count++] = (lora_ignored){key, why};
}

static int refuse_kind(const tenmap_tensor *t, const lora_key *key) {
    return fail(EXIT_FAILED,
                "'%s' is %s, by its key %s; lora applies LoRA and DoRA only: the program that "
                "trained it, or peft, can merge it",
                shown_path(tenmap_path(t->model)), key->refused, shown_name(t->name, t->name_len));
}

static int add_key(lora_modules *out, const keyed *k) {
    lora_module *last = out->count ? &out->items[out->count - 1] : NULL;
    const tenmap_tensor *t = k->tensor;
    if (!last || last->len != k->key.stem || memcmp(last->name, t->name, last->len) != 0) {
        out->items = need_next(out->items, out->count, sizeof *out->items);
        last = &out->items[out->count++];
        *last = (lora_module){.name = t->name, .len = k->key.stem, .first = t};
        last->prefix = lora_prefix_of(t->name, k->key.stem);
    }
    const tenmap_tensor **part = &last->parts[k->key.part];
    if (*part)
        return fail(EXIT_FAILED,
                    "'%s' has the same part of a module twice: %s and %s; apply adapters of "
                    "several names one at a time, each from a file of its own",
                    shown_path(tenmap_path(t->model)), shown_name((*part)->name, (*part)->name_len),
                    shown_name(t->name, t->name_len));
    *part = t;
    return EXIT_FINE;
}

static int group_keys(const tenmap_model *model, lora_modules *out) {
    size_t count = tenmap_count(model), parts = 0;
    keyed *keys = need(count, sizeof *keys);
    int status = EXIT_FINE;
    out->whole = need(count, sizeof *out->whole);
    for (size_t i = 0; !status && i < count; i++) {
        keyed k = {tenmap_at(model, i), lora_key_read(tenmap_at(model, i))};
        if (k.key.part == LORA_PART_REFUSED)
            status = refuse_kind(k.tensor, &k.key);
        else if (k.key.part == LORA_PART_WHOLE)
            out->whole[out->whole_count++] = k.tensor;
        else
            keys[parts++] = k;
    }
    if (parts)
        qsort(keys, parts, sizeof *keys, compare_keyed);
    for (size_t i = 0; !status && i < parts; i++)
        status = add_key(out, &keys[i]);
    free(keys);
    return status;
}

static void ignore_module(lora_source *source, lora_module *module, const char *why) {
    module->ignored = true;
    for (size_t i = 0; i < LORA_PARTS; i++)
        if (module->parts[i])
            lora_ignore(source, module->parts[i], why);
}

/* Whether the prefix is the one that --component names: "unet" for "unet.". */
static bool is_component(const lora_prefix *prefix, const char *component) {
    size_t n = strlen(prefix->text);
    return n && strlen(component) == n - 1 && memcmp(prefix->text, component, n - 1) == 0;
}

static int choose_component(const lora_mapping *m, lora_source *source, lora_modules *modules) {
    size_t chosen = 0;
    for (size_t i = 0; m->component && i < modules->count; i++) {
        if (is_component(modules->items[i].prefix, m->component))
            chosen++;
        else
            ignore_module(source, &modules->items[i], "not of the --component");
    }
    if (!m->component || chosen)
        return EXIT_FINE;
    return fail(EXIT_FAILED,
                "'%s' has no keys that begin with '%s': --component takes what they "
                "begin with, such as unet, transformer, text_encoder or lora_te1",
                shown_path(tenmap_path(source->model)), m->component);
}

static int fail_ambiguous(const lora_module *module, const tenmap_tensor *other) {
    return fail(EXIT_FAILED,
                "the adapter's key %s could be for %s or for %s of the base; rename the tensors of "
                "one of them",
                shown_name(module->first->name, module->first->name_len),
                shown_name(module->weight->name, module->weight->name_len),
                shown_name(other->name, other->name_len));
}

/* Adds the name of a weight in the base that may have been meant, if there is one. */
static void add_candidate(text *t, const tenmap_model *base, const lora_module *module) {
    size_t len = module->len;
    const char *name = lora_strip_prefixes(module->name, &len);
    suggestion best = {0};
    for (size_t i = 0; i < tenmap_count(base); i++) {
        const tenmap_tensor *w = tenmap_at(base, i);
        size_t end = w->name_len > 7 && !memcmp(w->name + w->name_len - 7, ".weight", 7) ? 7 : 0;
        suggest(&best, name, len, w->name, w->name_len - end);
    }
    if (best.word)
        text_addf(t, " (the base has %s)", shown_name(best.word, best.len));
}

static int fail_missing(const lora_mapping *m, const lora_modules *modules, size_t missing) {
    enum { MOST_NAMED = 3 };
    text t = {0};
    size_t shown = 0, live = 0;
    for (size_t i = 0; i < modules->count; i++) {
        const lora_module *module = &modules->items[i];
        live += !module->ignored;
        if (module->ignored || module->weight || shown == MOST_NAMED)
            continue;
        text_addf(&t, "%s%s ", shown++ ? ", " : "",
                  shown_name(module->first->name, module->first->name_len));
        text_add_shape(&t, module->first);
        if (shown == 1)
            add_candidate(&t, m->base, module);
    }
    if (missing > shown)
        text_addf(&t, " and %zu more", missing - shown);
    int status = fail(
        EXIT_FAILED,
        "'%s' is for another model: %zu of the %zu modules that it adapts %s not in '%s': %s; %s",
        shown_path(tenmap_path(modules->items[0].first->model)), missing, live,
        missing == 1 ? "is" : "are", shown_path(tenmap_path(m->base)), t.bytes ? t.bytes : "",
        is_gguf(m->base) ? "a GGUF file has other names and another order of rows: use the "
                           "SafeTensors model, or convert the adapter with llama.cpp's "
                           "convert_lora_to_gguf.py"
                         : "'tenmap ls' shows the names of both");
    text_free(&t);
    return status;
}

/* A few prefixes, each once. Their number is that of the known ones at most. */
typedef struct prefix_set {
    const lora_prefix *items[32];
    size_t count;
} prefix_set;

static bool has_prefix(const prefix_set *set, const lora_prefix *prefix) {
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i] == prefix)
            return true;
    return false;
}

static void add_prefix(prefix_set *set, const lora_prefix *prefix) {
    if (!has_prefix(set, prefix) && set->count < sizeof set->items / sizeof set->items[0])
        set->items[set->count++] = prefix;
}

/* A LoRA of a pipeline has keys for its text encoders, which lie in other folders than the UNet. */
static int settle_missing(const lora_mapping *m, lora_source *source, lora_modules *modules) {
    prefix_set found = {0};
    size_t missing = 0;
    for (size_t i = 0; i < modules->count; i++)
        if (modules->items[i].weight)
            add_prefix(&found, modules->items[i].prefix);
    for (size_t i = 0; i < modules->count; i++) {
        lora_module *module = &modules->items[i];
        if (module->ignored || module->weight)
            continue;
        if (found.count && *module->prefix->text && !has_prefix(&found, module->prefix))
            ignore_module(source, module, "for another model of the pipeline than this base");
        else
            missing++;
    }
    return missing ? fail_missing(m, modules, missing) : EXIT_FINE;
}

static int compare_weights(const void *a, const void *b) {
    const lora_module *const *x = a, *const *y = b;
    return ((*x)->weight > (*y)->weight) - ((*x)->weight < (*y)->weight);
}

/* Two modules of one adapter for the same weight: text_encoder and text_encoder_2, for example. */
static int refuse_twice(const lora_modules *modules) {
    const lora_module **list = need(modules->count, sizeof *list);
    size_t count = 0;
    int status = EXIT_FINE;
    for (size_t i = 0; i < modules->count; i++)
        if (!modules->items[i].ignored)
            list[count++] = &modules->items[i];
    if (count)
        qsort(list, count, sizeof *list, compare_weights);
    for (size_t i = 1; !status && i < count; i++)
        if (list[i]->weight == list[i - 1]->weight)
            status = fail(EXIT_FAILED,
                          "the adapter's keys %s and %s are both for %s of the base; --component "
                          "chooses the keys of one model by what they begin with",
                          shown_name(list[i - 1]->first->name, list[i - 1]->first->name_len),
                          shown_name(list[i]->first->name, list[i]->first->name_len),
                          shown_name(list[i]->weight->name, list[i]->weight->name_len));
    free(list);
    return status;
}

int lora_modules_find(lora_mapping *m, lora_source *source, lora_modules *out) {
    *out = (lora_modules){0};
    int status = group_keys(source->model, out);
    if (!status && !out->count && !out->whole_count)
        status = fail(EXIT_FAILED, "'%s' has no tensors", shown_path(tenmap_path(source->model)));
    if (!status && !out->count)
        status = fail(EXIT_FAILED,
                      "'%s' is not a LoRA: no key is one of a factor, such as "
                      "'M.lora_A.weight' or 'M.lora_down.weight'; the first is %s",
                      shown_path(tenmap_path(source->model)),
                      shown_name(out->whole[0]->name, out->whole[0]->name_len));
    if (!status)
        status = choose_component(m, source, out);
    for (size_t i = 0; !status && i < out->count; i++) {
        lora_module *module = &out->items[i];
        const tenmap_tensor *other = NULL;
        if (module->ignored)
            continue;
        module->weight = lora_find_weight(m->names, module->name, module->len, &other);
        if (other)
            status = fail_ambiguous(module, other);
    }
    if (!status)
        status = settle_missing(m, source, out);
    return status ? status : refuse_twice(out);
}

void lora_modules_free(lora_modules *modules) {
    free(modules->items);
    free(modules->whole);
    *modules = (lora_modules){0};
}
