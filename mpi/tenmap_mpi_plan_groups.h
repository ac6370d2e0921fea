/* Groups: the distinct sets of ranks that want the same cell. */
#ifndef TENMAP_MPI_PLAN_GROUPS_H
#define TENMAP_MPI_PLAN_GROUPS_H

#include "tenmap_mpi_plan_types.h"

static uint64_t plan_hash(const uint64_t *set, size_t words) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < words; i++) {
        hash = (hash ^ set[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

static bool plan_has(const uint64_t *set, int taker) {
    return set[taker / 64] >> (taker % 64) & 1;
}

/* Adds the ranks of a new group, ordered by host. */
static bool plan_add_members(plan *p, const uint64_t *set) {
    plan_group *group = &p->groups[p->group_count];
    group->member = p->member_count;
    for (int i = 0; i < p->ranks; i++) {
        if (!plan_has(set, p->taker_of[p->by_host[i]]))
            continue;
        if (!PLAN_GROW(p->members, p->member_count, p->member_room))
            return false;
        p->members[p->member_count++] = p->by_host[i];
    }
    group->members = p->member_count - group->member;
    return true;
}

static bool plan_grow_table(plan *p) {
    size_t room = p->table_room ? p->table_room * 2 : 64;
    uint32_t *table = calloc(room, sizeof *table);
    if (!table)
        return false;
    for (size_t g = 0; g < p->group_count; g++) {
        size_t at = (size_t)plan_hash(p->sets + g * p->words, p->words) & (room - 1);
        while (table[at])
            at = (at + 1) & (room - 1);
        table[at] = (uint32_t)g + 1;
    }
    free(p->table);
    p->table = table;
    p->table_room = room;
    return true;
}

/* Finds or adds the group of this set. */
static bool plan_group_of(plan *p, const uint64_t *set, uint32_t *number) {
    if (p->group_count * 2 >= p->table_room && !plan_grow_table(p))
        return false;
    size_t at = (size_t)plan_hash(set, p->words) & (p->table_room - 1);
    for (; p->table[at]; at = (at + 1) & (p->table_room - 1))
        if (memcmp(p->sets + (p->table[at] - 1) * p->words, set, p->words * sizeof *set) == 0) {
            *number = p->table[at] - 1;
            return true;
        }
    if (p->group_count == p->group_room) {
        size_t room = p->group_room ? p->group_room * 2 : 16;
        plan_group *groups = realloc(p->groups, room * sizeof *groups);
        if (!groups)
            return false;
        p->groups = groups;
        uint64_t *sets = realloc(p->sets, room * p->words * sizeof *sets);
        if (!sets)
            return false;
        p->sets = sets;
        p->group_room = room;
    }
    if (!plan_add_members(p, set))
        return false;
    memcpy(p->sets + p->group_count * p->words, set, p->words * sizeof *set);
    p->table[at] = (uint32_t)p->group_count + 1;
    *number = (uint32_t)p->group_count++;
    return true;
}

#endif
