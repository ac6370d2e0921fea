/*
 * Tensors that several models have in common, by their bytes. What has the dtype, the shape and some
 * samples of another model's tensor is a candidate; candidates are fingerprinted whole.
 */
#include <stdlib.h>
#include <string.h>

#include "alike.h"
#include "command.h"
#include "digest.h"
#include "inventory.h"
#include "progress.h"
#include "work.h"

typedef struct candidate {
    const tenmap_tensor *tensor;
    size_t model;
    uint64_t kind, sample; /* hashes: of dtype and shape, of some bytes */
    bool telling;          /* models that share it have something in common */
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

/* Keeps what is in a run of equal kind (and sample) that spans more than one model. */
static size_t keep_runs(candidate *list, size_t count, bool samples) {
    size_t kept = 0;
    for (size_t at = 0, end; at < count; at = end) {
        bool several = false;
        for (end = at + 1; end < count && list[end].kind == list[at].kind &&
                           (!samples || list[end].sample == list[at].sample);
             end++)
            several = several || list[end].model != list[at].model;
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
            list[(*count)++] = (candidate){.tensor = t, .model = m, .kind = alike_kind(t)};
        }
    return list;
}

static int print_candidate(void *ctx, size_t i) {
    candidate *c = (candidate *)ctx + i;
    if (interrupted())
        return EXIT_INTERRUPTED;
    fingerprint_tensor(c->tensor, &c->print);
    progress_add(c->tensor->nbytes);
    return EXIT_FINE;
}

/* A tensor that two models share. */
typedef struct shared_tensor {
    size_t a, b;
    uint64_t bytes; /* of one */
    size_t count;   /* equal ones, within a model too */
    bool telling;
} shared_tensor;

typedef struct shared_list {
    shared_tensor *items;
    size_t count;
} shared_list;

/* How many of the run, from `at` on, are of one model. */
static size_t of_one_model(const candidate *run, size_t count, size_t at) {
    size_t end = at + 1;
    while (end < count && run[end].model == run[at].model)
        end++;
    return end - at;
}

/*
 * A run of equal prints: every two models of it, as many tensors as both have. Where very many have
 * one, each only with the first of them, so that the pairs do not grow with the square.
 */
static void add_run(shared_list *list, const candidate *run, size_t count) {
    enum { MOST_SQUARED = 256 };
    for (size_t i = 0, mine; i < count && (i == 0 || count <= MOST_SQUARED); i += mine) {
        mine = of_one_model(run, count, i);
        for (size_t k = i + mine, others; k < count; k += others) {
            others = of_one_model(run, count, k);
            list->items = need_next(list->items, list->count, sizeof *list->items);
            list->items[list->count++] =
                (shared_tensor){run[i].model, run[k].model, run[i].tensor->nbytes,
                                mine < others ? mine : others, run[i].telling};
        }
    }
}

static int by_pair(const void *a, const void *b) {
    const shared_tensor *x = a, *y = b;
    return x->a != y->a ? (x->a > y->a) - (x->a < y->a) : (x->b > y->b) - (x->b < y->b);
}

/* Those of two models together, if one of them tells something. */
static void sum_shares(inventory *all, shared_list *list) {
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, by_pair);
    for (size_t at = 0, end; at < list->count; at = end) {
        inventory_share sum = {list->items[at].a, list->items[at].b, 0, 0};
        bool telling = false;
        for (end = at; end < list->count && by_pair(&list->items[at], &list->items[end]) == 0;
             end++) {
            sum.tensors += list->items[end].count;
            sum.bytes += list->items[end].bytes * list->items[end].count;
            telling = telling || list->items[end].telling;
        }
        if (!telling)
            continue;
        all->shares = need_next(all->shares, all->share_count, sizeof *all->shares);
        all->shares[all->share_count++] = sum;
    }
}

static void add_runs(inventory *all, const candidate *list, size_t count) {
    shared_list found = {0};
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1;
             end < count && memcmp(&list[end].print, &list[at].print, sizeof list[at].print) == 0;)
            end++;
        add_run(&found, list + at, end - at);
    }
    sum_shares(all, &found);
    free(found.items);
}

static int larger_share(const void *a, const void *b) {
    const inventory_share *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->a != y->a ? (x->a > y->a) - (x->a < y->a) : (x->b > y->b) - (x->b < y->b);
}

int find_shared(inventory *all, unsigned threads) {
    size_t count;
    uint64_t bytes = 0;
    int status = EXIT_FINE;
    if (!fingerprint_there())
        return EXIT_FINE;
    candidate *list = list_candidates(all, &count);
    if (count)
        qsort(list, count, sizeof *list, by_kind);
    count = keep_runs(list, count, false);
    for (size_t i = 0; i < count; i++)
        list[i].sample = alike_sample(list[i].tensor, &list[i].telling);
    if (count)
        qsort(list, count, sizeof *list, by_kind);
    count = keep_runs(list, count, true);
    for (size_t i = 0; i < count; i++)
        bytes += list[i].tensor->nbytes;
    if (count) {
        progress_begin("fingerprints", bytes);
        status = work_run(threads, count, print_candidate, list);
        progress_end();
        qsort(list, count, sizeof *list, by_print);
    }
    if (!status)
        add_runs(all, list, count);
    if (all->share_count)
        qsort(all->shares, all->share_count, sizeof *all->shares, larger_share);
    free(list);
    return status;
}
