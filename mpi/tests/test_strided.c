/*
 * Tensors that see a storage with strides load over ranks to the bytes that tenmap_load gives in
 * one process, as stored and converted: each is read by some ranks and received by others. Ranks
 * whose files differ in nothing but strides do not open them as one model.
 *     mpirun -n N test_strided FOLDER RANKS_PER_HOST ROUNDS
 * Only the toy container of the tests declares such tensors: this links container.c and
 * toy_container.c with TENMAP_TOY_CONTAINER defined.
 */
#include "io_files.h"
#include "mpi_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORAGE = 300000, MAPPED = 0, READ, COUNTED, WAYS };

static int rank, size, failures;
static uint32_t ranks_per_host;

static void expect(bool good, const char *rule, uint64_t round) {
    if (good)
        return;
    fprintf(stderr, "rank %d, round %llu: FAILED: %s\n", rank, (unsigned long long)round, rule);
    failures++;
}

/* A tensor of the toy file. Strides and the offset are in elements. */
typedef struct view {
    uint32_t rank;
    uint64_t shape[MOST_AXES], strides[MOST_AXES], offset;
} view;

/* Not one of them reaches beyond element 37,000, so that every dtype fits into the storage. */
static const view views[] = {
    {0, {0}, {0}, 5},                         /* a scalar, which is plain */
    {2, {100, 60}, {60, 1}, 0},               /* plain */
    {2, {120, 250}, {1, 120}, 3},             /* transposed */
    {2, {120, 250}, {125, 1}, 3},             /* rows that overlap */
    {1, {5000}, {7}, 1},                      /* every seventh element */
    {2, {70, 90}, {0, 1}, 11},                /* one row many times */
    {2, {90, 70}, {1, 0}, 11},                /* one column many times */
    {3, {8, 60, 44}, {1, 352, 8}, 2},         /* axes in another order */
    {4, {4, 6, 10, 16}, {2, 8, 48, 1000}, 0}, /* likewise, with gaps */
    {2, {0, 16}, {3, 5}, 0},                  /* no elements */
    {2, {33, 5}, {1, 33}, 9},                 /* rows of odd lengths */
    {1, {3000}, {0}, 17},                     /* one element many times */
    {9,
     {2, 1, 2, 1, 2, 3, 1, 4, 8},
     {1, 9, 2, 9, 4, 64, 9, 8, 500},
     0} /* more axes than a plan has */
};
enum { VIEWS = sizeof views / sizeof views[0] };

static unsigned char directory[1 << 16];
static size_t used;

static void put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        directory[used++] = (unsigned char)(value >> 8 * i);
}

static void put_view(tenmap_dtype dtype, int number, const view *v) {
    char name[32];
    int len = snprintf(name, sizeof name, "%s.%d", tenmap_dtype_name(dtype), number);
    put((uint64_t)len, 1);
    memcpy(directory + used, name, (size_t)len);
    used += (size_t)len;
    put(dtype | 0x80, 1);
    put(v->rank, 1);
    for (uint32_t d = 0; d < v->rank; d++)
        put(v->shape[d], 8);
    put(0, 8);
    put(STORAGE, 8);
    put(v->offset, 8);
    for (uint32_t d = 0; d < v->rank; d++)
        put(v->strides[d], 8);
}

/* Writes the storage and a directory of so many tensors, which has been put. */
static void write_toy(const char *folder, const char *name, uint32_t count) {
    char path[4096];
    size_t end = used;
    used = 0;
    put(count, 4);
    used = end;
    put(8 + STORAGE, 8); /* the only piece of the directory */
    put(end, 8);
    put(8 + STORAGE + end, 8); /* the table of the pieces */
    put(1, 8);
    for (int i = 0; i < 8; i++)
        put((unsigned char)"TOYENDS1"[i], 1);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f)
        MPI_Abort(MPI_COMM_WORLD, 3);
    seed_rolls(11);
    fputs("TOYTENS1", f);
    for (int i = 0; i < STORAGE; i++)
        fputc((int)roll(256), f);
    fwrite(directory, 1, used, f);
    fclose(f);
}

/*
 * strided.toy: a storage that tensors of every dtype of whole bytes see. The others have one
 * tensor: by-rows.toy and by-columns.toy differ in its strides only, tall.toy also in its shape.
 */
static void write_toys(const char *folder) {
    static const view by_rows = {2, {64, 64}, {65, 2}, 0}, by_columns = {2, {64, 64}, {2, 65}, 0},
                      tall = {2, {127, 64}, {1, 65}, 0};
    uint32_t count = 0;
    used = 4;
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++)
        for (int i = 0; i < VIEWS && tenmap_dtype_bits(d) % 8 == 0; i++, count++)
            put_view(d, i, &views[i]);
    write_toy(folder, "strided.toy", count);
    used = 4;
    put_view(TENMAP_U16, 0, &by_rows);
    write_toy(folder, "by-rows.toy", 1);
    used = 4;
    put_view(TENMAP_U16, 0, &by_columns);
    write_toy(folder, "by-columns.toy", 1);
    used = 4;
    put_view(TENMAP_U16, 0, &tall);
    write_toy(folder, "tall.toy", 1);
}

static tenmap_model *open_model(const char *folder, uint32_t way, io_files *files) {
    char path[4096];
    tenmap_io io = io_files_io(files);
    tenmap_options open = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error = {0};
    snprintf(path, sizeof path, "%s/strided.toy", folder);
    open.backend = way == READ ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
    open.io = way == COUNTED ? &io : NULL;
    if (tenmap_mpi_open(MPI_COMM_WORLD, path, &open, &model, &error) != TENMAP_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, error.message);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return model;
}

static void load(const tenmap_model *model, load_case *c, uint64_t chunk, tenmap_mpi_counts *counts,
                 uint64_t round) {
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    tenmap_error error = {0};
    options.chunk_bytes = chunk;
    options.ranks_per_host = ranks_per_host;
    options.counts = counts;
    tenmap_status status =
        tenmap_mpi_load(MPI_COMM_WORLD, model, c->requests, c->count, &options, &error);
    expect(status == TENMAP_OK, error.message, round);
    long differs = compare_case(c);
    if (differs >= 0)
        fprintf(stderr, "rank %d: request %ld: %s as %u\n", rank, differs,
                c->requests[differs].tensor->name, (unsigned)c->requests[differs].as);
    expect(differs < 0, "every byte as tenmap_load's", round);
}

/* Random blocks of random tensors, another set on each rank, or none. */
static void random_round(const char *folder, uint64_t round) {
    static const uint64_t chunks[] = {4096, 20000, 65536, 0};
    static load_case c;
    io_files files = {0};
    tenmap_mpi_counts counts = {0};
    seed_rolls(round * 7919 + 13);
    uint32_t way = roll(WAYS);
    uint64_t chunk = chunks[roll(4)];
    tenmap_model *model = open_model(folder, way, &files);
    seed_rolls(round * 131 + (uint64_t)rank * 17 + 5);
    draw_case(&c, model);
    load(model, &c, chunk, &counts, round);
    free_case(&c);
    tenmap_close(model);
}

/*
 * All ranks want everything. With many chunks each rank reads a share and receives the others'. All
 * shares together are what is wanted.
 */
static void whole_round(const char *folder, tenmap_dtype as, uint64_t round) {
    static load_case c;
    io_files files = {0};
    tenmap_mpi_counts counts = {0};
    tenmap_model *model = open_model(folder, (uint32_t)(round % WAYS), &files);
    seed_rolls(round + 99);
    whole_case(&c, model, as);
    expect(c.count > VIEWS * 4, "most tensors are loaded", round);
    load(model, &c, 200000, &counts, round);
    uint64_t all[2] = {counts.read, counts.read > 0};
    MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect(all[0] == counts.wanted, "the shares of all ranks are what is wanted", round);
    expect(all[1] > 1, "several ranks read", round);
    expect(counts.read < counts.wanted && counts.received > 0, "a rank reads only a share", round);
    free_case(&c);
    tenmap_close(model);
}

/* Once per host, into memory that its ranks share; the storage of a tensor can be asked for too. */
static void shared_round(const char *folder, uint64_t round) {
    io_files files = {0};
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    tenmap_mpi_shared *shared = NULL;
    tenmap_error error = {0};
    tenmap_model *model = open_model(folder, READ, &files);
    options.ranks_per_host = ranks_per_host;
    const tenmap_tensor *part = tenmap_part_at(tenmap_find(model, "F32.2"), 0);
    tenmap_request requests[3] = {{.tensor = tenmap_find(model, "F32.2"), .as = TENMAP_F64},
                                  {.tensor = part},
                                  {.tensor = tenmap_find(model, "I64.8")}};
    tenmap_status status =
        tenmap_mpi_load_shared(MPI_COMM_WORLD, model, requests, 3, &options, &shared, &error);
    expect(status == TENMAP_OK, error.message, round);
    for (int i = 0; i < 3 && status == TENMAP_OK; i++) {
        tenmap_request r = requests[i];
        unsigned char *alone = r.dst = malloc(r.dst_bytes);
        expect(alone && tenmap_load(model, &r, 1, NULL, NULL) == TENMAP_OK &&
                   memcmp(alone, requests[i].dst, r.dst_bytes) == 0,
               "shared memory as tenmap_load's", round);
        free(alone);
    }
    tenmap_mpi_shared_free(shared);
    tenmap_close(model);
}

/* Each rank would read its own file, and all would compute with a mixture. */
static void expect_another_model(const char *folder, const char *last, const char *why) {
    char path[4096];
    tenmap_options open = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL;
    tenmap_error error = {0};
    snprintf(path, sizeof path, "%s/%s", folder, rank == size - 1 ? last : "by-rows.toy");
    tenmap_status status = tenmap_mpi_open(MPI_COMM_WORLD, path, &open, &model, &error);
    expect(status == TENMAP_ERR_FORMAT && !model, "another file is another model", 0);
    expect(strstr(error.message, why) != NULL, why, 0);
    tenmap_close(model);
}

int main(int argc, char **argv) {
    int level, all;
    if (argc < 4)
        return 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ranks_per_host = (uint32_t)strtoul(argv[2], NULL, 10);
    uint64_t rounds = strtoull(argv[3], NULL, 10);
    if (rank == 0)
        write_toys(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint64_t round = 0; round < rounds; round++)
        random_round(argv[1], round);
    whole_round(argv[1], TENMAP_AS_STORED, rounds);
    whole_round(argv[1], TENMAP_BF16, rounds + 1);
    shared_round(argv[1], rounds + 2);
    expect_another_model(argv[1], "by-columns.toy", "its weights differ");
    expect_another_model(argv[1], "tall.toy", "its header differs");
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %u on a host: %llu rounds of strided tensors, %d failures\n", size,
               (unsigned)ranks_per_host, (unsigned long long)rounds + 3, all);
    MPI_Finalize();
    return all != 0;
}
