/* --stack-experts: the weights of all experts of a layer become one tensor. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "layout/matrix_leaves.h"

enum { GATE, UP, DOWN, PARTS };
enum { MOST_EXPERTS = 32768 }; /* gate and up of each are terms of one tensor */
static const char rule[] = "stack experts";

/* A tensor of one expert. */
typedef struct expert_tensor {
    const tenmap_tensor *tensor;
    size_t index;
    size_t prefix; /* bytes of the name before the module that has the experts */
    uint64_t expert;
    int part;
    const matrix_leaf *leaf;
} expert_tensor;

/* Reads "0" or "17", but not "017". Returns the bytes that it takes, 0 if it is no such number. */
static size_t take_number(const char *at, size_t len, uint64_t *out) {
    enum { MOST_DIGITS = 9 };
    size_t n = 0;
    for (*out = 0; n < len && n < MOST_DIGITS && isdigit((unsigned char)at[n]); n++)
        *out = *out * 10 + (uint64_t)(at[n] - '0');
    return n > 1 && *at == '0' ? 0 : n;
}

/* The offset of "MODULE.experts." in a name, at its begin or after a dot. SIZE_MAX: none. */
static size_t find_module(const char *name, size_t len, const char *module) {
    text wanted = {0};
    size_t found = SIZE_MAX;
    text_addf(&wanted, "%s.experts.", module);
    for (size_t at = 0; at + wanted.len <= len && found == SIZE_MAX; at++)
        if ((!at || name[at - 1] == '.') && memcmp(name + at, wanted.bytes, wanted.len) == 0)
            found = at;
    text_free(&wanted);
    return found;
}

/*
 * Whether the tensor is one of a numbered expert. Sets the leaf to NULL if the expert has a tensor
 * of that name and it is not known what it is.
 */
static bool parse_expert(const layout *l, const tenmap_tensor *t, expert_tensor *out) {
    const expert_layout *as = l->facts.experts_as;
    size_t at = out->prefix = find_module(t->name, t->name_len, as->split_module);
    if (at == SIZE_MAX)
        return false;
    at += strlen(as->split_module) + sizeof ".experts." - 1;
    size_t digits = take_number(t->name + at, t->name_len - at, &out->expert);
    at += digits;
    if (!digits || at == t->name_len || t->name[at] != '.')
        return false;
    const char *rest = t->name + at + 1;
    size_t len = t->name_len - at - 1;
    out->tensor = t;
    out->leaf = NULL;
    for (int part = GATE; part < PARTS && !out->leaf; part++) {
        size_t n = strlen(as->parts[part]);
        out->part = part;
        if (n <= len && memcmp(rest, as->parts[part], n) == 0)
            out->leaf = find_leaf(rest + n, len - n, false);
    }
    return true;
}

static bool is_down(const expert_tensor *e) {
    return e->part == DOWN;
}

/* By layer, then by what becomes one tensor, then in the order of the terms. */
static int compare_experts(const void *a, const void *b) {
    const expert_tensor *x = a, *y = b;
    size_t shorter = x->prefix < y->prefix ? x->prefix : y->prefix;
    int order = memcmp(x->tensor->name, y->tensor->name, shorter);
    if (order || x->prefix != y->prefix)
        return order ? order : x->prefix < y->prefix ? -1 : 1;
    if (x->leaf != y->leaf)
        return x->leaf < y->leaf ? -1 : 1;
    if (is_down(x) != is_down(y))
        return is_down(x) ? 1 : -1;
    if (x->expert != y->expert)
        return x->expert < y->expert ? -1 : 1;
    return x->part - y->part;
}

static bool same_stack(const expert_tensor *a, const expert_tensor *b) {
    return a->leaf == b->leaf && is_down(a) == is_down(b) && a->prefix == b->prefix &&
           memcmp(a->tensor->name, b->tensor->name, a->prefix) == 0;
}

/* The experts of one stack, in order. */
typedef struct expert_stack {
    const expert_tensor *items;
    size_t count;
    uint64_t experts;
} expert_stack;

static void add_expert_name(const layout *l, const expert_tensor *like, uint64_t expert, int part,
                            text *out) {
    const expert_layout *as = l->facts.experts_as;
    text_add(out, like->tensor->name, like->prefix);
    text_addf(out, "%s.experts.%" PRIu64 ".%s%s", as->split_module, expert, as->parts[part],
              like->leaf->of_module);
}

static int fail_missing(const layout *l, const expert_stack *s, uint64_t expert, int part) {
    text name = {0}, missing = {0};
    add_expert_name(l, s->items, expert, part, &name);
    for (size_t i = 0; i < tenmap_missing_count(l->model) && !missing.len; i++)
        text_addf(&missing, "; shards of the model are missing");
    int status = fail(EXIT_FAILED,
                      "expert %" PRIu64 " of %" PRIu64 " is incomplete: there is no tensor %s%s%s",
                      expert, s->experts, shown_name(name.bytes, name.len),
                      l->facts.experts ? " (the number is from config.json)" : "",
                      missing.len ? missing.bytes : "");
    text_free(&name);
    text_free(&missing);
    return status;
}

/* Every expert has what the stack takes from each, once. */
static int check_complete(const layout *l, const expert_stack *s) {
    size_t parts = is_down(s->items) ? 1 : 2;
    const expert_tensor *last = &s->items[s->count - 1];
    if (last->expert >= s->experts)
        return fail(EXIT_FAILED, "%s: config.json says that a layer has %" PRIu64 " experts",
                    shown_name(last->tensor->name, last->tensor->name_len), s->experts);
    if (s->experts > MOST_EXPERTS)
        return fail(EXIT_FAILED, "%s: a layer can have at most %d experts",
                    shown_name(last->tensor->name, last->tensor->name_len), (int)MOST_EXPERTS);
    for (size_t i = 0; i < s->experts * parts; i++) {
        uint64_t expert = i / parts;
        int part = is_down(s->items) ? DOWN : (int)(i % parts);
        if (i >= s->count || s->items[i].expert != expert || s->items[i].part != part)
            return fail_missing(l, s, expert, part);
    }
    return EXIT_FINE;
}

static int check_same(const expert_stack *s) {
    const tenmap_tensor *first = s->items[0].tensor;
    for (size_t i = 1; i < s->count; i++) {
        const tenmap_tensor *t = s->items[i].tensor;
        bool shape = t->rank == first->rank &&
                     (!t->rank || !memcmp(t->shape, first->shape, t->rank * sizeof *t->shape));
        if (!shape || t->dtype != first->dtype)
            return fail(EXIT_FAILED, "%s is %s %s, but %s is %s %s: experts of one layer are alike",
                        shown_name(t->name, t->name_len), tenmap_dtype_text(t), shown_shape(t),
                        shown_name(first->name, first->name_len), tenmap_dtype_text(first),
                        shown_shape(first));
    }
    return EXIT_FINE;
}

/* Scales and biases need the weight beside them, and must follow its rows where they are joined. */
static int check_leaf(const layout *l, const expert_stack *s) {
    const expert_tensor *first = s->items;
    const tenmap_tensor *t = first->tensor;
    bool transposed = experts_are_transposed(l->facts.experts_as) && leaf_transposes(first->leaf);
    text name = {0};
    uint64_t rows;
    int status = EXIT_FINE;
    if (first->leaf->kind == LEAF_CODES || first->leaf->kind == LEAF_VECTOR)
        return t->rank ? EXIT_FINE : refuse_leaf(t, "it is a scalar");
    if (first->leaf->kind == LEAF_WEIGHT && t->rank != 2)
        return fail(EXIT_FAILED, "%s has the shape %s, but the weight of an expert is a matrix",
                    shown_name(t->name, t->name_len), shown_shape(t));
    if (transposed && t->rank != 2)
        return refuse_leaf(t, "it is no matrix");
    if (first->leaf->kind == LEAF_BLOCK_SCALES && !is_down(first) &&
        l->facts.experts_as->axes == EXPERT_INTERLEAVED)
        return refuse_turns(t);
    text_add(&name, first->tensor->name, t->name_len - strlen(first->leaf->of_module));
    text_addf(&name, ".weight");
    const tenmap_tensor *weight = tenmap_find_n(l->model, name.bytes, name.len);
    if (!weight)
        status = refuse_leaf(t, "there is no weight beside it");
    else if (!is_down(first))
        status = leaf_rows(l, first->leaf, t, weight, weight->rank ? weight->shape[0] : 0, &rows);
    text_free(&name);
    return status;
}

/*
 * The rows of gate and up of one expert as one tensor, one after the other or in turns. The stack
 * then transposes it, in tiles that have many of its columns.
 */
static void add_joined_pair(layout *l, const expert_tensor *gate, const char *name) {
    const tenmap_tensor *t = gate->tensor;
    bool turns = l->facts.experts_as->axes == EXPERT_INTERLEAVED;
    tenmap_term *terms = layout_own(l, 2, sizeof *terms);
    tenmap_derived how = {.name = name, .n = 2, .terms = terms};
    uint64_t *shape = layout_own_dims(l, t->shape, t->rank);
    shape[0] *= 2;
    terms[0] = whole_term(t);
    terms[1] = whole_term(gate[1].tensor);
    how.op = turns ? TENMAP_DERIVE_STACK : TENMAP_DERIVE_CONCAT;
    how.axis = turns ? 1 : 0; /* [outputs, 2, ...] or [2 outputs, ...] */
    how.shape = shape;
    how.rank = t->rank;
    layout_add_inner(l, &how);
}

static tenmap_term *own_terms(layout *l, const expert_stack *s, uint32_t flags) {
    tenmap_term *terms = layout_own(l, s->count, sizeof *terms);
    for (size_t i = 0; i < s->count; i++) {
        terms[i] = whole_term(s->items[i].tensor);
        terms[i].flags = flags;
    }
    return terms;
}

static void add_stack(layout *l, const expert_stack *s, const char *name) {
    const expert_tensor *first = s->items;
    const tenmap_tensor *t = first->tensor;
    bool turned = experts_are_transposed(l->facts.experts_as) && leaf_transposes(first->leaf);
    bool nested = !is_down(first) && experts_are_transposed(l->facts.experts_as);
    size_t *indexes = need(s->count, sizeof *indexes);
    tenmap_derived how = {.name = name, .op = TENMAP_DERIVE_STACK, .n = (uint32_t)s->count};
    for (size_t i = 0; i < s->count; i++)
        indexes[i] = s->items[i].index;
    if (nested) {
        for (size_t i = 0; i < s->count; i += 2)
            add_joined_pair(l, &s->items[i], name);
        how.n /= 2;
        layout_add_nested(l, rule, &how, turned, indexes, s->count);
    } else {
        how.terms = own_terms(l, s, turned ? TENMAP_TERM_TRANSPOSED : 0);
        if (!is_down(first)) { /* the rows of gate 0, up 0, gate 1, ... */
            uint64_t *shape = layout_own(l, t->rank + 1, sizeof *shape);
            shape[0] = s->experts;
            shape[1] = 2 * t->shape[0];
            memcpy(shape + 2, t->shape + 1, (t->rank - 1) * sizeof *shape);
            how.op = TENMAP_DERIVE_CONCAT;
            how.shape = shape;
            how.rank = t->rank + 1;
        }
        layout_add(l, rule, &how, indexes, s->count);
    }
    free(indexes);
}

static int stack_one(layout *l, expert_stack *s) {
    const expert_tensor *first = s->items;
    bool chosen = false;
    text name = {0};
    s->experts = l->facts.experts ? l->facts.experts : s->items[s->count - 1].expert + 1;
    for (size_t i = 0; i < s->count && !chosen; i++)
        chosen = l->chosen[s->items[i].index];
    if (!chosen)
        return EXIT_FINE;
    int status = check_complete(l, s);
    if (!status)
        status = check_same(s);
    if (!status)
        status = check_leaf(l, s);
    for (size_t i = 0; i < s->count && !status; i++)
        status = layout_take(l, s->items[i].index, rule);
    if (status)
        return status;
    text_add(&name, first->tensor->name, first->prefix);
    text_addf(&name, "%s.experts.%s%s", l->facts.experts_as->stacked_module,
              is_down(first) ? "down_proj" : "gate_up_proj", first->leaf->of_stack);
    add_stack(l, s, layout_own_text(l, &name));
    text_free(&name);
    return EXIT_FINE;
}

static int collect(const layout *l, expert_tensor *list, size_t *count) {
    for (size_t i = 0; i < l->count; i++) {
        expert_tensor e = {.index = i};
        const tenmap_tensor *t = tenmap_at(l->model, i);
        if (!parse_expert(l, t, &e))
            continue;
        if (e.leaf)
            list[(*count)++] = e;
        else if (l->chosen[i])
            return refuse_leaf(t, "an expert");
    }
    if (*count)
        return EXIT_FINE;
    const expert_layout *as = l->facts.experts_as;
    return fail(EXIT_FAILED,
                "--stack-experts: there is no tensor '%s.experts.0.%s.weight', as %s has it",
                as->split_module, as->parts[GATE], l->facts.type);
}

/* Layers with gate and up have down, and the other way round. */
static int check_pairs(const layout *l, const expert_stack *s, const expert_stack *next) {
    bool follows =
        next->count && next->items[0].leaf == s->items[0].leaf &&
        next->items[0].prefix == s->items[0].prefix &&
        !memcmp(next->items[0].tensor->name, s->items[0].tensor->name, s->items[0].prefix);
    if (s->items[0].leaf->kind != LEAF_WEIGHT || is_down(s->items) || follows)
        return EXIT_FINE;
    return fail_missing(l, s, 0, DOWN);
}

int layout_stack_experts(layout *l) {
    expert_tensor *list = need(l->count, sizeof *list);
    size_t count = 0, end;
    int status = collect(l, list, &count);
    if (!status)
        qsort(list, count, sizeof *list, compare_experts);
    for (size_t at = 0; at < count && !status; at = end) {
        for (end = at; end < count && same_stack(&list[at], &list[end]);)
            end++;
        expert_stack s = {.items = list + at, .count = end - at};
        const expert_stack next = {.items = list + end, .count = count - end};
        status = stack_one(l, &s);
        if (!status)
            status = check_pairs(l, &s, &next);
    }
    free(list);
    if (!status)
        status = layout_rename_module(l, rule, l->facts.experts_as->split_module,
                                      l->facts.experts_as->stacked_module);
    return status;
}
