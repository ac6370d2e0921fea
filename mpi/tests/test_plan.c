/*
 * The plan by itself, for random jobs, compared with counting unit by unit: each unit that somebody
 * wants is read once, by one rank; each rank is sent each unit that it wants once, and no other,
 * unless the stream was cut from its first unit to its last; messages and chunks have the sizes
 * that they are said to have. Also jobs for which planning must not take quadratic time.
 *     test_plan [ROUNDS [FIRST]]
 * No MPI, no files.
 */
#include "tenmap_mpi_plan.h"

#include <stdio.h>
#include <time.h>

static uint64_t state;
static uint64_t round_number;

static uint32_t roll(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (uint32_t)(state >> 32) % below : 0;
}

static void expect(bool good, const char *rule) {
    if (good)
        return;
    fprintf(stderr, "round %llu: FAILED: %s\n", (unsigned long long)round_number, rule);
    exit(1);
}

enum { MOST_STREAMS = 3, MOST_WANTS = 3000, MOST_RANKS = 16 };

typedef struct job {
    plan p;
    plan_want wants[MOST_WANTS], drawn[MOST_WANTS]; /* the plan's, and as they were */
    size_t count;
    plan_stream as_drawn[MOST_STREAMS];
    int host_of[MOST_RANKS], taker_of[MOST_RANKS];
    uint16_t *asked[MOST_STREAMS]; /* for each unit: a bit for each taker that wants it, */
    uint16_t *sent[MOST_STREAMS];  /* that it was sent to, */
    unsigned char *read[MOST_STREAMS];
} job;

/* Few axes or many, few boxes or so many that the stream is cut as one axis. */
static void draw_stream(job *j, size_t i, uint32_t kind) {
    static const uint32_t bits[] = {4, 6, 8, 16, 32, 64};
    plan_stream *s = &j->p.streams[i];
    s->axes = kind == 0 ? 1 + roll(5) : kind == 1 ? 2 : 1;
    for (uint32_t d = 0; d < s->axes; d++)
        s->dims[d] = kind == 0 ? 1 + roll(s->axes > 2 ? 6 : 40) : kind == 1 ? 300 : 6000;
    s->wire_bits = bits[roll(6)];
    s->read_bits = bits[roll(6)];
    s->step = s->wire_bits % 8 || s->read_bits % 8 ? 8 : 1;
    if (kind == 0 && roll(5) == 0)
        s->step = s->dims[s->axes - 1];
}

static void draw_wants(job *j, size_t i, uint32_t kind) {
    const plan_stream *s = &j->p.streams[i];
    uint32_t n = kind == 0 ? 1 + roll(roll(3) ? 6 : 60) : kind == 1 ? 300 : 2900;
    bool rows = roll(3) == 0; /* whole rows along the first axis */
    for (; n > 0 && j->count < MOST_WANTS; n--) {
        plan_want *w = &j->wants[j->count++];
        memset(w, 0, sizeof *w);
        w->stream = i;
        w->taker = roll((uint32_t)j->p.takers);
        for (uint32_t d = 0; d < s->axes; d++) {
            uint32_t extent = (uint32_t)s->dims[d], a = roll(extent);
            uint32_t most = kind == 2 ? 2 : extent - a;
            w->box.begin[d] = a;
            w->box.end[d] = a + 1 + roll(most < extent - a ? most : extent - a);
            if (d > 0 && rows) {
                w->box.begin[d] = 0;
                w->box.end[d] = extent;
            }
        }
    }
}

static void draw_job(job *j) {
    uint32_t kind = roll(40) == 0 ? 1 : roll(40) == 0 ? 2 : 0;
    memset(j, 0, sizeof *j);
    j->p.ranks = kind == 2 ? MOST_RANKS : 1 + (int)roll(MOST_RANKS);
    j->p.takers = kind == 2 ? j->p.ranks : 1 + (int)roll((uint32_t)j->p.ranks);
    uint32_t together = 1 + roll(4);
    for (int r = 0; r < j->p.ranks; r++) {
        j->host_of[r] = r / (int)together;
        j->taker_of[r] = r < j->p.takers ? r : (int)roll((uint32_t)j->p.takers);
    }
    j->p.host_of = j->host_of;
    j->p.taker_of = j->taker_of;
    j->p.stream_count = kind ? 1 : 1 + roll(MOST_STREAMS);
    j->p.streams = calloc(MOST_STREAMS, sizeof *j->p.streams);
    expect(j->p.streams, "memory");
    for (size_t i = 0; i < j->p.stream_count; i++) {
        draw_stream(j, i, kind);
        draw_wants(j, i, kind);
        j->as_drawn[i] = j->p.streams[i];
    }
    j->p.chunk = kind ? 4096 + roll(20000) : 64 + roll(2000);
    memcpy(j->drawn, j->wants, sizeof j->drawn);
}

static bool in_box(const plan_stream *s, const plan_box *box, uint64_t unit) {
    for (uint32_t d = s->axes; d-- > 0; unit /= s->dims[d])
        if (unit % s->dims[d] < box->begin[d] || unit % s->dims[d] >= box->end[d])
            return false;
    return true;
}

static void mark_asked(job *j) {
    for (size_t i = 0; i < j->p.stream_count; i++) {
        size_t units = (size_t)j->p.streams[i].units;
        j->asked[i] = calloc(units, sizeof *j->asked[i]);
        j->sent[i] = calloc(units, sizeof *j->sent[i]);
        j->read[i] = calloc(units, 1);
        expect(j->asked[i] && j->sent[i] && j->read[i], "memory");
        for (size_t w = 0; w < j->count; w++)
            for (uint64_t u = 0; u < units && j->drawn[w].stream == i; u++)
                if (in_box(&j->as_drawn[i], &j->drawn[w].box, u))
                    j->asked[i][u] |= (uint16_t)(1u << j->drawn[w].taker);
    }
}

/* The runs of a piece, as they are packed and placed. */
static void check_piece(job *j, const plan_chunk *c, const plan_piece *piece) {
    const plan_segment *seg = &c->segments[piece->segment];
    const plan_stream *s = &j->p.streams[seg->stream];
    const plan_cell *cell = &j->p.cells[piece->cell];
    const plan_message *m = &c->messages[piece->message];
    uint64_t begin, end, units = 0;
    uint16_t set = (uint16_t)j->p.sets[cell->group * j->p.words];
    expect(m->group == cell->group, "a piece is in the message of its group");
    expect(piece->at + plan_room(s, piece->units) <= m->bytes - 1, "a piece is in its message");
    for (uint64_t at = seg->begin; plan_run(s, &cell->box, at, &begin, &end) && begin < seg->end;
         at = end) {
        end = end < seg->end ? end : seg->end;
        units += end - begin;
        for (uint64_t u = begin; u < end; u++) {
            expect((j->sent[seg->stream][u] & set) == 0, "nobody is sent a unit twice");
            j->sent[seg->stream][u] |= set;
        }
    }
    expect(units == piece->units, "a piece has as many units as it says");
}

/* The runs of a segment, as they are read. */
static void check_segment(job *j, const plan_chunk *c, const plan_segment *seg) {
    const plan_stream *s = &j->p.streams[seg->stream];
    uint64_t begin, end;
    expect(seg->at + plan_room(s, seg->end - seg->begin) <= c->bytes, "a segment is in its chunk");
    for (uint64_t at = seg->begin;
         plan_wanted_run(&j->p, s, at, seg->end, &begin, &end) && begin < seg->end; at = end) {
        end = end < seg->end ? end : seg->end;
        for (uint64_t u = begin; u < end; u++)
            expect(j->read[seg->stream][u]++ == 0, "no unit is read twice");
    }
}

/* From the reader to each member once, as each of them sees it. */
static void check_tree(const job *j, uint32_t group, int reader) {
    const plan_group *g = &j->p.groups[group];
    int scratch[MOST_RANKS + 1], queue[MOST_RANKS + 1] = {reader}, from[MOST_RANKS + 1] = {-1};
    size_t count = 1, members = 0;
    for (size_t i = 0; i < g->members; i++)
        members += j->p.members[g->member + i] != reader;
    for (size_t i = 0; i < count; i++) {
        plan_route route;
        plan_find_route(&j->p, group, reader, queue[i], scratch, &route);
        expect(route.parent == from[i], "a rank waits for the one that sends to it");
        for (int k = 0; k < route.children; k++) {
            expect(count <= members, "a tree reaches nobody twice");
            from[count] = queue[i];
            queue[count++] = route.child[k];
        }
    }
    for (size_t i = 1; i < count; i++)
        expect(plan_has(j->p.sets + group * j->p.words, j->taker_of[queue[i]]), "members only");
    expect(count == members + 1, "a tree reaches every member");
}

static void walk_all(job *j) {
    plan_walk walk;
    plan_chunk c;
    bool more;
    uint64_t read = 0;
    memset(&c, 0, sizeof c);
    expect(plan_walk_begin(&walk, &j->p), "memory");
    for (int k = 0; k < j->p.readers; k++) {
        plan_place at = plan_border(&j->p, k), end = plan_border(&j->p, k + 1);
        while (plan_place_before(at, end)) {
            expect(plan_next(&j->p, &walk, &at, end, &c, &more), "memory");
            expect(c.message_count < PLAN_MESSAGES, "messages have tags");
            for (size_t i = 0; i < c.segment_count; i++)
                check_segment(j, &c, &c.segments[i]);
            for (size_t i = 0; i < c.piece_count; i++)
                check_piece(j, &c, &c.pieces[i]);
            for (size_t i = 0; i < c.message_count; i++)
                check_tree(j, c.messages[i].group, j->p.reader[k]);
            read += c.read;
        }
    }
    expect(read == j->p.total, "all that is wanted is read, and no more");
    expect(plan_bytes(&j->p) > 0, "it takes some memory");
    plan_chunk_free(&c);
    plan_walk_free(&walk);
}

static void one_round(job *j) {
    state = round_number * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 5; i++)
        (void)roll(1);
    draw_job(j);
    expect(plan_make(&j->p, j->wants, j->count, 1 + roll(500)), "memory");
    mark_asked(j);
    walk_all(j);
    for (size_t i = 0; i < j->p.stream_count; i++) {
        const plan_stream *s = &j->p.streams[i];
        bool exact = s->axes == j->as_drawn[i].axes && !(s->cells == 1 && s->axes == 1);
        for (uint64_t u = 0; u < s->units; u++) {
            uint16_t asked = j->asked[i][u], sent = j->sent[i][u];
            expect((asked & ~sent) == 0, "everybody is sent what it wants");
            expect(!exact || sent == asked, "nobody is sent what it does not want");
            expect((sent != 0) == j->read[i][u], "what is sent was read");
        }
        free(j->asked[i]);
        free(j->sent[i]);
        free(j->read[i]);
    }
    plan_free(&j->p);
}

enum { EXPERTS = 256, SLICES = 8, MOST_SECONDS = 10 };

/*
 * Limits processor time, so a busy machine does not matter; quadratic time would take minutes here.
 */
static void expect_in_time(clock_t began, const char *rule) {
    expect(clock() - began < MOST_SECONDS * CLOCKS_PER_SEC, rule);
}

/*
 * Takers want half of the columns of each expert, one by one: many cells, each with a run in every
 * row.
 */
static void test_columns_of_experts(void) {
    enum { ROWS = 512, COLUMNS = 512, TAKEN = COLUMNS / SLICES / 2 };
    static plan_want wants[EXPERTS * SLICES];
    int host_of[SLICES], taker_of[SLICES];
    plan p = {.ranks = SLICES, .takers = SLICES, .host_of = host_of, .taker_of = taker_of};
    plan_chunk c = {0};
    plan_walk walk;
    bool more;
    uint64_t begin, end, runs = 0;
    clock_t began = clock();
    p.streams = calloc(1, sizeof *p.streams);
    expect(p.streams, "memory");
    p.stream_count = 1;
    p.streams[0] = (plan_stream){.axes = 4,
                                 .dims = {1, EXPERTS, ROWS, COLUMNS},
                                 .wire_bits = 16,
                                 .read_bits = 16,
                                 .step = 1};
    for (uint32_t i = 0; i < EXPERTS * SLICES; i++) {
        uint64_t expert = i / SLICES, column = i % SLICES * 2 * TAKEN;
        host_of[i % SLICES] = taker_of[i % SLICES] = (int)(i % SLICES);
        wants[i] =
            (plan_want){.taker = i % SLICES,
                        .box = {{0, expert, 0, column}, {1, expert + 1, ROWS, column + TAKEN}}};
    }
    expect(plan_make(&p, wants, EXPERTS * SLICES, 1 << 20) && plan_walk_begin(&walk, &p), "memory");
    p.chunk = 1 << 20;
    for (int k = 0; k < p.readers; k++)
        for (plan_place at = plan_border(&p, k), last = plan_border(&p, k + 1);
             plan_place_before(at, last);) {
            expect(plan_next(&p, &walk, &at, last, &c, &more), "memory");
            const plan_segment *seg = &c.segments[0];
            for (uint64_t u = seg->begin;
                 plan_wanted_run(&p, p.streams, u, seg->end, &begin, &end) && begin < seg->end;
                 u = end, runs++)
                expect_in_time(began, "a run is found without a look at all cells");
        }
    expect(runs == EXPERTS * ROWS * SLICES, "each row has a run of each slice");
    plan_chunk_free(&c);
    plan_walk_free(&walk);
    plan_free(&p);
}

/* As many hosts as ranks, and each rank wants something different. */
static void test_many_ranks(void) {
    enum { RANKS = 100000 };
    int *numbers = malloc(RANKS * sizeof *numbers);
    plan p = {.ranks = RANKS, .takers = 1, .host_of = numbers};
    clock_t began = clock();
    expect(numbers, "memory");
    for (int r = 0; r < RANKS; r++)
        numbers[r] = RANKS - 1 - r;
    expect(plan_order_ranks(&p), "memory");
    for (int r = 0; r < RANKS; r++)
        expect(p.reader[r] == RANKS - 1 - r && p.by_host[r] == RANKS - 1 - r, "hosts in order");
    expect_in_time(began, "ranks are ordered by hosts without a look at all for each");
    plan_free(&p);
    uint64_t *heads = calloc(3 * (size_t)RANKS, sizeof *heads);
    expect(heads, "memory");
    for (size_t r = 0; r < RANKS; r++)
        heads[3 * r + 2] = r % (RANKS - 5);
    expect(plan_first_alike(heads, 3, RANKS, numbers), "memory");
    for (int r = 0; r < RANKS; r++)
        expect(numbers[r] == r % (RANKS - 5), "the first rank that has the same list");
    expect_in_time(began, "lists are compared without a look at all for each");
    free(heads);
    free(numbers);
}

int main(int argc, char **argv) {
    static job j;
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    for (round_number = first; round_number < first + rounds; round_number++)
        one_round(&j);
    test_columns_of_experts();
    test_many_ranks();
    printf("the plan: %llu random jobs, each unit read once and sent once\n",
           (unsigned long long)rounds);
    return 0;
}
