/* Pairs the tensors of two models by name, after renaming and mapping names. */
#include "compare/match_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/gguf_metadata.h"
#include "model/name_map.h"
#include "remote/remote.h"

/* A tensor with the name that it is matched by. */
typedef struct named {
    const tenmap_tensor *tensor;
    char *name;
    size_t len;
    mapped_name mapped; /* without its text */
    bool found;
} named;

static void add_pair(matches *m, pair added) {
    m->pairs = need_next(m->pairs, m->pair_count, sizeof *m->pairs);
    m->pairs[m->pair_count++] = added;
    m->permuted += added.head_rows > 0;
}

/* Matches unchanged names through each model's own index. */
static void match_plainly(const tenmap_model *a, const tenmap_model *b, matches *m) {
    for (size_t i = 0; i < tenmap_count(a); i++) {
        const tenmap_tensor *t = tenmap_at(a, i), *other = tenmap_find_n(b, t->name, t->name_len);
        if (other)
            add_pair(m, (pair){.a = t, .b = other});
        else
            m->only_a[m->only_a_count++] = t;
    }
    for (size_t i = 0; i < tenmap_count(b); i++) {
        const tenmap_tensor *t = tenmap_at(b, i);
        if (!tenmap_find_n(a, t->name, t->name_len))
            m->only_b[m->only_b_count++] = t;
    }
}

/* Regular expressions stop at NUL, so names that contain one are not renamed. */
static named *name_all(const tenmap_model *model, const match_rules *rules, bool renamed) {
    size_t count = tenmap_count(model);
    named *list = need(count, sizeof *list);
    text now = {0};
    mapped_name mapped = {0};
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        bool nul = memchr(t->name, '\0', t->name_len) != NULL;
        substitute_all(rules->renames, renamed && !nul ? rules->rename_count : 0, t->name,
                       t->name_len, &now);
        mapped.expert = NO_EXPERT;
        if (rules->map_names)
            map_name(model, now.bytes, now.len, &mapped);
        const text *last = rules->map_names ? &mapped.name : &now;
        list[i] = (named){t, need_copy(last->bytes, last->len), last->len, mapped, false};
        list[i].mapped.name = (text){0};
    }
    text_free(&now);
    text_free(&mapped.name);
    return list;
}

/* Sorts by name, then by expert; the tensor that holds all experts comes last. */
static int by_name(const void *left, const void *right) {
    const named *x = left, *y = right;
    size_t shorter = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->name, y->name, shorter);
    if (order || x->len != y->len)
        return order ? order : x->len < y->len ? -1 : 1;
    return (x->mapped.expert > y->mapped.expert) - (x->mapped.expert < y->mapped.expert);
}

static bool same_name(const named *x, const named *y) {
    return x->len == y->len && memcmp(x->name, y->name, x->len) == 0;
}

/* Refuses two tensors of the same name, since the match would be ambiguous. */
static int refuse_duplicate_names(const tenmap_model *model, const named *sorted, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0) {
            const tenmap_tensor *x = sorted[i - 1].tensor, *y = sorted[i].tensor;
            text both = {0};
            text_add_safe(&both, x->name, x->name_len);
            text_addf(&both, " and ");
            text_add_safe(&both, y->name, y->name_len);
            text_addf(&both, " would both be called ");
            text_add_safe(&both, sorted[i].name, sorted[i].len);
            fail(EXIT_FAILED, "%s: %s", shown_path(tenmap_path(model)), both.bytes);
            text_free(&both);
            return EXIT_FAILED;
        }
    return EXIT_FINE;
}

/* Whether a matrix of one expert is a slice of the tensor that holds all experts. */
static bool is_part_of(const named *one, const tenmap_tensor *all) {
    const tenmap_tensor *t = one->tensor;
    return all->rank == t->rank + 1 && one->mapped.expert < all->shape[0] &&
           memcmp(t->shape, all->shape + 1, t->rank * sizeof *t->shape) == 0;
}

/* Facts about both models, apart from their tensors. */
typedef struct sides {
    bool permuted_a, permuted_b; /* the side to read in the other side's row order */
    head_order order;
} sides;

static sides find_sides(const tenmap_model *a, const tenmap_model *b) {
    sides s = {is_gguf(b) && !is_gguf(a), is_gguf(a) && !is_gguf(b), {NULL, NULL}};
    if (s.permuted_a || s.permuted_b)
        s.order = find_head_order(s.permuted_a ? b : a);
    return s;
}

static pair make_pair(const sides *s, const named *a, const named *b) {
    const named *permuted = s->permuted_b ? b : a;
    return (pair){.a = a->tensor,
                  .b = b->tensor,
                  .head_rows = permuted_head_rows(&s->order, &permuted->mapped, permuted->tensor),
                  .permuted_b = s->permuted_b};
}

/* Finds the tensor with the same name and the given expert; the list is sorted by by_name. */
static named *find_named(named *list, size_t count, const named *like, uint64_t expert) {
    named wanted = *like;
    wanted.mapped.expert = expert;
    return count ? bsearch(&wanted, list, count, sizeof *list, by_name) : NULL;
}

/* Pairs one tensor of all experts with the other model's separate expert tensors. */
static void match_experts(matches *m, named *all, named *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        named *one = &list[i];
        if (one->found || one->mapped.expert == NO_EXPERT || !same_name(one, all) ||
            !is_part_of(one, all->tensor))
            continue;
        uint64_t elements = one->tensor->nelems;
        add_pair(m, (pair){.a = all->tensor,
                           .b = one->tensor,
                           .first_a = one->mapped.expert * elements,
                           .count = elements,
                           .is_part = true});
        all->found = one->found = true;
    }
}

/* Finds the run of one name in a sorted list: its length and where it begins. */
static size_t run_of(const named *list, size_t count, const named *like, size_t *begin) {
    size_t low = 0, high = count, end;
    named first = *like;
    first.mapped.expert = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_name(&list[middle], &first) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < count && same_name(&list[end], like);)
        end++;
    *begin = low;
    return end - low;
}

static void match_one(matches *m, const sides *s, named *a, named *list, size_t count) {
    named *b = find_named(list, count, a, a->mapped.expert);
    if (b) {
        b->found = a->found = true;
        add_pair(m, make_pair(s, a, b));
        return;
    }
    if (a->mapped.expert == NO_EXPERT) {
        size_t begin, run = run_of(list, count, a, &begin);
        match_experts(m, a, list + begin, run);
        return;
    }
    b = find_named(list, count, a, NO_EXPERT);
    if (!b || !is_part_of(a, b->tensor))
        return;
    b->found = a->found = true;
    uint64_t elements = a->tensor->nelems;
    add_pair(m, (pair){.a = a->tensor,
                       .b = b->tensor,
                       .first_b = a->mapped.expert * elements,
                       .count = elements,
                       .is_part = true});
}

static void free_named(named *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(list[i].name);
    free(list);
}

static int by_place(const void *left, const void *right) {
    const tenmap_tensor *x = *(const tenmap_tensor *const *)left;
    const tenmap_tensor *y = *(const tenmap_tensor *const *)right;
    return (x > y) - (x < y); /* pointers into one table, so they sort in its order */
}

static int match_mapped(const tenmap_model *a, const tenmap_model *b, const match_rules *rules,
                        matches *m) {
    size_t count_a = tenmap_count(a), count_b = tenmap_count(b);
    named *in_a = name_all(a, rules, true), *in_b = name_all(b, rules, false);
    named *sorted_a = need(count_a, sizeof *sorted_a);
    sides both = find_sides(a, b);
    memcpy(sorted_a, in_a, count_a * sizeof *in_a);
    qsort(sorted_a, count_a, sizeof *sorted_a, by_name);
    qsort(in_b, count_b, sizeof *in_b, by_name);
    int status = refuse_duplicate_names(a, sorted_a, count_a);
    if (!status)
        status = refuse_duplicate_names(b, in_b, count_b);
    for (size_t i = 0; !status && i < count_a; i++) {
        match_one(m, &both, &in_a[i], in_b, count_b);
        if (!in_a[i].found)
            m->only_a[m->only_a_count++] = in_a[i].tensor;
    }
    for (size_t i = 0; !status && i < count_b; i++)
        if (!in_b[i].found)
            m->only_b[m->only_b_count++] = in_b[i].tensor;
    qsort(m->only_b, m->only_b_count, sizeof *m->only_b, by_place);
    free(sorted_a);
    free_named(in_a, count_a);
    free_named(in_b, count_b);
    return status;
}

int match_tensors(const tenmap_model *a, const tenmap_model *b, const match_rules *rules,
                  matches *out) {
    *out = (matches){.only_a = need(tenmap_count(a), sizeof *out->only_a),
                     .only_b = need(tenmap_count(b), sizeof *out->only_b)};
    if (rules->map_names || rules->rename_count)
        return match_mapped(a, b, rules, out);
    match_plainly(a, b, out);
    return EXIT_FINE;
}

void matches_free(matches *m) {
    free(m->pairs);
    free(m->only_a);
    free(m->only_b);
}
