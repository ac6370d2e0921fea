/*
 * Every destination byte is the one that tenmap_load writes; each wanted byte is read once; memory
 * stays within eight chunks. Random schedules: whole tensors, blocks, overlaps, nothing at all,
 * every dtype, mapped, read and counted (tenmap_io) models, one file and two.
 *     mpirun -n N test_equal FOLDER RANKS_PER_HOST ROUNDS [FIRST]
 * With TEST_MPI_SINGLE set, MPI is told that there are no threads.
 */
#include "io_files.h"
#include "mpi_model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAPPED, READ, COUNTED, WAYS };

static int rank, failures;
static uint64_t total_read, total_once;

/* The linker redirects pthread_create of the library and tenmap_mpi.c to this. */
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int threads;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *ctx) {
    __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    return __real_pthread_create(thread, attributes, run, ctx);
}

/* If MPI was told that there are no threads, none may have been started. */
static bool thread_rule_holds(int before) {
    return !getenv("TEST_MPI_SINGLE") || threads == before;
}

static void expect(bool good, const char *rule, uint64_t round) {
    if (good)
        return;
    fprintf(stderr, "rank %d, round %llu: FAILED: %s\n", rank, (unsigned long long)round, rule);
    failures++;
}

/* The bytes that all ranks read in the load, of those that somebody wants. */
static void expect_read_once(const load_case *c, uint64_t once, uint64_t read, uint64_t round) {
    bool twice = false; /* U8 and BF16 of the same tensor are two streams */
    for (size_t i = 0; i < c->count; i++)
        twice = twice || c->requests[i].stored_as;
    uint64_t all[2] = {read, twice};
    MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    /*
     * Bits at the edges of runs are read with their bytes: allow 1%, and some bytes if little is
     * wanted.
     */
    if (!all[1] && all[0] > once + once / 100 + 256) {
        fprintf(stderr, "read %llu of %llu\n", (unsigned long long)all[0],
                (unsigned long long)once);
        expect(false, "each byte is read once", round);
    }
    if (rank == 0 && !all[1]) {
        total_read += all[0];
        total_once += once;
    }
}

static void expect_equal(const load_case *c, uint64_t round) {
    long differs = compare_case(c);
    if (differs >= 0) {
        const tenmap_request *r = &c->requests[differs];
        fprintf(stderr, "rank %d: request %ld: %s as %u\n", rank, differs, r->tensor->name,
                (unsigned)r->as);
    }
    expect(differs < 0, "every byte as tenmap_load's", round);
}

static tenmap_model *open_model(const char *folder, uint32_t which, uint32_t way, io_files *files) {
    tenmap_io io = io_files_io(files);
    tenmap_options open = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error = {0};
    const char *path = model_path(folder, which, &open);
    open.backend = way == READ ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
    open.io = way == COUNTED ? &io : NULL;
    int before = threads;
    if (tenmap_mpi_open(MPI_COMM_WORLD, path, &open, &model, &error) != TENMAP_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, error.message);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    expect(thread_rule_holds(before), "no thread opens where MPI allows none", which);
    return model;
}

static void one_round(const char *folder, uint32_t ranks_per_host, uint64_t round) {
    /* Not too many chunks: with few processors, each step waits for every rank to be scheduled. */
    static const uint64_t chunks[] = {4096, 20000, 50000, 65536, 200000, 1 << 20, 0};
    static load_case c;
    tenmap_error error = {0};
    io_files files = {0};
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    tenmap_mpi_counts counts = {0};
    seed_rolls(round * 7919 + 13);
    uint32_t which = roll(MODELS), way = roll(WAYS);
    bool whole = roll(6) == 0;
    options.chunk_bytes = chunks[whole ? 3 + roll(4) : roll(7)];
    options.ranks_per_host = ranks_per_host;
    options.counts = &counts;
    tenmap_dtype as = roll(2) ? TENMAP_BF16 : TENMAP_AS_STORED;
    tenmap_model *model = open_model(folder, which, way, &files);
    seed_rolls(whole ? round + 99 : round * 131 + (uint64_t)rank * 17 + 5);
    if (whole)
        whole_case(&c, model, as);
    else
        draw_case(&c, model);
    bool counted = way == COUNTED && which != CODED; /* whose parts no request names */
    uint64_t once = counted ? bytes_wanted_once(MPI_COMM_WORLD, model, &c) : 0;
    uint64_t read = files.bytes;
    int before = threads;
    tenmap_status status =
        tenmap_mpi_load(MPI_COMM_WORLD, model, c.requests, c.count, &options, &error);
    read = files.bytes - read;
    expect(status == TENMAP_OK, error.message, round);
    expect(thread_rule_holds(before), "no thread reads where MPI allows none", round);
    expect_equal(&c, round);
    if (counted)
        expect_read_once(&c, once, read, round);
    if (options.chunk_bytes && counts.buffers > 8 * (options.chunk_bytes + 65536))
        expect(false, "at most eight chunks in memory", round);
    free_case(&c);
    tenmap_close(model);
}

/* The number of hosts that MPI reports. */
static int count_hosts(void) {
    MPI_Comm host;
    int first, hosts;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &first);
    first = first == 0;
    MPI_Allreduce(&first, &hosts, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&host);
    return hosts;
}

int main(int argc, char **argv) {
    int level, size, all;
    if (argc < 4)
        return 2;
    const char *single = getenv("TEST_MPI_SINGLE");
    MPI_Init_thread(&argc, &argv, single ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        write_models(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t first = argc > 4 ? strtoull(argv[4], NULL, 10) : 0,
             rounds = strtoull(argv[3], NULL, 10);
    for (uint64_t round = first; round < first + rounds; round++)
        one_round(argv[1], (uint32_t)strtoul(argv[2], NULL, 10), round);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    int told = atoi(argv[2]), hosts = told ? (size + told - 1) / told : count_hosts();
    if (rank == 0)
        printf("%d ranks on %d hosts%s: %llu rounds, %d failures; read %.4f of what was wanted\n",
               size, hosts, told ? "" : " by MPI's word", (unsigned long long)rounds, all,
               total_once ? (double)total_read / (double)total_once : 1);
    MPI_Finalize();
    return all != 0;
}
