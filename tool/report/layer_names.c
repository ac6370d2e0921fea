/* Derives layers and kinds from tensor names. */
#include <stdlib.h>
#include <string.h>

#include "model/module_numbers.h"
#include "report.h"

enum {
    FAR = 2000,     /* bytes; nobody writes longer names */
    MOST_ROUNDS = 4 /* numbers examined per name */
};

static size_t looked_at(const tenmap_tensor *t) {
    return t->name_len < FAR ? t->name_len : FAR;
}

/*
 * Finds the first number from `from` on. A number that touches the cut-off end of a long name is
 * rejected, since it may be incomplete.
 */
static bool find_number(const tenmap_tensor *t, size_t from, layer_place *out) {
    number_span n;
    size_t most = looked_at(t);
    if (!number_find(t->name, most, from, &n) || (n.end == most && most < t->name_len))
        return false;
    *out = (layer_place){true, n.begin ? n.begin - 1 : 0, n.value, n.end};
    return true;
}

/* A tensor whose layer is undecided, with the number under consideration. */
typedef struct candidate {
    const tenmap_tensor *tensor;
    size_t at; /* index in the report */
    layer_place place;
} candidate;

static int by_stack(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    size_t n = x->place.stack_len, m = y->place.stack_len;
    int order = memcmp(x->tensor->name, y->tensor->name, n < m ? n : m);
    if (order || n != m)
        return order ? order : n < m ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static bool same_stack(const candidate *x, const candidate *y) {
    return x->place.stack_len == y->place.stack_len &&
           memcmp(x->tensor->name, y->tensor->name, x->place.stack_len) == 0;
}

/*
 * Accepts the numbers of stacks with more than one layer. For the other names, moves on to the next
 * number. Returns how many are left.
 */
static size_t settle(candidate *list, size_t count, layer_place *out) {
    size_t left = 0;
    for (size_t at = 0, end; at < count; at = end) {
        bool several = false;
        for (end = at + 1; end < count && same_stack(&list[at], &list[end]); end++)
            several = several || list[end].place.layer != list[at].place.layer;
        for (size_t i = at; i < end; i++) {
            if (several)
                out[list[i].at] = list[i].place;
            else if (find_number(list[i].tensor, list[i].place.end + 1, &list[i].place))
                list[left++] = list[i];
        }
    }
    return left;
}

layer_place *layers_find(const report *r) {
    layer_place *out = need(r->count, sizeof *out);
    candidate *list = need(r->count, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++)
        if (find_number(r->tensors[i], 0, &out[i]))
            list[count++] = (candidate){r->tensors[i], i, out[i]};
    for (int round = 0; round < MOST_ROUNDS && count; round++) {
        qsort(list, count, sizeof *list, by_stack);
        count = settle(list, count, out);
    }
    free(list);
    return out;
}

static bool is_joint(char c) {
    return c == '_' || c == '-';
}

/* Whether no part ends in the number: it is between dots, or followed by _ or -. */
static bool is_inner(const char *name, size_t len, const number_span *n) {
    if (n->end < len && is_joint(name[n->end]))
        return true;
    return !n->begin || !is_joint(name[n->begin - 1]);
}

static void add_words(text *kind, const char *name, size_t from, size_t to) {
    for (size_t at = from; at < to; at++)
        text_add(kind, name[at] == '/' ? "." : name + at, 1);
}

void layer_kind(text *kind, const tenmap_tensor *t, const layer_place *place) {
    size_t most = looked_at(t), at = place->end + 1;
    number_span n;
    text_clear(kind);
    for (; at < most && number_find(t->name, most, at, &n); at = n.end) {
        add_words(kind, t->name, at, n.begin);
        if (is_inner(t->name, most, &n))
            text_add(kind, "*", 1);
        else
            text_add(kind, t->name + n.begin, n.end - n.begin);
    }
    if (at < most)
        add_words(kind, t->name, at, most);
    if (!kind->len)
        text_add(kind, "(itself)", 8);
}
