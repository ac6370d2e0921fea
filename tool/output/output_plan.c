/* The plan of an output: which tensors and metadata will be written. */
#include "output/output_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint_branch.h"
#include "model/dequantized_weights.h"
#include "view/print.h"
#include "remote/remote.h"
#include "open_model.h"

/* Building a plan. */

int plan_open(plan *p, const char *label, const char *const *paths, size_t count) {
    *p = (plan){.label = label};
    p->models = need(count, sizeof *p->models);
    catch_interrupts();
    for (; p->model_count < count; p->model_count++) {
        int status = open_model(paths[p->model_count], &p->models[p->model_count]);
        if (status)
            return status;
        const tenmap_model *model = p->models[p->model_count];
        p->input_tensors += tenmap_count(model);
        if (tenmap_missing_count(model))
            warn("'%s' lacks shards (%zu); their tensors will not be in the output",
                 paths[p->model_count], tenmap_missing_count(model));
    }
    return EXIT_FINE;
}

int plan_open_for_tensors(plan *p, const char *label, const char *path, const char *const *patterns,
                          size_t count) {
    if (!is_address(path))
        return plan_open(p, label, &path, 1);
    *p = (plan){.label = label};
    p->models = need(1, sizeof *p->models);
    catch_interrupts();
    int status = open_for_tensors(path, patterns, count, false, &p->whole, &p->models[0]);
    if (status)
        return status;
    p->model_count = 1;
    p->input_tensors = whole_tensors(&p->whole, p->models[0]);
    if (tenmap_missing_count(p->models[0]))
        warn("'%s' lacks shards (%zu); their tensors will not be in the output", shown_path(path),
             tenmap_missing_count(p->models[0]));
    return EXIT_FINE;
}

void plan_add(plan *p, const tenmap_tensor *tensor) {
    if (p->count == p->room) {
        p->room = p->room ? p->room * 2 : 256;
        p->sources = need_more(p->sources, p->room, sizeof *p->sources);
    }
    p->sources[p->count++] = (tenmap_source){.tensor = tensor};
}

int plan_derive(plan *p, const tenmap_derived *tensors, size_t count) {
    tenmap_error error;
    if (tenmap_derive(tensors, count, NULL, &p->derived, &error) != TENMAP_OK)
        return fail_error(&error);
    for (size_t i = 0; i < tenmap_count(p->derived); i++)
        plan_add(p, tenmap_at(p->derived, i));
    return EXIT_FINE;
}

void plan_rename(plan *p, size_t source, char *name, size_t len) {
    if (p->name_count == p->name_room) {
        p->name_room = p->name_room ? p->name_room * 2 : 256;
        p->names = need_more(p->names, p->name_room, sizeof *p->names);
    }
    p->names[p->name_count++] = name;
    p->sources[source].name = name;
    p->sources[source].name_len = len;
}

void plan_free(plan *p) {
    tenmap_close(p->derived);
    for (size_t i = 0; i < p->model_count; i++)
        tenmap_close(p->models[i]);
    whole_model_free(&p->whole);
    for (size_t i = 0; i < p->name_count; i++)
        free(p->names[i]);
    free(p->models);
    free(p->names);
    free(p->sources);
    free(p->losses);
    free(p->origins);
    free(p->shared);
    free(p->left_pairs);
    *p = (plan){0};
}

const char *plan_name(const plan *p, size_t source, size_t *len) {
    const tenmap_source *s = &p->sources[source];
    *len = s->name ? s->name_len : s->tensor->name_len;
    return s->name ? s->name : s->tensor->name;
}

tenmap_dtype plan_dtype(const plan *p, size_t source) {
    const tenmap_source *s = &p->sources[source];
    return s->dtype == TENMAP_AS_STORED ? s->tensor->dtype : s->dtype;
}

uint64_t plan_bytes(const plan *p, size_t source) {
    const tenmap_tensor *t = p->sources[source].tensor;
    tenmap_dtype dtype = plan_dtype(p, source);
    uint64_t bytes = t->nbytes;
    if (dtype != t->dtype)
        (void)tenmap_dtype_bytes(dtype, t->nelems, &bytes);
    return bytes;
}

bool plan_converts(const plan *p, size_t source) {
    return plan_dtype(p, source) != p->sources[source].tensor->dtype;
}

bool plan_rounds(const plan *p, size_t source) {
    const tenmap_tensor *t = p->sources[source].tensor;
    bool computed = is_dequantized(t) || (is_derived(t) && (!p->rearranged || common.dequantize));
    return plan_converts(p, source) ||
           (computed && tenmap_dtype_kind(t->dtype) == TENMAP_KIND_FLOAT);
}

bool plan_is_quantized(const plan *p, size_t source) {
    return p->quantized_model && p->sources[source].tensor->model == p->quantized_model;
}

const tenmap_tensor *plan_origin(const plan *p, size_t source) {
    return plan_is_quantized(p, source) ? p->origins[source] : p->sources[source].tensor;
}

static tenmap_dtype most_elements(const uint64_t *elements) {
    size_t most = 0;
    for (size_t i = 1; i <= TENMAP_OPAQUE; i++)
        most = elements[i] > elements[most] ? i : most;
    return (tenmap_dtype)most;
}

tenmap_dtype plan_main_dtype(const plan *p) {
    uint64_t before[TENMAP_OPAQUE + 1] = {0}, after[TENMAP_OPAQUE + 1] = {0};
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_tensor *t = p->sources[i].tensor;
        tenmap_dtype to = plan_dtype(p, i);
        if (tenmap_dtype_kind(t->dtype) == TENMAP_KIND_FLOAT)
            before[t->dtype & TENMAP_OPAQUE] += t->nelems;
        if (tenmap_dtype_kind(to) == TENMAP_KIND_FLOAT)
            after[to & TENMAP_OPAQUE] += t->nelems;
    }
    tenmap_dtype now = most_elements(after);
    return now == most_elements(before) ? TENMAP_AS_STORED : now;
}

/* Duplicate names. */

static int compare_named(const void *a, const void *b) {
    const named *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);
    if (order || x->len != y->len)
        return order ? order : x->len < y->len ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

void sort_named(named *list, size_t count) {
    qsort(list, count, sizeof *list, compare_named);
}

bool same_named(const named *a, const named *b) {
    return a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

static named *sorted_names(const plan *p) {
    named *list = need(p->count, sizeof *list);
    for (size_t i = 0; i < p->count; i++) {
        list[i].name = plan_name(p, i, &list[i].len);
        list[i].at = i;
    }
    sort_named(list, p->count);
    return list;
}

bool plan_find_duplicate_names(const plan *p, size_t *a, size_t *b) {
    named *list = sorted_names(p);
    bool found = false;
    for (size_t i = 1; i < p->count && !found; i++) {
        found = same_named(&list[i - 1], &list[i]);
        *a = list[i - 1].at;
        *b = list[i].at;
    }
    free(list);
    return found;
}

void plan_drop_duplicate_names(plan *p, bool keep_last) {
    named *list = sorted_names(p);
    size_t kept = 0;
    for (size_t i = 1; i < p->count; i++)
        if (same_named(&list[i - 1], &list[i]))
            p->sources[list[keep_last ? i - 1 : i].at].tensor = NULL;
    for (size_t i = 0; i < p->count; i++)
        if (p->sources[i].tensor)
            p->sources[kept++] = p->sources[i];
    p->count = kept;
    free(list);
}

/* Metadata. */

/* How many of the models give metadata. */
static size_t describing_models(const plan *p) {
    return p->derived ? 1 : p->model_count;
}

static bool same_value(const tenmap_edit *a, const tenmap_edit *b) {
    return a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0;
}

/* Of equal keys one remains: the one from --meta, else the first or the last. */
static void drop_duplicate_keys(const plan *p, output_metadata *all, size_t from_inputs) {
    named *keys = need(all->count, sizeof *keys);
    for (size_t i = 0; i < all->count; i++)
        keys[i] = (named){all->items[i].key, all->items[i].key_len, i};
    sort_named(keys, all->count);
    for (size_t i = 1; i < all->count; i++) {
        if (!same_named(&keys[i - 1], &keys[i]))
            continue;
        bool later = keys[i].at >= from_inputs || p->last_wins;
        tenmap_edit *a = &all->items[keys[i - 1].at], *b = &all->items[keys[i].at];
        if (keys[i].at < from_inputs && !same_value(a, b))
            warn("the inputs disagree about the metadata %s; the %s value counts",
                 shown_name(a->key, a->key_len), later ? "last" : "first");
        if (!later) { /* keep the first next to the rest of its run */
            named first = keys[i - 1];
            keys[i - 1] = keys[i];
            keys[i] = first;
        }
        all->items[keys[i - 1].at].key = NULL;
    }
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].key)
            all->items[kept++] = all->items[i];
    all->count = kept;
    free(keys);
}

/*
 * Whether this is torchao metadata: how a weight is dequantized, under its name, or the list of
 * such weights.
 */
static bool is_torchao_metadata(const tenmap_model *model, const tenmap_metadata *pair) {
    const tenmap_tensor *t = tenmap_find_n(model, pair->key, pair->key_len);
    if (t)
        return is_dequantized(t);
    return common.dequantize && strcmp(pair->key, "tensor_names") == 0;
}

static bool is_output_name(const named *names, size_t count, const char *given, size_t len) {
    named wanted = {given, len, 0};
    size_t first = 0;
    while (first < count) {
        size_t middle = first + (count - first) / 2;
        if (same_named(&names[middle], &wanted))
            return true;
        if (compare_named(&names[middle], &wanted) < 0)
            first = middle + 1;
        else
            count = middle;
    }
    return false;
}

/* Whether a reader of the output would take the pair for another name of a tensor, wrongly. */
static bool reads_as_alias(const plan *p, const named *names, const tenmap_metadata *pair,
                           const tenmap_model *model) {
    return strcmp(tenmap_shard_at(model, pair->shard)->format, "safetensors") != 0 &&
           is_output_name(names, p->count, pair->value, pair->value_len) &&
           !is_output_name(names, p->count, pair->key, pair->key_len);
}

static void leave_pair_out(plan *p, const tenmap_metadata *pair) {
    p->left_pairs = need_next(p->left_pairs, p->left_pair_count, sizeof *p->left_pairs);
    p->left_pairs[p->left_pair_count++] = pair;
}

/* What torch would write: the names that were left out, and the format. */
static void add_torch_metadata(const plan *p, output_metadata *all) {
    static const char format[] = "format";
    bool torch = false;
    for (size_t m = 0; m < describing_models(p); m++)
        torch = torch || is_checkpoint(p->models[m]);
    for (size_t i = 0; i < all->count; i++)
        torch = torch && (all->items[i].key_len != sizeof format - 1 ||
                          memcmp(all->items[i].key, format, sizeof format - 1) != 0);
    if (torch)
        all->items[all->count++] = (tenmap_edit){format, sizeof format - 1, "pt", 2, NULL};
    for (size_t i = 0; i < p->shared_count; i++) {
        const tenmap_tensor *left = p->shared[i].left, *kept = p->shared[i].kept;
        all->items[all->count++] =
            (tenmap_edit){left->name, left->name_len, kept->name, kept->name_len, NULL};
    }
}

int parse_meta(const char *given, tenmap_edit *out) {
    const char *equals = strchr(given, '=');
    if (!equals || equals == given)
        return fail(EXIT_USAGE, "--meta takes KEY=VALUE, not '%s'", given);
    *out = (tenmap_edit){given, (size_t)(equals - given), equals + 1, strlen(equals + 1), NULL};
    return EXIT_FINE;
}

int plan_collect_metadata(plan *p, const output_settings *out, output_metadata *all) {
    size_t room = out->meta.count + p->shared_count + 1;
    named *names = sorted_names(p);
    for (size_t m = 0; m < describing_models(p); m++)
        room += tenmap_metadata_count(p->models[m]);
    *all = (output_metadata){need(room, sizeof *all->items), 0};
    for (size_t m = 0; m < describing_models(p); m++)
        for (size_t i = 0; i < tenmap_metadata_count(p->models[m]); i++) {
            const tenmap_metadata *pair = tenmap_metadata_at(p->models[m], i);
            if (pair->type == TENMAP_VALUE_ARRAY)
                continue; /* e.g. a vocabulary: SafeTensors metadata cannot hold arrays */
            if (is_torchao_metadata(p->models[m], pair))
                continue;
            if (reads_as_alias(p, names, pair, p->models[m])) {
                leave_pair_out(p, pair);
                continue;
            }
            all->items[all->count++] =
                (tenmap_edit){pair->key, pair->key_len, pair->value, pair->value_len, NULL};
        }
    free(names);
    add_torch_metadata(p, all);
    size_t from_inputs = all->count;
    for (size_t i = 0; i < out->meta.count; i++) {
        int status = parse_meta(out->meta.items[i], &all->items[all->count++]);
        if (status)
            return status;
    }
    drop_duplicate_keys(p, all, from_inputs);
    return EXIT_FINE;
}

/* Checking. */

const char *shown_name(const char *name, size_t len) {
    static text shown[4];
    static unsigned turn;
    text *t = &shown[turn++ % 4];
    text_clear(t);
    text_add(t, "'", 1);
    text_add_safe(t, name, len < 200 ? len : 200);
    text_add(t, len < 200 ? "'" : "...'", len < 200 ? 1 : 4);
    return t->bytes;
}

/* SafeTensors has no block dtypes. */
static bool has_blocks(tenmap_dtype dtype) {
    return dtype != TENMAP_OPAQUE && tenmap_dtype_bits(dtype) == 0;
}

int check_output_dtype(const char *by, tenmap_dtype to) {
    if (to == TENMAP_AS_STORED || !has_blocks(to))
        return EXIT_FINE;
    return fail(EXIT_USAGE,
                "%s: blocks of %s can be read but not written, since SafeTensors files cannot hold "
                "them; --to bf16 writes plain numbers, convert --quantize writes codes with scales",
                by, tenmap_dtype_name(to));
}

int plan_check(const plan *p) {
    tenmap_error error;
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        const char *shown = NULL;
        bool known = s->tensor->dtype != TENMAP_OPAQUE;
        if (has_blocks(plan_dtype(p, i)))
            return fail(EXIT_FAILED,
                        "tensor %s is stored in blocks of %s, which SafeTensors files cannot hold; "
                        "convert, extract and drop write its values with --to bf16",
                        shown_name(s->tensor->name, s->tensor->name_len),
                        tenmap_dtype_name(plan_dtype(p, i)));
        if (known && tenmap_convert(plan_dtype(p, i), NULL, 0, s->tensor->dtype, NULL, 0, s->flags,
                                    &error) == TENMAP_OK)
            continue;
        shown = shown_name(s->tensor->name, s->tensor->name_len);
        if (known)
            return fail(EXIT_FAILED, "tensor %s: %s", shown, error.message);
        const char *dtype = tenmap_dtype_text(s->tensor);
        return fail(EXIT_FAILED, "tensor %s has the dtype %s, which cannot be written; drop it",
                    shown, shown_name(dtype, strlen(dtype)));
    }
    return EXIT_FINE;
}
