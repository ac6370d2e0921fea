/*
 * Finds tensors that several models share, by their bytes. Tensors whose dtype, shape and samples
 * also occur in another model are candidates; candidates are fingerprinted in full. Models with the
 * same files are treated as one until pairs are formed. Time and memory are O(n log n) in the
 * number of tensors.
 */
#include <stdlib.h>
#include <string.h>

#include "compare/duplicate_tensors.h"
#include "command.h"
#include "compare/digest.h"
#include "commands/inventory.h"

typedef struct candidate {
    const tenmap_tensor *tensor;
    size_t model;
    uint64_t kind, sample; /* hashes: of dtype and shape; of sampled bytes */
    bool significant;      /* sharing it means that the models are related */
    fingerprint print;
} candidate;

static int by_kind(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->sample != y->sample)
        return x->sample < y->sample ? -1 : 1;
    return (x->model > y->model) - (x->model < y->model);
}

static int by_print(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    int order = memcmp(x->print.bytes, y->print.bytes, sizeof x->print.bytes);
    return order ? order : (x->model > y->model) - (x->model < y->model);
}

/* The models that have the same files as model m: members[begin[m]] up to members[begin[m + 1]]. */
typedef struct namesakes {
    size_t *begin, *members;
} namesakes;

static namesakes list_namesakes(const inventory *all) {
    namesakes n = {need(all->count + 2, sizeof *n.begin), need(all->count, sizeof *n.members)};
    size_t *next = n.begin + 1; /* while filling: where the next member of each model goes */
    for (size_t i = 0; i < all->count; i++)
        next[all->models[i].first + 1]++;
    for (size_t i = 0; i < all->count; i++)
        next[i + 1] += next[i];
    for (size_t i = 0; i < all->count; i++)
        n.members[next[all->models[i].first]++] = i;
    return n;
}

static size_t name_count(const namesakes *n, size_t model) {
    return n->begin[model + 1] - n->begin[model];
}

/* Keeps runs of equal kind (and sample) that span more than one model. */
static size_t keep_runs(candidate *list, size_t count, bool samples, const namesakes *names) {
    size_t kept = 0;
    for (size_t at = 0, end; at < count; at = end) {
        bool several = name_count(names, list[at].model) > 1;
        for (end = at + 1; end < count && list[end].kind == list[at].kind &&
                           (!samples || list[end].sample == list[at].sample);
             end++)
            several = several || list[end].model != list[at].model ||
                      name_count(names, list[end].model) > 1;
        for (size_t i = at; several && i < end; i++)
            list[kept++] = list[i];
    }
    return kept;
}

static candidate *list_candidates(const inventory *all, size_t *count) {
    candidate *list = NULL;
    *count = 0;
    for (size_t m = 0; m < all->count; m++)
        for (size_t i = 0; all->models[m].model && i < tenmap_count(all->models[m].model); i++) {
            const tenmap_tensor *t = tenmap_at(all->models[m].model, i);
            if (!t->nbytes || !t->data)
                continue;
            list = need_next(list, *count, sizeof *list);
            list[(*count)++] = (candidate){.tensor = t, .model = m, .kind = duplicate_key(t)};
        }
    return list;
}

static int fingerprint_candidates(candidate *list, size_t count, unsigned threads) {
    const tenmap_tensor **tensors = need(count, sizeof *tensors);
    fingerprint *prints = need(count, sizeof *prints);
    for (size_t i = 0; i < count; i++)
        tensors[i] = list[i].tensor;
    int status = fingerprint_tensors(tensors, count, threads, prints);
    for (size_t i = 0; !status && i < count; i++)
        list[i].print = prints[i];
    free(tensors);
    free(prints);
    return status;
}

/* One or more tensors that two models share. */
typedef struct model_pair_duplicates {
    size_t a, b;
    size_t count; /* also counts copies within a model */
    uint64_t bytes;
    bool significant;
} model_pair_duplicates;

typedef struct model_pair_list {
    model_pair_duplicates *items;
    size_t count;
    size_t left; /* budget for pairs beyond the minimum */
    bool abridged;
} model_pair_list;

/* A model that contains a tensor `count` times. */
typedef struct holder {
    size_t model, count;
} holder;

/* Tensors that the same models contain, each equally often. */
typedef struct holder_set {
    size_t at, len; /* range in the list of holders */
    size_t tensors;
    uint64_t bytes; /* counting each tensor once */
    bool significant;
} holder_set;

typedef struct holder_sets {
    holder *holders;
    size_t holder_count;
    holder_set *items;
    size_t count;
} holder_sets;

/* Adds a run of equal fingerprints. */
static void add_set(holder_sets *sets, const candidate *run, size_t count) {
    holder_set set = {sets->holder_count, 0, 1, run->tensor->nbytes, run->significant};
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || run[i].model != run[i - 1].model)
            sets->holders[set.at + set.len++] = (holder){run[i].model, 0};
        sets->holders[set.at + set.len - 1].count++;
    }
    sets->holder_count += set.len;
    sets->items[sets->count++] = set;
}

/* qsort passes no context. */
static const holder *all_holders;

static int compare_holders(const holder_set *x, const holder_set *y) {
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return memcmp(all_holders + x->at, all_holders + y->at, x->len * sizeof *all_holders);
}

static int by_holders(const void *a, const void *b) {
    const holder_set *x = a, *y = b;
    int order = compare_holders(x, y);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int larger_set(const void *a, const void *b) {
    const holder_set *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Merges sets with the same holders; the largest come first. */
static void join_sets(holder_sets *sets) {
    size_t kept = 0;
    all_holders = sets->holders;
    if (sets->count)
        qsort(sets->items, sets->count, sizeof *sets->items, by_holders);
    for (size_t i = 0; i < sets->count; i++) {
        const holder_set *from = &sets->items[i];
        if (!kept || compare_holders(&sets->items[kept - 1], from) != 0) {
            sets->items[kept++] = *from;
            continue;
        }
        holder_set *into = &sets->items[kept - 1];
        into->tensors += from->tensors;
        into->bytes += from->bytes;
        into->significant = into->significant || from->significant;
    }
    sets->count = kept;
    if (kept)
        qsort(sets->items, kept, sizeof *sets->items, larger_set);
}

static int by_model(const void *a, const void *b) {
    const holder *x = a, *y = b;
    return (x->model > y->model) - (x->model < y->model);
}

/*
 * Adds every pair of `len` holders, or only pairs with the first. Counts the tensors that both
 * have.
 */
static void add_pairs(model_pair_list *list, const holder_set *set, const holder *of, size_t len,
                      bool every) {
    for (size_t i = 0; i < len && (i == 0 || every); i++)
        for (size_t k = i + 1; k < len; k++) {
            size_t both = of[i].count < of[k].count ? of[i].count : of[k].count;
            list->items = need_next(list->items, list->count, sizeof *list->items);
            list->items[list->count++] = (model_pair_duplicates){
                of[i].model, of[k].model, set->tensors * both, set->bytes * both, set->significant};
        }
}

/*
 * Adds all pairs of models that hold a set. If these are too many, it pairs each model only with
 * the first, so that the number of pairs does not grow quadratically. If even that is too many, it
 * pairs with the first only models that have files of their own.
 */
static void add_pairs_of(model_pair_list *list, const holder *holders, const holder_set *set,
                         const namesakes *names) {
    size_t all = 0, len = 0;
    for (size_t i = 0; i < set->len; i++)
        all += name_count(names, holders[set->at + i].model);
    if (!all)
        return;
    bool every = all / 2 + 1 <= list->left / all, each = all <= list->left;
    list->abridged = list->abridged || (!every && (all > 2 || all > set->len));
    if (!each && !every) {
        add_pairs(list, set, holders + set->at, set->len, false);
        return;
    }
    list->left -= every ? all * (all - 1) / 2 : all;
    holder *members = need(all, sizeof *members);
    for (size_t i = 0; i < set->len; i++) {
        const holder *h = &holders[set->at + i];
        for (size_t k = names->begin[h->model]; k < names->begin[h->model + 1]; k++)
            members[len++] = (holder){names->members[k], h->count};
    }
    qsort(members, len, sizeof *members, by_model);
    add_pairs(list, set, members, len, every);
    free(members);
}

static int by_pair(const void *a, const void *b) {
    const model_pair_duplicates *x = a, *y = b;
    return x->a != y->a ? (x->a > y->a) - (x->a < y->a) : (x->b > y->b) - (x->b < y->b);
}

/* Sums the shares of each two models, and keeps those with at least one significant tensor. */
static void sum_shares(inventory *all, model_pair_list *list) {
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, by_pair);
    for (size_t at = 0, end; at < list->count; at = end) {
        inventory_share sum = {.a = list->items[at].a, .b = list->items[at].b};
        bool significant = false;
        for (end = at; end < list->count && by_pair(&list->items[at], &list->items[end]) == 0;
             end++) {
            sum.tensors += list->items[end].count;
            sum.bytes += list->items[end].bytes;
            significant = significant || list->items[end].significant;
        }
        if (!significant)
            continue;
        all->shares = need_next(all->shares, all->share_count, sizeof *all->shares);
        all->shares[all->share_count++] = sum;
    }
}

static void add_runs(inventory *all, const candidate *list, size_t count, const namesakes *names) {
    enum { ALWAYS_LEFT = 1 << 16, LEFT_EACH = 8 };
    model_pair_list found = {.left = ALWAYS_LEFT + LEFT_EACH * count};
    holder_sets sets = {.holders = need(count, sizeof *sets.holders),
                        .items = need(count, sizeof *sets.items)};
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1;
             end < count && memcmp(&list[end].print, &list[at].print, sizeof list[at].print) == 0;)
            end++;
        add_set(&sets, list + at, end - at);
    }
    join_sets(&sets);
    for (size_t i = 0; i < sets.count; i++)
        add_pairs_of(&found, sets.holders, &sets.items[i], names);
    sum_shares(all, &found);
    all->abridged = found.abridged;
    free(sets.holders);
    free(sets.items);
    free(found.items);
}

static int larger_share(const void *a, const void *b) {
    const inventory_share *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->a != y->a ? (x->a > y->a) - (x->a < y->a) : (x->b > y->b) - (x->b < y->b);
}

/* Finds the tensors whose dtype, shape and samples another model also has. */
static candidate *find_candidates(const inventory *all, const namesakes *names, size_t *count) {
    candidate *list = list_candidates(all, count);
    if (!list) {
        *count = 0;
        return NULL;
    }
    qsort(list, *count, sizeof *list, by_kind);
    *count = keep_runs(list, *count, false, names);
    for (size_t i = 0; i < *count && !interrupted(); i++)
        list[i].sample = duplicate_sample(list[i].tensor, &list[i].significant);
    if (*count)
        qsort(list, *count, sizeof *list, by_kind);
    *count = keep_runs(list, *count, true, names);
    return list;
}

int find_cross_model_duplicates(inventory *all, unsigned threads) {
    size_t count;
    int status = EXIT_FINE;
    namesakes names = list_namesakes(all);
    candidate *list = find_candidates(all, &names, &count);
    if (count) {
        status = fingerprint_candidates(list, count, threads);
        qsort(list, count, sizeof *list, by_print);
    }
    if (!status)
        add_runs(all, list, count, &names);
    if (all->share_count)
        qsort(all->shares, all->share_count, sizeof *all->shares, larger_share);
    free(list);
    free(names.begin);
    free(names.members);
    return status;
}
