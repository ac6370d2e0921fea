/* --fuse and --split: query, key and value, or gate and up, as rows of one matrix. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "architectures/architecture.h"
#include "layout/matrix_leaves.h"

enum { MOST_PARTS = 3 };

typedef struct fusion {
    const char *what;
    const char *parent; /* the module that has them; NULL: any but an expert */
    const char *parts[MOST_PARTS];
    size_t count;
    const char *fused;
    const char *fuse_rule, *split_rule;
} fusion;

static const fusion fusions[] = {
    {"qkv", "self_attn", {"q_proj", "k_proj", "v_proj"}, 3, "qkv_proj", "fuse qkv", "split qkv"},
    {"gate_up",
     NULL,
     {"gate_proj", "up_proj", NULL},
     2,
     "gate_up_proj",
     "fuse gate_up",
     "split gate_up"},
};

static const fusion *find_fusion(const char *what) {
    const fusion *f = fusions;
    while (strcmp(f->what, what) != 0)
        f++;
    return f;
}

static bool ends_with(const char *name, size_t len, const char *ending) {
    size_t n = strlen(ending);
    return n <= len && memcmp(name + len - n, ending, n) == 0;
}

/* Whether the module that ends at `len` is an expert: "...experts.7". */
static bool is_expert(const char *name, size_t len) {
    while (len && name[len - 1] >= '0' && name[len - 1] <= '9')
        len--;
    return ends_with(name, len, "experts.");
}

/*
 * Whether the tensor belongs to PREFIX.MODULE, where the prefix is one that the fusion is for. Sets
 * where the module begins and ends in the name.
 */
static bool in_module(const fusion *f, const tenmap_tensor *t, const char *module, size_t *begin,
                      size_t *end) {
    size_t len = strlen(module);
    if (is_other_tower(t->name, t->name_len))
        return false;
    for (size_t at = 0; at + len < t->name_len; at++) {
        if ((at && t->name[at - 1] != '.') || memcmp(t->name + at, module, len) != 0 ||
            t->name[at + len] != '.')
            continue;
        *begin = at;
        *end = at + len;
        size_t before = at ? at - 1 : 0; /* the end of the parent's name */
        return f->parent ? ends_with(t->name, before, f->parent) : !is_expert(t->name, before);
    }
    return false;
}

/* --fuse */

/* A tensor of one of the modules that become one. */
typedef struct row_part {
    const tenmap_tensor *tensor;
    size_t index;
    size_t prefix; /* bytes of the name before the module */
    size_t part;
    const matrix_leaf *leaf; /* NULL: not known */
} row_part;

static int compare_prefixes(const row_part *x, const row_part *y) {
    size_t shorter = x->prefix < y->prefix ? x->prefix : y->prefix;
    int order = memcmp(x->tensor->name, y->tensor->name, shorter);
    return order ? order : (x->prefix > y->prefix) - (x->prefix < y->prefix);
}

static int compare_parts(const void *a, const void *b) {
    const row_part *x = a, *y = b;
    int order = compare_prefixes(x, y);
    if (order)
        return order;
    if (x->leaf != y->leaf)
        return !x->leaf || (y->leaf && x->leaf < y->leaf) ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

static size_t collect_parts(const layout *l, const fusion *f, row_part *list) {
    size_t count = 0;
    for (size_t i = 0; i < l->count; i++) {
        const tenmap_tensor *t = tenmap_at(l->model, i);
        size_t begin, end;
        for (size_t part = 0; part < f->count; part++)
            if (in_module(f, t, f->parts[part], &begin, &end)) {
                const matrix_leaf *leaf = find_leaf(t->name + end, t->name_len - end, false);
                list[count++] = (row_part){t, i, begin, part, leaf};
                break;
            }
    }
    return count;
}

static int fail_without(const fusion *f, const row_part *like, size_t part) {
    const tenmap_tensor *t = like->tensor;
    text name = {0};
    text_add(&name, t->name, like->prefix);
    text_addf(&name, "%s", f->parts[part]);
    text_add(&name, t->name + like->prefix + strlen(f->parts[like->part]),
             t->name_len - like->prefix - strlen(f->parts[like->part]));
    int status = fail(EXIT_FAILED, "%s cannot be fused: there is no tensor %s beside it",
                      shown_name(t->name, t->name_len), shown_name(name.bytes, name.len));
    text_free(&name);
    return status;
}

static const tenmap_tensor *weight_beside(const layout *l, const tenmap_tensor *t,
                                          const matrix_leaf *leaf) {
    text name = {0};
    text_add(&name, t->name, t->name_len - strlen(leaf->of_module));
    text_addf(&name, ".weight");
    const tenmap_tensor *found = tenmap_find_n(l->model, name.bytes, name.len);
    text_free(&name);
    return found;
}

static uint64_t rows_of(const row_part *part) {
    return part->tensor->rank ? part->tensor->shape[0] : 0;
}

/* Whether --split could find the rows of each part again. */
static int check_rows(const layout *l, const fusion *f, const row_part *parts) {
    const row_part *last = &parts[f->count - 1];
    const tenmap_tensor *a = last[-1].tensor, *b = last->tensor;
    if (rows_of(&last[-1]) != rows_of(last))
        return fail(EXIT_FAILED, "%s is %s, but %s is %s: they need as many rows to be fused",
                    shown_name(a->name, a->name_len), shown_shape(a),
                    shown_name(b->name, b->name_len), shown_shape(b));
    if (f->count == 2 || !l->facts.heads || !l->facts.kv_heads ||
        (rows_of(parts) / l->facts.heads == rows_of(last) / l->facts.kv_heads &&
         rows_of(parts) % l->facts.heads == 0 && rows_of(last) % l->facts.kv_heads == 0))
        return EXIT_FINE;
    return fail(EXIT_FAILED,
                "%s is %s and %s is %s, which is not what %" PRIu64 " heads and %" PRIu64
                " key-value heads have; --heads and --kv-heads say the numbers",
                shown_name(parts->tensor->name, parts->tensor->name_len),
                shown_shape(parts->tensor), shown_name(b->name, b->name_len), shown_shape(b),
                l->facts.heads, l->facts.kv_heads);
}

static int check_part(const layout *l, const row_part *part) {
    const tenmap_tensor *t = part->tensor, *weight = weight_beside(l, t, part->leaf);
    uint64_t unused;
    if (!t->rank || !weight || part->leaf->kind == LEAF_CODES)
        return refuse_leaf(t, !t->rank ? "it is a scalar" : "there is no weight beside it");
    return leaf_rows(l, part->leaf, t, weight, weight->rank ? weight->shape[0] : 0, &unused);
}

/* Fuses the tensors of one leaf: all weights, all biases. */
static int fuse_leaf(layout *l, const fusion *f, const row_part *parts, size_t count) {
    size_t indexes[MOST_PARTS];
    tenmap_term *terms = layout_own(l, f->count, sizeof *terms);
    text name = {0};
    int status = EXIT_FINE;
    for (size_t i = 0; i < f->count && !status; i++)
        if (i >= count || parts[i].part != i)
            status = fail_without(f, parts, i);
        else
            status = check_part(l, &parts[i]);
    if (!status && parts->leaf->kind == LEAF_WEIGHT)
        status = check_rows(l, f, parts);
    for (size_t i = 0; i < f->count && !status; i++) {
        indexes[i] = parts[i].index;
        terms[i] = whole_term(parts[i].tensor);
        status = layout_take(l, indexes[i], f->fuse_rule);
    }
    if (status)
        return status;
    text_add(&name, parts->tensor->name, parts->prefix);
    text_addf(&name, "%s%s", f->fused, parts->leaf->of_module);
    const tenmap_derived how = {.name = layout_own_text(l, &name),
                                .op = TENMAP_DERIVE_CONCAT,
                                .n = (uint32_t)f->count,
                                .terms = terms};
    layout_add(l, f->fuse_rule, &how, indexes, f->count);
    text_free(&name);
    return EXIT_FINE;
}

/* Fuses the modules with one prefix. One of them alone is something else, and stays. */
static int fuse_modules(layout *l, const fusion *f, const row_part *list, size_t count, bool *any) {
    unsigned parts = 0, chosen = 0;
    size_t found = 0, end;
    for (size_t i = 0; i < count; i++) {
        found += !(parts >> list[i].part & 1);
        parts |= 1u << list[i].part;
        chosen |= l->chosen[list[i].index];
    }
    if (found == 1 || !chosen) {
        *any = *any || found > 1;
        return EXIT_FINE;
    }
    *any = true;
    if (!list->leaf)
        return refuse_leaf(list->tensor, f->fuse_rule);
    for (size_t at = 0; at < count; at = end) {
        for (end = at + 1; end < count && list[end].leaf == list[at].leaf;)
            end++;
        int status = fuse_leaf(l, f, list + at, end - at);
        if (status)
            return status;
    }
    return EXIT_FINE;
}

int layout_fuse(layout *l, const char *what) {
    const fusion *f = find_fusion(what);
    row_part *list = need(l->count, sizeof *list);
    size_t count = collect_parts(l, f, list), end;
    bool any = false;
    int status = EXIT_FINE;
    qsort(list, count, sizeof *list, compare_parts);
    for (size_t at = 0; at < count && !status; at = end) {
        for (end = at + 1; end < count && !compare_prefixes(&list[at], &list[end]);)
            end++;
        status = fuse_modules(l, f, list + at, end - at, &any);
    }
    free(list);
    if (!status && !any)
        return fail(EXIT_FAILED, "--fuse %s: no module has %s%s and %s side by side", what,
                    f->count == 3 ? "q_proj, " : "", f->parts[f->count - 2],
                    f->parts[f->count - 1]);
    return status;
}

/* --split */

/* Sets the rows of each part of a fused weight. Returns 0 or an exit code. */
static int part_rows(const layout *l, const fusion *f, const tenmap_tensor *t, uint64_t *rows) {
    const layout_facts *facts = &l->facts;
    uint64_t all = t->shape[0], heads = facts->heads, kv = facts->kv_heads;
    if (f->count == 2) {
        rows[0] = rows[1] = all / 2;
        return all % 2 == 0 ? EXIT_FINE
                            : fail(EXIT_FAILED, "%s has the shape %s: it has no two halves",
                                   shown_name(t->name, t->name_len), shown_shape(t));
    }
    if (!heads || !kv || heads > UINT32_MAX || kv > UINT32_MAX)
        return fail(EXIT_FAILED,
                    "%s: the numbers of heads are not known without a config.json; --heads and "
                    "--kv-heads say them",
                    shown_name(t->name, t->name_len));
    uint64_t head = all / (heads + 2 * kv);
    if (head * (heads + 2 * kv) != all || (facts->head && head != facts->head))
        return fail(EXIT_FAILED,
                    "%s has the shape %s, which is not what %" PRIu64 " heads and %" PRIu64
                    " key-value heads%s have; --heads and --kv-heads say the numbers",
                    shown_name(t->name, t->name_len), shown_shape(t), heads, kv,
                    facts->head ? " of the size in config.json" : "");
    rows[0] = head * heads;
    rows[1] = rows[2] = head * kv;
    return EXIT_FINE;
}

static void add_rows(layout *l, const fusion *f, const row_part *from, size_t part,
                     const uint64_t *range) {
    const tenmap_tensor *t = from->tensor;
    uint64_t *begin = layout_own(l, t->rank, sizeof *begin);
    uint64_t *end = layout_own_dims(l, t->shape, t->rank);
    tenmap_term *term = layout_own(l, 1, sizeof *term);
    text name = {0};
    begin[0] = range[0];
    end[0] = range[1];
    *term = (tenmap_term){.tensor = t, .begin = begin, .end = end};
    text_add(&name, t->name, from->prefix);
    text_addf(&name, "%s%s", f->parts[part], from->leaf->of_module);
    const tenmap_derived how = {
        .name = layout_own_text(l, &name), .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = term};
    layout_add(l, f->split_rule, &how, &from->index, 1);
    text_free(&name);
}

static int split_one(layout *l, const fusion *f, const row_part *from) {
    const tenmap_tensor *t = from->tensor;
    uint64_t rows[MOST_PARTS] = {0}, range[2] = {0, 0}, here = 0, unused;
    if (!from->leaf || !t->rank || from->leaf->kind == LEAF_CODES)
        return refuse_leaf(t, f->split_rule);
    const tenmap_tensor *weight = weight_beside(l, t, from->leaf);
    if (!weight || !weight->rank)
        return refuse_leaf(t, "there is no weight beside it");
    int status = part_rows(l, f, weight, rows);
    for (size_t i = 0; i < f->count && !status; i++)
        status = leaf_rows(l, from->leaf, t, weight, rows[i], &unused);
    if (!status)
        status = layout_take(l, from->index, f->split_rule);
    for (size_t i = 0; i < f->count && !status; i++) {
        status = leaf_rows(l, from->leaf, t, weight, rows[i], &here);
        range[0] = range[1];
        range[1] += here;
        add_rows(l, f, from, i, range);
    }
    return status;
}

int layout_split_fused(layout *l, const char *what) {
    const fusion *f = find_fusion(what);
    bool any = false;
    for (size_t i = 0; i < l->count; i++) {
        const tenmap_tensor *t = tenmap_at(l->model, i);
        size_t begin, end;
        if (!in_module(f, t, f->fused, &begin, &end))
            continue;
        const row_part from = {.tensor = t,
                               .index = i,
                               .prefix = begin,
                               .leaf = find_leaf(t->name + end, t->name_len - end, false)};
        any = true;
        int status = l->chosen[i] ? split_one(l, f, &from) : EXIT_FINE;
        if (status)
            return status;
    }
    return any ? EXIT_FINE
               : fail(EXIT_FAILED, "--split %s: no module is called %s%s%s", what,
                      f->parent ? f->parent : "", f->parent ? "." : "", f->fused);
}
