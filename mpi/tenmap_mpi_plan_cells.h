/* Cuts a stream into cells along the borders of the boxes that ranks want. */
#ifndef TENMAP_MPI_PLAN_CELLS_H
#define TENMAP_MPI_PLAN_CELLS_H

#include "tenmap_mpi_plan_boxes.h"
#include "tenmap_mpi_plan_groups.h"
#include "tenmap_mpi_plan_types.h"

static int plan_compare_cuts(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The borders of all boxes along one axis, sorted and unique. */
static size_t plan_cuts(const plan_want *wants, size_t n, uint32_t axis, uint64_t *cuts) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        cuts[2 * i] = wants[i].box.begin[axis];
        cuts[2 * i + 1] = wants[i].box.end[axis];
    }
    qsort(cuts, 2 * n, sizeof *cuts, plan_compare_cuts);
    for (size_t i = 0; i < 2 * n; i++)
        if (kept == 0 || cuts[kept - 1] != cuts[i])
            cuts[kept++] = cuts[i];
    return kept;
}

static size_t plan_cut_number(const uint64_t *cuts, size_t n, uint64_t cut) {
    size_t low = 0;
    while (n > 1) {
        size_t half = n / 2;
        if (cuts[low + half] <= cut)
            low += half;
        n -= half;
    }
    return low;
}

static bool plan_add_cell(plan *p, plan_stream *s, const plan_box *box, const uint64_t *set) {
    uint32_t group;
    if (!plan_group_of(p, set, &group) || !PLAN_GROW(p->cells, p->cell_count, p->cell_room))
        return false;
    p->cells[p->cell_count++] = (plan_cell){*box, s->wanted, group};
    s->cells++;
    s->wanted += plan_volume(s, box);
    return true;
}

/* The grid that the boxes cut a stream into. */
typedef struct plan_grid {
    uint64_t *cuts[PLAN_AXES];
    size_t count[PLAN_AXES]; /* of cuts; there is one cell fewer */
    size_t cells;
    uint64_t *sets; /* of each cell */
} plan_grid;

static void plan_grid_free(plan_grid *g) {
    for (int d = 0; d < PLAN_AXES; d++)
        free(g->cuts[d]);
    free(g->sets);
}

/* False if memory runs out; g->cells is 0 if there would be too many. */
static bool plan_grid_make(const plan_stream *s, const plan_want *wants, size_t n, plan_grid *g) {
    memset(g, 0, sizeof *g);
    g->cells = 1;
    for (uint32_t d = 0; d < s->axes; d++) {
        g->cuts[d] = malloc(2 * n * sizeof *g->cuts[d]);
        if (!g->cuts[d])
            return false;
        g->count[d] = plan_cuts(wants, n, d, g->cuts[d]);
        if (g->cells && g->count[d] - 1 <= PLAN_CELLS / g->cells)
            g->cells *= g->count[d] - 1;
        else
            g->cells = 0;
    }
    return true;
}

/* Adds a taker to the set of each cell that its box covers. */
static void plan_grid_mark(const plan_stream *s, plan_grid *g, const plan_want *w, size_t words) {
    size_t first[PLAN_AXES] = {0}, last[PLAN_AXES] = {0}, at[PLAN_AXES] = {0};
    for (uint32_t d = 0; d < s->axes; d++) {
        first[d] = at[d] = plan_cut_number(g->cuts[d], g->count[d], w->box.begin[d]);
        last[d] = plan_cut_number(g->cuts[d], g->count[d], w->box.end[d]);
    }
    for (;;) {
        size_t cell = 0;
        for (uint32_t d = 0; d < s->axes; d++)
            cell = cell * (g->count[d] - 1) + at[d];
        g->sets[cell * words + w->taker / 64] |= (uint64_t)1 << (w->taker % 64);
        uint32_t d = s->axes;
        while (d > 0 && ++at[d - 1] == last[d - 1]) {
            at[d - 1] = first[d - 1];
            d--;
        }
        if (d == 0)
            return;
    }
}

/* The cells of the grid that somebody wants. */
static bool plan_grid_keep(plan *p, plan_stream *s, const plan_grid *g) {
    for (size_t cell = 0; cell < g->cells; cell++) {
        const uint64_t *set = g->sets + cell * p->words;
        plan_box box = {{0}, {0}};
        size_t rest = cell;
        bool wanted = false;
        for (size_t i = 0; i < p->words; i++)
            wanted = wanted || set[i];
        if (!wanted)
            continue;
        for (uint32_t d = s->axes; d-- > 0;) {
            size_t at = rest % (g->count[d] - 1);
            rest /= g->count[d] - 1;
            box.begin[d] = g->cuts[d][at];
            box.end[d] = g->cuts[d][at + 1];
        }
        if (!plan_add_cell(p, s, &box, set))
            return false;
    }
    return true;
}

/* Makes the box one axis, from its first unit to its last. */
static void plan_flatten_box(const plan_stream *s, plan_box *box) {
    uint64_t first = 0, last = 0;
    for (uint32_t d = 0; d < s->axes; d++) {
        first = first * s->dims[d] + box->begin[d];
        last = last * s->dims[d] + box->end[d] - 1;
    }
    box->begin[0] = first;
    box->end[0] = last + 1;
}

static void plan_flatten(plan_stream *s, plan_want *wants, size_t n) {
    for (size_t i = 0; i < n; i++)
        plan_flatten_box(s, &wants[i].box);
    s->axes = 1;
    s->dims[0] = s->units;
}

/* The last resort: everything from the first unit to the last, for all that want any of it. */
static bool plan_one_cell(plan *p, plan_stream *s, plan_want *wants, size_t n, uint64_t *set) {
    plan_box box = {{0}, {0}};
    if (s->axes > 1)
        plan_flatten(s, wants, n);
    box.begin[0] = s->units;
    memset(set, 0, p->words * sizeof *set);
    for (size_t i = 0; i < n; i++) {
        set[wants[i].taker / 64] |= (uint64_t)1 << (wants[i].taker % 64);
        if (wants[i].box.begin[0] < box.begin[0])
            box.begin[0] = wants[i].box.begin[0];
        if (wants[i].box.end[0] > box.end[0])
            box.end[0] = wants[i].box.end[0];
    }
    p->cell_count = s->cell;
    s->cells = 0;
    s->wanted = 0;
    return plan_add_cell(p, s, &box, set);
}

static size_t plan_groups_of(const plan *p, const plan_stream *s, unsigned char *seen) {
    size_t count = 0;
    memset(seen, 0, p->group_count);
    for (size_t i = 0; i < s->cells; i++) {
        count += !seen[p->cells[s->cell + i].group];
        seen[p->cells[s->cell + i].group] = 1;
    }
    return count;
}

static bool plan_cut_stream(plan *p, plan_stream *s, plan_want *wants, size_t n, uint64_t *set) {
    plan_grid g;
    s->cell = p->cell_count;
    bool good = plan_grid_make(s, wants, n, &g);
    if (good && g.cells == 0) {
        plan_grid_free(&g);
        plan_flatten(s, wants, n);
        good = plan_grid_make(s, wants, n, &g);
    }
    if (good && g.cells) {
        g.sets = calloc(g.cells, p->words * sizeof *g.sets);
        good = g.sets;
        for (size_t i = 0; i < n && good; i++)
            plan_grid_mark(s, &g, &wants[i], p->words);
        good = good && plan_grid_keep(p, s, &g);
    }
    bool many = good && (g.cells == 0 || s->cells > PLAN_GROUPS);
    plan_grid_free(&g);
    if (many && s->cells) { /* many cells may still be few groups */
        unsigned char *seen = malloc(p->group_count);
        good = seen;
        many = good && plan_groups_of(p, s, seen) > PLAN_GROUPS;
        free(seen);
    }
    return many ? plan_one_cell(p, s, wants, n, set) : good;
}

#endif
