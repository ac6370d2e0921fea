/* The trees along which a message goes from its reader to the ranks that want it. */
#ifndef TENMAP_MPI_PLAN_ROUTES_H
#define TENMAP_MPI_PLAN_ROUTES_H

#include "tenmap_mpi_plan_types.h"

/* The route of a message to one of its receivers. */
typedef struct plan_route {
    int parent; /* -1 for the reader */
    int children, child[PLAN_MOST_CHILDREN];
} plan_route;

/* The children of this position in a binomial tree of n, larger branches first. */
static int plan_branches(int position, int n, int *out) {
    int lowest = position ? position & -position : 1 << 30, count = 0;
    for (int step = 1; step < lowest && step < n - position; step *= 2)
        out[count++] = position + step;
    for (int i = 0; i < count / 2; i++) {
        int other = out[i];
        out[i] = out[count - 1 - i];
        out[count - 1 - i] = other;
    }
    return count;
}

/*
 * One tree leads from the reader to one rank on each other host; a second tree leads on within each
 * host, the reader's included. The reader need not be in the group. `first` has room for all ranks.
 */
static void plan_find_route(const plan *p, uint32_t group, int reader, int me, int *first,
                            plan_route *route) {
    const plan_group *g = &p->groups[group];
    const int *member = p->members + g->member;
    int hosts = 1, mine = p->host_of[me] == p->host_of[reader] ? 0 : -1, n = 0, position = 0;
    int below[PLAN_MOST_CHILDREN];
    int local[2] = {-1, -1}; /* my host's members in the list: the first, and how many */
    first[0] = reader;
    for (size_t i = 0; i < g->members; i++) {
        int host = p->host_of[member[i]];
        if (host != p->host_of[reader] && (i == 0 || p->host_of[member[i - 1]] != host)) {
            if (host == p->host_of[me])
                mine = hosts;
            first[hosts++] = member[i];
        }
        if (host == p->host_of[me] && local[0] < 0)
            local[0] = (int)i;
        if (host == p->host_of[me])
            local[1] = (int)i + 1 - local[0];
    }
    /* On a host: first the rank that gets it from outside, then the others in order. */
    int leader = first[mine < 0 ? 0 : mine];
    route->parent = -1;
    route->children = 0;
    if (me == leader && mine > 0)
        route->parent = first[mine & (mine - 1)];
    if (me == leader) {
        int count = plan_branches(mine, hosts, below);
        for (int i = 0; i < count; i++)
            route->child[route->children++] = first[below[i]];
    }
    for (int i = 0; i < local[1]; i++) /* positions from 1 on; `first` can hold them now */
        if (member[local[0] + i] != leader) {
            first[++n] = member[local[0] + i];
            position = first[n] == me ? n : position;
        }
    first[0] = leader;
    if (me != leader)
        route->parent = first[position & (position - 1)];
    int count = plan_branches(position, n + 1, below);
    for (int i = 0; i < count; i++)
        route->child[route->children++] = first[below[i]];
}

#endif
