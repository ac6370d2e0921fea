#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "print.h"

static size_t part_length(const char *name, size_t len) {
    const char *dot = memchr(name, '.', len);
    return dot ? (size_t)(dot - name) : len;
}

/*
 * By parts, where natural_compare on whole names would not do: it could put layer.01 between two
 * tensors of layer.1.
 */
static int compare_paths(const void *a, const void *b) {
    const tenmap_tensor *x = *(const tenmap_tensor *const *)a;
    const tenmap_tensor *y = *(const tenmap_tensor *const *)b;
    size_t shorter = x->name_len < y->name_len ? x->name_len : y->name_len;
    size_t i = 0;
    while (i < shorter && x->name[i] == y->name[i])
        i++;
    while (i > 0 && x->name[i - 1] != '.') /* back to the part that they differ in */
        i--;
    size_t n = part_length(x->name + i, x->name_len - i);
    size_t m = part_length(y->name + i, y->name_len - i);
    int order = natural_compare(x->name + i, n, y->name + i, m);
    return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

void tree_sort(selection *s) {
    qsort(s->tensors, s->count, sizeof *s->tensors, compare_paths);
}

/* A module whose children are being printed: tensors [at, end), names from byte `skip` on. */
typedef struct module {
    size_t at, end, skip;
} module;

typedef struct tree {
    const tenmap_tensor *const *tensors;
    uint64_t *bytes, *params; /* sums of all tensors before */
    table *rows;
    uint64_t max_depth;
    module *stack;
    size_t depth, room;
} tree;

static void push(tree *t, module m) {
    if (t->depth == t->room) {
        t->room = t->room ? 2 * t->room : 16;
        t->stack = need_more(t->stack, t->room, sizeof *t->stack);
    }
    t->stack[t->depth++] = m;
}

/* Whether the other's name has the part at `skip` too, `len` long, and goes on after it. */
static bool goes_through(const tenmap_tensor *other, const tenmap_tensor *t, size_t skip,
                         size_t len) {
    return other->name_len > skip + len && other->name[skip + len] == '.' &&
           memcmp(other->name + skip, t->name + skip, len) == 0;
}

/* The next child: its tensors, and the bytes of their names that lead to its own children. */
static module next_child(const tree *t, const module *parent) {
    module child = {parent->at, parent->at + 1, parent->skip};
    const tenmap_tensor *first = t->tensors[child.at];
    size_t len = part_length(first->name + child.skip, first->name_len - child.skip);
    bool inner = child.skip + len < first->name_len;
    while (inner && child.end < parent->end &&
           goes_through(t->tensors[child.end], first, child.skip, len))
        child.end++;
    if (child.end == child.at + 1) {
        child.skip = first->name_len;
        return child;
    }
    do {
        child.skip += len + 1;
        len = part_length(first->name + child.skip, first->name_len - child.skip);
    } while (child.skip + len < first->name_len &&
             goes_through(t->tensors[child.end - 1], first, child.skip, len));
    return child;
}

static void add_lines(tree *t) {
    text *cell = table_cell(t->rows);
    for (size_t i = 1; i < t->depth; i++) {
        bool more = t->stack[i].at < t->stack[i].end, own = i + 1 == t->depth;
        const char *line = own ? (more ? "├─ " : "└─ ") : more ? "│  " : "   ";
        text_add(cell, line, strlen(line));
    }
}

static bool same_dtype(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->dtype == b->dtype &&
           (a->dtype != TENMAP_OPAQUE || strcmp(tenmap_dtype_text(a), tenmap_dtype_text(b)) == 0);
}

static void add_kind(tree *t, const module *child) {
    const tenmap_tensor *first = t->tensors[child->at];
    size_t count = child->end - child->at, i = child->at;
    while (i < child->end && same_dtype(t->tensors[i], first))
        i++;
    text_add_safe(table_cell(t->rows), i == child->end ? tenmap_dtype_text(first) : "mixed",
                  i == child->end ? strlen(tenmap_dtype_text(first)) : 5);
    table_end_cell(t->rows, i == child->end ? STYLE_CYAN : STYLE_DIM);
    if (count == 1) {
        text_add_shape(table_cell(t->rows), first);
        table_end_cell(t->rows, STYLE_NONE);
    } else {
        text_add_grouped(table_cell(t->rows), count);
        text_add(table_cell(t->rows), " tensors", 8);
        table_end_cell(t->rows, STYLE_DIM);
    }
}

static void add_row(tree *t, const module *child, size_t parent_skip) {
    const tenmap_tensor *first = t->tensors[child->at];
    bool leaf = child->end - child->at == 1;
    add_lines(t);
    text_add_safe(table_cell(t->rows), first->name + parent_skip,
                  child->skip - parent_skip - !leaf);
    table_end_cell(t->rows, leaf ? STYLE_NONE : STYLE_BOLD);
    add_kind(t, child);
    text_add_count(table_cell(t->rows), t->params[child->end] - t->params[child->at]);
    table_end_cell(t->rows, STYLE_NONE);
    text_add_bytes(table_cell(t->rows), t->bytes[child->end] - t->bytes[child->at]);
    table_end_cell(t->rows, STYLE_NONE);
}

/* The stack's bottom is the model itself, which has no row. Hostile names may nest without end. */
static void add_rows(tree *t, size_t count) {
    push(t, (module){0, count, 0});
    while (t->depth) {
        module *parent = &t->stack[t->depth - 1];
        if (parent->at == parent->end) {
            t->depth--;
            continue;
        }
        module child = next_child(t, parent);
        size_t skip = parent->skip;
        bool deeper = child.end - child.at > 1 && (!t->max_depth || t->depth < t->max_depth);
        parent->at = child.end;
        add_row(t, &child, skip);
        if (deeper)
            push(t, child);
    }
}

void tree_print(selection *s, uint64_t depth) {
    static const column columns[] = {{"MODULE", false, true},
                                     {"DTYPE", false, false},
                                     {"SHAPE", false, false},
                                     {"PARAMS", true, false},
                                     {"SIZE", true, false}};
    tree t = {.tensors = s->tensors, .max_depth = depth};
    tree_sort(s);
    t.bytes = need(s->count + 1, sizeof *t.bytes);
    t.params = need(s->count + 1, sizeof *t.params);
    for (size_t i = 0; i < s->count; i++) {
        t.bytes[i + 1] = t.bytes[i] + s->tensors[i]->nbytes;
        t.params[i + 1] = t.params[i] + s->tensors[i]->nelems;
    }
    t.rows = table_new(columns, sizeof columns / sizeof columns[0]);
    add_rows(&t, s->count);
    table_print(t.rows);
    table_free(t.rows);
    free(t.bytes);
    free(t.params);
    free(t.stack);
}
