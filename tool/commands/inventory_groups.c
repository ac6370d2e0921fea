/* Groups the models of an inventory that have the same tensors. */
#include <stdlib.h>

#include "command.h"
#include "commands/inventory.h"

/* The first model of the group, found through the models that lead to it. */
static size_t group_of(size_t *leads_to, size_t m) {
    while (leads_to[m] != m)
        m = leads_to[m] = leads_to[leads_to[m]];
    return m;
}

/* Joins two groups; false if they are one. */
static bool join_groups(size_t *leads_to, size_t a, size_t b) {
    size_t x = group_of(leads_to, a), y = group_of(leads_to, b);
    leads_to[x < y ? y : x] = x < y ? x : y;
    return x != y;
}

static size_t *lone_models(const inventory *all) {
    size_t *leads_to = need(all->count, sizeof *leads_to);
    for (size_t i = 0; i < all->count; i++)
        leads_to[i] = i;
    return leads_to;
}

static bool is_whole(const inventory *all, const inventory_share *s) {
    return s->tensors == all->models[s->a].tensors && s->tensors == all->models[s->b].tensors;
}

static int more_freed(const void *a, const void *b) {
    const inventory_group *x = a, *y = b;
    if (x->freed != y->freed)
        return x->freed > y->freed ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Counts members, and the bytes of those that have files of their own, except for the first. */
static void add_groups(inventory *all, size_t *leads_to) {
    inventory_group *sums = need(all->count, sizeof *sums);
    for (size_t i = 0; i < all->count; i++) {
        inventory_model *m = &all->models[i];
        inventory_group *g = &sums[m->group = group_of(leads_to, i)];
        g->first = m->group;
        g->count++;
        g->freed += m->first == i && i != m->group ? m->bytes : 0;
    }
    all->groups = need(all->count, sizeof *all->groups);
    for (size_t i = 0; i < all->count; i++)
        if (sums[i].count > 1)
            all->groups[all->group_count++] = sums[i];
    if (all->group_count)
        qsort(all->groups, all->group_count, sizeof *all->groups, more_freed);
    free(sums);
}

/*
 * Of the pairs that are left, marks those that connect groups which no pair with more bytes
 * connects: a base and a hundred models made from it are a hundred lines.
 */
static void mark_shares(inventory *all, size_t *leads_to) {
    for (size_t i = 0; i < all->share_count; i++) {
        inventory_share *s = &all->shares[i];
        s->whole = is_whole(all, s);
        s->shown =
            !s->whole && join_groups(leads_to, all->models[s->a].group, all->models[s->b].group);
    }
}

void group_models(inventory *all) {
    size_t *same = lone_models(all), *related = lone_models(all);
    for (size_t i = 0; i < all->count; i++)
        if (all->models[i].first != i)
            (void)join_groups(same, i, all->models[i].first);
    for (size_t i = 0; i < all->share_count; i++)
        if (is_whole(all, &all->shares[i]))
            (void)join_groups(same, all->shares[i].a, all->shares[i].b);
    add_groups(all, same);
    mark_shares(all, related);
    free(same);
    free(related);
}
