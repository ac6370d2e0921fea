/* Collects the new tensors of a layout and makes a plan of them. */
#include "layout/layout_plan.h"

#include <stdlib.h>
#include <string.h>

#include "tensor_patterns.h"

void layout_begin(layout *l, const tenmap_model *model, const layout_facts *facts) {
    size_t count = tenmap_count(model);
    *l = (layout){.model = model, .facts = *facts, .count = count};
    l->chosen = need(count, sizeof *l->chosen);
    l->taken = need(count, sizeof *l->taken);
    for (size_t i = 0; i < count; i++) { /* names are passed on as C strings */
        const tenmap_tensor *t = tenmap_at(model, i);
        l->chosen[i] = !memchr(t->name, '\0', t->name_len);
    }
}

void layout_free(layout *l) {
    tenmap_close(l->inner_model);
    for (size_t i = 0; i < l->owned_count; i++)
        free(l->owned[i]);
    free(l->owned);
    free(l->chosen);
    free(l->taken);
    free(l->tensors);
    free(l->inner);
    *l = (layout){0};
}

void *layout_own(layout *l, size_t count, size_t size) {
    void *memory = need(count, size);
    l->owned = need_next(l->owned, l->owned_count, sizeof *l->owned);
    l->owned[l->owned_count++] = memory;
    return memory;
}

char *layout_own_text(layout *l, const text *t) {
    char *copy = layout_own(l, t->len + 1, 1);
    memcpy(copy, t->len ? t->bytes : "", t->len);
    return copy;
}

uint64_t *layout_own_dims(layout *l, const uint64_t *dims, size_t rank) {
    uint64_t *copy = layout_own(l, rank + 1, sizeof *copy);
    if (rank)
        memcpy(copy, dims, rank * sizeof *dims);
    return copy;
}

int layout_take(layout *l, size_t index, const char *rule) {
    const tenmap_tensor *t = tenmap_at(l->model, index);
    if (l->taken[index])
        return fail(EXIT_FAILED,
                    "two rules would change %s: %s and %s; write one model first, then the other "
                    "from it",
                    shown_name(t->name, t->name_len), l->taken[index], rule);
    l->taken[index] = rule;
    return EXIT_FINE;
}

void layout_add(layout *l, const char *rule, const tenmap_derived *how, const size_t *indexes,
                size_t count) {
    new_tensor *t;
    l->tensors = need_next(l->tensors, l->tensor_count, sizeof *l->tensors);
    t = &l->tensors[l->tensor_count++];
    *t = (new_tensor){.how = *how, .rule = rule, .place = indexes[0], .source_count = count};
    t->sources = layout_own(l, count, sizeof *t->sources);
    for (size_t i = 0; i < count; i++) {
        t->sources[i] = tenmap_at(l->model, indexes[i]);
        t->place = indexes[i] < t->place ? indexes[i] : t->place;
    }
}

void layout_add_nested(layout *l, const char *rule, const tenmap_derived *how, bool transposed,
                       const size_t *indexes, size_t count) {
    layout_add(l, rule, how, indexes, count);
    new_tensor *t = &l->tensors[l->tensor_count - 1];
    t->nested = true;
    t->transposed = transposed;
    t->first_inner = l->inner_count - how->n;
}

void layout_add_inner(layout *l, const tenmap_derived *how) {
    text name = {0};
    l->inner = need_next(l->inner, l->inner_count, sizeof *l->inner);
    text_addf(&name, "%s (part %zu)", how->name, l->inner_count);
    l->inner[l->inner_count] = *how;
    l->inner[l->inner_count++].name = layout_own_text(l, &name);
    text_free(&name);
}

tenmap_term whole_term(const tenmap_tensor *tensor) {
    return (tenmap_term){.tensor = tensor};
}

void layout_renamed(layout *l, const tenmap_tensor *tensor, const text *name, tenmap_derived *out) {
    tenmap_term *term = layout_own(l, 1, sizeof *term);
    *term = whole_term(tensor);
    *out = (tenmap_derived){
        .name = layout_own_text(l, name), .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = term};
}

/* The offset of "MODULE." in a name, at its begin or after a dot. SIZE_MAX: none. */
static size_t find_module(const tenmap_tensor *t, const char *module) {
    size_t len = strlen(module);
    for (size_t at = 0; at + len < t->name_len; at++)
        if ((!at || t->name[at - 1] == '.') && t->name[at + len] == '.' &&
            memcmp(t->name + at, module, len) == 0)
            return at;
    return SIZE_MAX;
}

int layout_rename_module(layout *l, const char *rule, const char *from, const char *to) {
    int status = EXIT_FINE;
    text name = {0};
    for (size_t i = 0; strcmp(from, to) != 0 && i < l->count && !status; i++) {
        const tenmap_tensor *t = tenmap_at(l->model, i);
        size_t at = find_module(t, from);
        if (l->taken[i] || !l->chosen[i] || at == SIZE_MAX)
            continue;
        tenmap_derived how;
        text_clear(&name);
        text_add(&name, t->name, at);
        text_addf(&name, "%s", to);
        text_add(&name, t->name + at + strlen(from), t->name_len - at - strlen(from));
        layout_renamed(l, t, &name, &how);
        status = layout_take(l, i, rule);
        if (!status)
            layout_add(l, rule, &how, &i, 1);
    }
    text_free(&name);
    return status;
}

/* Making a plan. */

/* The terms of nested tensors, which exist only now. */
static int make_inner(layout *l) {
    tenmap_error error;
    if (!l->inner_count)
        return EXIT_FINE;
    if (tenmap_derive(l->inner, l->inner_count, NULL, &l->inner_model, &error) != TENMAP_OK)
        return fail_error(&error);
    for (size_t i = 0; i < l->tensor_count; i++) {
        new_tensor *t = &l->tensors[i];
        tenmap_term *terms = t->nested ? layout_own(l, t->how.n, sizeof *terms) : NULL;
        for (size_t k = 0; t->nested && k < t->how.n; k++) {
            terms[k] = whole_term(tenmap_at(l->inner_model, t->first_inner + k));
            terms[k].flags = t->transposed ? TENMAP_TERM_TRANSPOSED : 0;
        }
        if (t->nested)
            t->how.terms = terms;
    }
    return EXIT_FINE;
}

static int compare_places(const void *a, const void *b) {
    const new_tensor *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return natural_compare(x->how.name, strlen(x->how.name), y->how.name, strlen(y->how.name));
}

/* New tensors stand where their first source stood, so that shards keep what belongs together. */
static void order_sources(const layout *l, plan *p) {
    tenmap_source *made = p->sources, *all = need(l->count + l->tensor_count, sizeof *all);
    size_t next = 0, count = 0;
    for (size_t i = 0; i < l->count; i++) {
        for (; next < l->tensor_count && l->tensors[next].place == i; next++)
            all[count++] = made[next];
        if (!l->taken[i])
            all[count++] = (tenmap_source){.tensor = tenmap_at(l->model, i)};
    }
    p->room = l->count + l->tensor_count;
    p->count = count;
    p->sources = all;
    free(made);
}

static int check_names(const plan *p) {
    size_t a, b, len;
    if (!plan_find_duplicate_names(p, &a, &b))
        return EXIT_FINE;
    const char *name = plan_name(p, a, &len);
    return fail(EXIT_FAILED,
                "two tensors of the output would be called %s; rename the one that is there",
                shown_name(name, len));
}

int layout_apply(layout *l, plan *p) {
    int status = make_inner(l);
    tenmap_derived *list = need(l->tensor_count, sizeof *list);
    if (l->tensor_count)
        qsort(l->tensors, l->tensor_count, sizeof *l->tensors, compare_places);
    for (size_t i = 0; i < l->tensor_count; i++)
        list[i] = l->tensors[i].how;
    if (!status)
        status = plan_derive(p, list, l->tensor_count);
    free(list);
    if (status)
        return status;
    order_sources(l, p);
    return check_names(p);
}

const char *shown_shape(const tenmap_tensor *tensor) {
    static text shown[4];
    static unsigned turn;
    text *t = &shown[turn++ % 4];
    text_clear(t);
    text_add_shape(t, tensor);
    return t->bytes;
}
