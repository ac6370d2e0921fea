/*
 * Runs tenmap_mpi's plan for models and jobs that are too large for this machine: who reads how
 * much, what is sent, how much memory the plan takes. It needs neither MPI nor files: only
 * published shapes, and the plan's own code (mpi/tenmap_mpi_plan.h).
 *     bench_mpi_plan [MOST_RANKS]
 * Imbalance is the most that a rank reads, divided by the mean. Volume is what arrives, divided by
 * the least that must arrive: what each rank wants and did not read itself. "between hosts" is what
 * crosses between hosts, divided by what must: each byte once for each host that wants it and did
 * not read it. Trees are walked and checked.
 */
#include "../mpi/tenmap_mpi_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { RANKS_PER_HOST = 8, CHECKED_TREES = 200 };

/* How the ranks of a job divide the model. */
enum division {
    ALL,     /* every rank has everything: data parallel */
    TENSOR8, /* slices for the 8 ranks of a host, the same on each host */
    TENSOR,  /* slices for all ranks */
    EXPERTS  /* whole experts, dealt to all ranks; the rest everywhere */
};
static const char *const division_names[] = {"all of it", "tensor, 8", "tensor, all", "experts"};

typedef struct shape_of_model {
    const char *name;
    uint32_t layers, width, inner, key_width, vocabulary, experts, expert_inner, dense_layers;
    uint32_t bits;
} shape_of_model;

static const shape_of_model models[] = {
    {"Llama 3.1 8B", 32, 4096, 14336, 1024, 128256, 0, 0, 32, 16},
    {"Llama 3.1 70B", 80, 8192, 28672, 1024, 128256, 0, 0, 80, 16},
    {"Llama 3.1 405B", 126, 16384, 53248, 1024, 128256, 0, 0, 126, 16},
    {"DeepSeek V3 (F8)", 61, 7168, 18432, 1536, 129280, 256, 2048, 3, 8}};

/* A job: its streams and wants grow tensor by tensor. */
typedef struct job {
    plan plan;
    size_t stream_room, want_count, want_room;
    plan_want *wants;
    enum division division;
    int ranks, takers, *host_of, *taker_of;
    bool full;
} job;

static void add_want(job *j, int taker, uint64_t rows0, uint64_t rows1, uint64_t columns0,
                     uint64_t columns1) {
    if (!PLAN_GROW(j->wants, j->want_count, j->want_room)) {
        j->full = true;
        return;
    }
    if (rows0 < rows1 && columns0 < columns1)
        j->wants[j->want_count++] = (plan_want){
            j->plan.stream_count - 1, (uint32_t)taker, {{rows0, columns0}, {rows1, columns1}}};
}

/*
 * axis: 0 or 1: that axis is cut into slices; -1: all takers want the whole tensor; -2: only the
 * taker `owner` does.
 */
static void add_tensor(job *j, uint32_t bits, uint64_t rows, uint64_t columns, int axis,
                       int owner) {
    if (!PLAN_GROW(j->plan.streams, j->plan.stream_count, j->stream_room)) {
        j->full = true;
        return;
    }
    plan_stream *s = &j->plan.streams[j->plan.stream_count++];
    *s = (plan_stream){
        .axes = 2, .dims = {rows, columns}, .wire_bits = bits, .read_bits = bits, .step = 1};
    uint64_t n = (uint64_t)j->takers;
    if (j->division == ALL || (j->division == EXPERTS && axis >= 0))
        axis = -1;
    for (int t = 0; t < j->takers; t++) {
        uint64_t a = (uint64_t)t, b = a + 1;
        if (axis == 0)
            add_want(j, t, rows * a / n, rows * b / n, 0, columns);
        else if (axis == 1)
            add_want(j, t, 0, rows, columns * a / n, columns * b / n);
        else if (axis == -1 || t == owner)
            add_want(j, t, 0, rows, 0, columns);
    }
}

static void add_mlp(job *j, const shape_of_model *m, uint32_t inner, int axis, int owner) {
    add_tensor(j, m->bits, inner, m->width, axis == -2 ? -2 : 0, owner);
    add_tensor(j, m->bits, inner, m->width, axis == -2 ? -2 : 0, owner);
    add_tensor(j, m->bits, m->width, inner, axis == -2 ? -2 : 1, owner);
}

static void add_model(job *j, const shape_of_model *m) {
    add_tensor(j, m->bits, m->vocabulary, m->width, 0, 0);
    for (uint32_t layer = 0; layer < m->layers; layer++) {
        add_tensor(j, m->bits, 1, m->width, -1, 0);
        add_tensor(j, m->bits, m->width, m->width, 0, 0);
        add_tensor(j, m->bits, m->key_width, m->width, 0, 0);
        add_tensor(j, m->bits, m->key_width, m->width, 0, 0);
        add_tensor(j, m->bits, m->width, m->width, 1, 0);
        add_tensor(j, m->bits, 1, m->width, -1, 0);
        if (layer < m->dense_layers)
            add_mlp(j, m, m->inner, 0, 0);
        for (uint32_t e = 0; layer >= m->dense_layers && e < m->experts; e++)
            add_mlp(j, m, m->expert_inner, j->division == EXPERTS ? -2 : 0,
                    (int)((uint64_t)e * (uint64_t)j->takers / m->experts));
    }
    add_tensor(j, m->bits, 1, m->width, -1, 0);
    add_tensor(j, m->bits, m->vocabulary, m->width, 0, 0);
}

/* Whether the tree of a message reaches each member once, from the parent that its route names. */
static bool tree_holds(const plan *p, uint32_t group, int reader, int *scratch, int *parents) {
    const plan_group *g = &p->groups[group];
    plan_route route;
    for (int r = 0; r < p->ranks; r++)
        parents[r] = -1;
    for (size_t i = 0; i <= g->members; i++) {
        int from = i < g->members ? p->members[g->member + i] : reader;
        if (i < g->members && from == reader)
            continue;
        plan_find_route(p, group, reader, from, scratch, &route);
        for (int c = 0; c < route.children; c++) {
            if (parents[route.child[c]] >= 0 || route.child[c] == reader)
                return false;
            parents[route.child[c]] = from;
        }
    }
    for (size_t i = 0; i < g->members; i++) {
        int to = p->members[g->member + i];
        plan_find_route(p, group, reader, to, scratch, &route);
        if (to != reader && (parents[to] < 0 || route.parent != parents[to]))
            return false;
    }
    return true;
}

typedef struct result {
    double most_read, arrived, least, crossed, least_crossed, messages;
    bool trees;
} result;

static void count_message(const plan *p, const plan_message *m, uint64_t payload, int reader,
                          result *out) {
    const plan_group *g = &p->groups[m->group];
    double to = 0, hosts = 0;
    for (size_t i = 0; i < g->members; i++) {
        int member = p->members[g->member + i], host = p->host_of[member];
        to += member != reader;
        hosts += host != p->host_of[reader] &&
                 (i == 0 || p->host_of[p->members[g->member + i - 1]] != host);
    }
    out->messages += to;
    out->arrived += to * (double)m->bytes;
    out->crossed += hosts * (double)m->bytes;
    out->least += to * (double)payload / 8;
    out->least_crossed += hosts * (double)payload / 8;
}

static bool walk_plan(const plan *p, result *out) {
    plan_walk walk;
    plan_chunk c = {0};
    uint64_t *payload = calloc(PLAN_MESSAGES, sizeof *payload);
    int *scratch = calloc(2 * (size_t)p->ranks + 2, sizeof *scratch), trees = 0;
    bool more = true, good = plan_walk_begin(&walk, p) && payload && scratch;
    *out = (result){.trees = true};
    for (int k = 0; k < p->readers && good; k++) {
        plan_place at = plan_border(p, k), end = plan_border(p, k + 1);
        double read = 0;
        while (good && plan_place_before(at, end)) {
            good = plan_next(p, &walk, &at, end, &c, &more);
            memset(payload, 0, c.message_count * sizeof *payload);
            for (size_t i = 0; i < c.piece_count; i++)
                payload[c.pieces[i].message] +=
                    c.pieces[i].units *
                    p->streams[c.segments[c.pieces[i].segment].stream].wire_bits;
            for (size_t i = 0; i < c.message_count; i++) {
                count_message(p, &c.messages[i], payload[i], p->reader[k], out);
                if (trees < CHECKED_TREES && trees++ >= 0)
                    out->trees = out->trees && tree_holds(p, c.messages[i].group, p->reader[k],
                                                          scratch, scratch + p->ranks + 1);
            }
            read += (double)c.read / 8;
        }
        out->most_read = read > out->most_read ? read : out->most_read;
    }
    plan_walk_free(&walk);
    plan_chunk_free(&c);
    free(payload);
    free(scratch);
    return good;
}

static bool one_row(const shape_of_model *m, int ranks, enum division division, bool *holds) {
    job j = {.division = division, .ranks = ranks};
    clock_t started = clock();
    result r;
    j.takers = division == ALL ? 1 : division == TENSOR8 ? RANKS_PER_HOST : ranks;
    j.host_of = calloc((size_t)ranks, sizeof *j.host_of);
    j.taker_of = calloc((size_t)ranks, sizeof *j.taker_of);
    uint64_t *lists = calloc((size_t)ranks, sizeof *lists); /* the number of each rank's */
    for (int i = 0; i < ranks && j.host_of && lists; i++) {
        j.host_of[i] = i / RANKS_PER_HOST;
        lists[i] = (uint64_t)(i % j.takers);
    }
    bool ready = j.host_of && j.taker_of && lists && plan_first_alike(lists, 1, ranks, j.taker_of);
    free(lists);
    if (!ready) {
        free(j.host_of);
        free(j.taker_of);
        return false;
    }
    add_model(&j, m);
    j.plan.ranks = ranks;
    j.plan.takers = j.takers;
    j.plan.host_of = j.host_of;
    j.plan.taker_of = j.taker_of;
    bool good = !j.full && plan_make(&j.plan, j.wants, j.want_count, 1 << 20);
    if (good) {
        uint64_t part = j.plan.total / 64 / (uint64_t)j.plan.readers;
        j.plan.chunk = part < 1 << 20 ? 1 << 20 : part > 16 << 20 ? 16 << 20 : part;
        good = walk_plan(&j.plan, &r);
    }
    if (good) {
        double total = (double)j.plan.total / 8, mean = total / j.plan.readers;
        double volume = r.least > 0 ? r.arrived / r.least : 1;
        double crossed = r.least_crossed > 0 ? r.crossed / r.least_crossed : 1;
        double imbalance = (r.most_read / mean - 1) * 100;
        printf("| %s | %d | %s | %.1f | %.3f | %.2f%% | %.4f | %.4f | %.0f | %.1f | %.2f |\n",
               m->name, ranks, division_names[division], total / 1e9, mean / 1e9, imbalance, volume,
               crossed, r.messages, (double)plan_bytes(&j.plan) / 1e6,
               (double)(clock() - started) / CLOCKS_PER_SEC);
        fflush(stdout);
        *holds = *holds && imbalance < 2 && volume < 1.05 && crossed < 1.05 && r.trees;
    }
    free(j.wants);
    free(j.host_of);
    free(j.taker_of);
    plan_free(&j.plan);
    return good;
}

int main(int argc, char **argv) {
    int most = argc > 1 ? atoi(argv[1]) : 1024;
    bool holds = true;
    printf("| model | ranks | who wants what | read, GB | by each | imbalance | volume | between "
           "hosts | "
           "messages | plan, MB | s |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        for (int ranks = 8; ranks <= most && ranks <= 1024; ranks *= ranks == 64 ? 16 : 8)
            for (int d = ALL; d <= EXPERTS; d++) {
                bool experts = models[m].experts;
                if ((d == TENSOR && (experts || ranks > 64)) || (d == EXPERTS && !experts) ||
                    (d == TENSOR8 && ranks < 8))
                    continue;
                if (!one_row(&models[m], ranks, (enum division)d, &holds)) {
                    fprintf(stderr, "out of memory\n");
                    return 1;
                }
            }
    printf("\n%s: imbalance under 2%%, volume within 1.05 of the least, trees reach all\n",
           holds ? "holds" : "DOES NOT HOLD");
    return !holds;
}
