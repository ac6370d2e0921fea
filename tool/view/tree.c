/* Prints tensor names as a tree of modules, with sums and folded repetitions. */
#include "view/tree.h"

#include <stdlib.h>
#include <string.h>

#include "model/module_numbers.h"
#include "view/print.h"

static size_t part_length(const char *name, size_t len, bool at_numbers) {
    if (at_numbers)
        return name_part_length(name, len);
    const char *dot = memchr(name, '.', len);
    return dot ? (size_t)(dot - name) : len;
}

/*
 * Compares part by part. natural_compare on whole names could put layer.01 between two tensors of
 * layer.1.
 */
static int compare_parts(const name_entry *x, const name_entry *y, bool at_numbers) {
    size_t shorter = x->len < y->len ? x->len : y->len, n, m;
    size_t i = common_prefix(x->name, y->name, shorter);
    while (i > 0 && x->name[i - 1] != '.') /* back to the start of the part that differs */
        i--;
    for (;;) {
        n = part_length(x->name + i, x->len - i, at_numbers);
        m = part_length(y->name + i, y->len - i, at_numbers);
        if (n != m || i + n >= x->len || i + n >= y->len ||
            memcmp(x->name + i, y->name + i, n + 1) != 0)
            break;
        i += n + 1;
    }
    int order = natural_compare(x->name + i, n, y->name + i, m);
    if (!order && i + n < x->len && i + m < y->len) /* different separators after equal parts */
        order = (x->name[i + n] > y->name[i + m]) - (x->name[i + n] < y->name[i + m]);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static int compare_paths(const void *a, const void *b) {
    return compare_parts(a, b, false);
}

static int compare_at_numbers(const void *a, const void *b) {
    return compare_parts(a, b, true);
}

void tree_sort(selection *s, bool at_numbers) {
    selection_sort_names(s, at_numbers ? compare_at_numbers : compare_paths);
}

/*
 * A module: tensors [at, end), whose names continue with the children from byte `skip` on. A folded
 * module stands for `repeats` consecutive modules, with tensors up to all_end.
 */
typedef struct module {
    size_t at, end, skip;
    size_t repeats, all_end;
} module;

typedef struct tree {
    const tenmap_tensor *const *tensors;
    uint64_t *bytes, *params; /* sums over all tensors before each one */
    table *rows;
    uint64_t max_depth;
    bool folds;
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

/* Whether the other name has the same part at `skip`, of length `len`, and continues after it. */
static bool goes_through(const tree *tr, const tenmap_tensor *other, const tenmap_tensor *t,
                         size_t skip, size_t len) {
    return other->name_len > skip + len && other->name[skip + len] == t->name[skip + len] &&
           memcmp(other->name + skip, t->name + skip, len) == 0 &&
           (!tr->folds || part_length(other->name + skip, other->name_len - skip, true) == len);
}

/* The next child: its tensors, and the length of the name prefix before its own children. */
static module next_child(const tree *t, const module *parent) {
    module child = {parent->at, parent->at + 1, parent->skip, 1, 0};
    const tenmap_tensor *first = t->tensors[child.at];
    size_t len = part_length(first->name + child.skip, first->name_len - child.skip, t->folds);
    bool inner = child.skip + len < first->name_len;
    while (inner && child.end < parent->end &&
           goes_through(t, t->tensors[child.end], first, child.skip, len))
        child.end++;
    if (child.end == child.at + 1) {
        child.skip = first->name_len;
        return child;
    }
    do {
        child.skip += len + 1;
        len = part_length(first->name + child.skip, first->name_len - child.skip, t->folds);
    } while (child.skip + len < first->name_len &&
             goes_through(t, t->tensors[child.end - 1], first, child.skip, len));
    return child;
}

static bool same_dtype(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->dtype == b->dtype &&
           (a->dtype != TENMAP_OPAQUE || strcmp(tenmap_dtype_text(a), tenmap_dtype_text(b)) == 0);
}

/*
 * Length of the digits if they are the whole part of the name at `skip`; 0 if it is not a number.
 */
static size_t number_length(const tenmap_tensor *t, size_t skip) {
    number_span at;
    bool there = number_find(t->name, t->name_len, skip, &at);
    return there && at.begin == skip ? at.end - skip : 0;
}

/* Whether both are the same except for the number at `skip`. */
static bool is_repetition(const tenmap_tensor *a, const tenmap_tensor *b, size_t skip,
                          size_t a_digits, size_t b_digits) {
    size_t a_rest = a->name_len - skip - a_digits, b_rest = b->name_len - skip - b_digits;
    return a_rest == b_rest && same_dtype(a, b) && a->rank == b->rank &&
           memcmp(a->name + skip + a_digits, b->name + skip + b_digits, a_rest) == 0 &&
           (!a->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

/*
 * Whether the tensor is in the module that has the other's number at `skip`, or is that module
 * itself.
 */
static bool has_number(const tenmap_tensor *t, const tenmap_tensor *other, size_t skip,
                       size_t digits) {
    return number_length(t, skip) == digits && memcmp(t->name, other->name, skip + digits) == 0;
}

/* Folds the numbered modules after the child that have the same contents. */
static void fold(const tree *t, const module *parent, module *child) {
    const tenmap_tensor *first = t->tensors[child->at];
    size_t count = child->end - child->at, digits = number_length(first, parent->skip);
    while (digits && parent->end - child->all_end >= count) {
        const tenmap_tensor *other = t->tensors[child->all_end];
        size_t other_digits = number_length(other, parent->skip), i = 0;
        size_t next = child->all_end + count;
        while (other_digits && i < count &&
               has_number(t->tensors[child->all_end + i], other, parent->skip, other_digits) &&
               is_repetition(t->tensors[child->at + i], t->tensors[child->all_end + i],
                             parent->skip, digits, other_digits))
            i++;
        if (i < count ||
            (next < parent->end && has_number(t->tensors[next], other, parent->skip, other_digits)))
            break;
        child->repeats++;
        child->all_end = next;
    }
}

static void add_lines(tree *t) {
    text *cell = table_cell(t->rows);
    for (size_t i = 1; i < t->depth; i++) {
        bool more = t->stack[i].at < t->stack[i].end, own = i + 1 == t->depth;
        const char *line = own ? (more ? "├─ " : "└─ ") : more ? "│  " : "   ";
        text_add(cell, line, strlen(line));
    }
    table_lead(t->rows, 3 * (t->depth - 1));
}

static void add_kind(tree *t, const module *child) {
    const tenmap_tensor *first = t->tensors[child->at];
    size_t count = child->end - child->at, i = child->at;
    while (i < child->end && same_dtype(t->tensors[i], first))
        i++;
    text_add_safe(table_cell(t->rows), i == child->end ? tenmap_dtype_text(first) : "mixed",
                  i == child->end ? strlen(tenmap_dtype_text(first)) : 5);
    table_end_cell(t->rows, i == child->end ? STYLE_CYAN : STYLE_DIM);
    if (child->repeats > 1) {
        text_add_grouped(table_cell(t->rows), child->repeats);
        text_addf(table_cell(t->rows), " × ");
    }
    if (count == 1) {
        text_add_shape(table_cell(t->rows), first);
    } else {
        text_add_grouped(table_cell(t->rows), count);
        text_addf(table_cell(t->rows), " tensors");
    }
    table_end_cell(t->rows, count == 1 ? STYLE_NONE : STYLE_DIM);
}

/* "0…9, 11…23": the numbers of the folded modules, which may have gaps. */
static void add_numbers(tree *t, const module *child, size_t skip) {
    uint64_t *numbers = need(child->repeats, sizeof *numbers);
    size_t count = child->end - child->at;
    for (size_t i = 0; i < child->repeats; i++) {
        const tenmap_tensor *one = t->tensors[child->at + i * count];
        number_span at = {0};
        (void)number_find(one->name, one->name_len, skip, &at);
        numbers[i] = at.value;
    }
    text_add_ranges(table_cell(t->rows), numbers, child->repeats);
    free(numbers);
}

/* "11.self_attn", or "0…11.self_attn" for folded modules. */
static void add_label(tree *t, const module *child, size_t parent_skip) {
    const tenmap_tensor *first = t->tensors[child->at];
    bool leaf = child->end - child->at == 1;
    size_t from = parent_skip;
    if (child->repeats > 1) {
        from += number_length(first, parent_skip);
        add_numbers(t, child, parent_skip);
    }
    text_add_safe(table_cell(t->rows), first->name + from, child->skip - from - !leaf);
}

static void add_row(tree *t, const module *child, size_t parent_skip) {
    bool leaf = child->end - child->at == 1;
    add_lines(t);
    add_label(t, child, parent_skip);
    table_end_cell(t->rows, leaf ? STYLE_NONE : STYLE_BOLD);
    add_kind(t, child);
    text_add_count(table_cell(t->rows), t->params[child->all_end] - t->params[child->at]);
    table_end_cell(t->rows, STYLE_NONE);
    text_add_bytes(table_cell(t->rows), t->bytes[child->all_end] - t->bytes[child->at]);
    table_end_cell(t->rows, STYLE_NONE);
}

/*
 * Uses an explicit stack, since hostile names may nest arbitrarily deep. Its bottom is the model
 * itself, which has no row.
 */
static void add_rows(tree *t, size_t count) {
    push(t, (module){0, count, 0, 1, count});
    while (t->depth) {
        module *parent = &t->stack[t->depth - 1];
        if (parent->at == parent->end) {
            t->depth--;
            continue;
        }
        module child = next_child(t, parent);
        child.all_end = child.end;
        if (t->folds)
            fold(t, parent, &child);
        size_t skip = parent->skip;
        bool deeper = child.end - child.at > 1 && (!t->max_depth || t->depth < t->max_depth);
        parent->at = child.all_end;
        add_row(t, &child, skip);
        if (deeper)
            push(t, child);
    }
}

void tree_print(selection *s, uint64_t depth, bool folds) {
    static const column columns[] = {{"MODULE", false, true},
                                     {"DTYPE", false, false},
                                     {"SHAPE", false, false},
                                     {"PARAMS", true, false},
                                     {"SIZE", true, false}};
    tree t = {.tensors = s->tensors, .max_depth = depth, .folds = folds};
    tree_sort(s, folds);
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
