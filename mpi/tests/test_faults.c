/*
 * If one rank fails, all return the same status and the same message, and none hangs: shards that
 * are missing, truncated, changed, different; wrong arguments; options that differ; memory that
 * runs out, at each allocation; cancelling; any of these at random. Also tests that there is one
 * copy per host.
 *     mpirun -n N test_faults FOLDER RANKS_PER_HOST SCHEDULES [EVERY]
 * EVERY: only every so many-th read and allocation fails in turn.
 */
#define _POSIX_C_SOURCE 200809L
#include "io_files.h"
#include "mpi_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int rank, size, failures;
static uint32_t ranks_per_host;
static double longest; /* load that failed, in seconds */
static load_case c;
static int statuses[4]; /* of the schedules: those that went well, then by what failed */

/* The linker redirects the allocations of the library and of tenmap_mpi.c to these. */
void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
static long allocations, fails_at = -1;

static bool out_of_memory(void) {
    return fails_at >= 0 && __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED) == fails_at;
}

void *__wrap_malloc(size_t n) {
    return out_of_memory() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t m) {
    return out_of_memory() ? NULL : __real_calloc(n, m);
}
void *__wrap_realloc(void *p, size_t n) {
    return out_of_memory() ? NULL : __real_realloc(p, n);
}

static void expect(bool good, const char *rule) {
    if (good)
        return;
    fprintf(stderr, "rank %d: FAILED: %s\n", rank, rule);
    failures++;
}

/* All ranks have the same message and the same status, which is this one (-1: any). */
static void expect_same(tenmap_status status, const tenmap_error *error, tenmap_status expected,
                        const char *fragment, const char *rule) {
    tenmap_error first = *error;
    int32_t others[2] = {status, -status};
    MPI_Allreduce(MPI_IN_PLACE, others, 2, MPI_INT32_T, MPI_MAX, MPI_COMM_WORLD);
    MPI_Bcast(&first, (int)sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD);
    bool good = others[0] == -others[1] && (expected < 0 || status == expected);
    if (status != TENMAP_OK)
        good = good && memcmp(&first, error, sizeof first) == 0 && strstr(error->message, fragment);
    if (!good)
        fprintf(stderr, "rank %d: %s: %s\n", rank, tenmap_status_name(status), error->message);
    expect(good, rule);
}

static tenmap_mpi_options plain_options(void) {
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    options.ranks_per_host = ranks_per_host;
    options.chunk_bytes = 8192;
    return options;
}

/* The load of this rank's case, and how long it took. */
static tenmap_status load_it(const tenmap_model *model, const tenmap_mpi_options *options,
                             tenmap_error *error) {
    double started = MPI_Wtime();
    memset(error, 0, sizeof *error);
    tenmap_status status =
        tenmap_mpi_load(MPI_COMM_WORLD, model, c.requests, c.count, options, error);
    double took = MPI_Wtime() - started;
    longest = status != TENMAP_OK && took > longest ? took : longest;
    return status;
}

static tenmap_model *open_own(const char *path, uint32_t backend) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL;
    tenmap_error error = {0};
    options.backend = backend;
    if (tenmap_open(path, &options, &model, &error) != TENMAP_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, error.message);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return model;
}

/* Rank 0 copies a file; the first `from` becomes `to`, which is as long. */
static void copy_file(const char *source, const char *target, const char *from, const char *to) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        FILE *in = fopen(source, "rb"), *out = fopen(target, "wb");
        static char bytes[1 << 16];
        size_t n = in ? fread(bytes, 1, sizeof bytes, in) : 0;
        for (size_t i = 0; from && i + strlen(from) <= n; i++)
            if (memcmp(bytes + i, from, strlen(from)) == 0) {
                memcpy(bytes + i, to, strlen(to));
                break;
            }
        for (; n > 0 && out; n = fread(bytes, 1, sizeof bytes, in))
            fwrite(bytes, 1, n, out);
        if (!in || !out || fclose(out) != 0)
            MPI_Abort(MPI_COMM_WORLD, 3);
        fclose(in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The last rank's file is not the others'. */
static void expect_refused(const char *folder, const char *good, const char *bad,
                           tenmap_status expected, const char *fragment, const char *rule) {
    char path[4096];
    tenmap_model *model;
    tenmap_error error = {0};
    snprintf(path, sizeof path, "%s/%s", folder, rank == size - 1 ? bad : good);
    tenmap_status status = tenmap_mpi_open(MPI_COMM_WORLD, path, NULL, &model, &error);
    expect_same(status, &error, expected, fragment, rule);
    expect(model == NULL, "no rank has a model then");
}

static void test_open(const char *folder) {
    char good[4096], bad[4096];
    expect_refused(folder, "model.safetensors", "absent", TENMAP_ERR_NOT_FOUND, "absent",
                   "a file that one rank lacks");
    expect_refused(folder, "model.safetensors", "parts", TENMAP_ERR_FORMAT,
                   "is not the model that rank 0 has", "another file on one rank");
    snprintf(good, sizeof good, "%s/model.safetensors", folder);
    snprintf(bad, sizeof bad, "%s/other.safetensors", folder);
    copy_file(good, bad, "\"BOOL.1\"", "\"BOOL.x\"");
    expect_refused(folder, "model.safetensors", "other.safetensors", TENMAP_ERR_FORMAT,
                   "its header differs", "a file of the same size on one rank");
    if (rank == 0 && truncate(bad, 100000) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    expect_refused(folder, "model.safetensors", "other.safetensors", -1, "other.safetensors",
                   "a file that is cut short on one rank");
    snprintf(bad, sizeof bad, "%s/lacking", folder);
    if (rank == 0 && mkdir(bad, 0777) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    static const char *const names[] = {"model.safetensors.index.json",
                                        "model-00001-of-00002.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(good, sizeof good, "%s/parts/%s", folder, names[i]);
        snprintf(bad, sizeof bad, "%s/lacking/%s", folder, names[i]);
        copy_file(good, bad, NULL, NULL);
    }
    expect_refused(folder, "parts", "lacking", TENMAP_ERR_NOT_FOUND, "00002-of-00002",
                   "a shard that one rank lacks");
}

static void test_arguments(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    tenmap_model *model = open_own(path, TENMAP_BACKEND_MAP);
    seed_rolls(3);
    whole_case(&c, model, TENMAP_AS_STORED);
    for (int i = 0; i < 6; i++) {
        tenmap_mpi_options options = plain_options();
        tenmap_error error = {0};
        tenmap_request old = c.requests[2];
        bool mine = rank == 1;
        if (mine && i == 0)
            options.chunk_bytes = 4096;
        if (mine && i == 1)
            options.ranks_per_host = 77;
        if (mine && i == 2)
            options.flags = TENMAP_LOAD_DIRECT;
        if (mine && i == 3)
            options.struct_size = 3;
        if (mine && i == 4)
            c.requests[2].dst_bytes = 0;
        static const tenmap_status expected[] = {TENMAP_ERR_ARGUMENT, TENMAP_ERR_ARGUMENT,
                                                 TENMAP_ERR_ARGUMENT, TENMAP_ERR_ARGUMENT,
                                                 TENMAP_ERR_BUFFER,   TENMAP_ERR_ARGUMENT};
        tenmap_status status = tenmap_mpi_load(MPI_COMM_WORLD, mine && i == 5 ? NULL : model,
                                               c.requests, c.count, &options, &error);
        expect_same(status, &error, expected[i], "rank 1: ", "arguments are agreed on");
        c.requests[2] = old;
    }
    free_case(&c);
    tenmap_close(model);
}

/* Cancels on one rank, once so many percent are done. */
typedef struct cancelling {
    int rank;
    uint64_t percent;
} cancelling;

static int cancel_late(void *ctx, uint64_t done, uint64_t total) {
    const cancelling *when = ctx;
    return rank == when->rank && done * 100 >= total * when->percent;
}

static void test_cancel(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    tenmap_model *model = open_own(path, TENMAP_BACKEND_READ);
    seed_rolls(3);
    whole_case(&c, model, TENMAP_AS_STORED);
    for (int who = 0; who < size; who++) {
        tenmap_mpi_options options = plain_options();
        tenmap_error error;
        cancelling when = {who, 33};
        options.progress = cancel_late;
        options.ctx = &when;
        options.chunk_bytes = 32768;
        tenmap_status status = load_it(model, &options, &error);
        expect_same(status, &error, TENMAP_ERR_CANCELLED, "cancelled", "one rank cancels for all");
    }
    free_case(&c);
    tenmap_close(model);
}

static bool is_any(const tenmap_tensor *t) {
    return t != NULL;
}

static bool is_packed(const tenmap_tensor *t) {
    return tenmap_dtype_bits(t->dtype) % 8 != 0;
}

static bool is_deep(const tenmap_tensor *t) {
    return t->rank > 8;
}

/* Only rank 1 maps this copy of the model, which is truncated or changed while it is open. */
static void test_changed(const char *folder, const char *name, bool cut,
                         bool (*which)(const tenmap_tensor *)) {
    char path[4096], copy[4096];
    tenmap_mpi_options options = plain_options();
    tenmap_error error;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(copy, sizeof copy, "%s/changing-%s", folder, name);
    copy_file(path, copy, NULL, NULL);
    tenmap_model *model = open_own(rank == 1 ? copy : path, TENMAP_BACKEND_MAP);
    seed_rolls(3);
    whole_case(&c, model, TENMAP_AS_STORED);
    keep_requests(&c, which);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && cut && truncate(copy, 100000) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (!cut) {
        FILE *f = rank == 0 ? fopen(copy, "r+b") : NULL;
        nanosleep(&(struct timespec){0, 20000000}, NULL); /* for another time of the file */
        if (f && (fseek(f, -1, SEEK_END) != 0 || fputc(1, f) == EOF || fclose(f) != 0))
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    options.chunk_bytes = which == is_any ? 32768 : 8192;
    tenmap_status status = load_it(model, &options, &error);
    expect_same(status, &error, TENMAP_ERR_IO, "rank 1: ",
                cut ? "a file that is cut on one rank" : "a file that changes on one rank");
    free_case(&c);
    tenmap_close(model);
}

/* A model behind a store that can fail. */
static tenmap_model *open_store(const char *folder, uint32_t which, io_files *files) {
    tenmap_io io = io_files_io(files);
    tenmap_options open = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL;
    tenmap_error error = {0};
    const char *path = model_path(folder, which, &open);
    open.io = &io;
    if (tenmap_mpi_open(MPI_COMM_WORLD, path, &open, &model, &error) != TENMAP_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return model;
}

/* Whether rank 1 reached the call that was to fail, told to all ranks. */
static bool was_reached(long calls, long fail_at) {
    int reached = calls >= fail_at;
    MPI_Bcast(&reached, 1, MPI_INT, 1, MPI_COMM_WORLD);
    return reached;
}

/* Each read of the store fails in turn on one rank. */
static void test_reads(const char *folder, long every) {
    io_files files = {.fail_with = TENMAP_ERR_IO, .message = "the store is gone"};
    tenmap_model *model = open_store(folder, BLOCKS, &files);
    tenmap_mpi_options options = plain_options();
    tenmap_error error;
    bool reached = true;
    long n;
    options.chunk_bytes = 32768;
    seed_rolls(50);
    whole_case(&c, model, TENMAP_BF16);
    for (n = 1; reached; n += every) {
        files.calls = 0;
        files.fail_at = rank == 1 ? n : 0;
        tenmap_status status = load_it(model, &options, &error);
        reached = was_reached(files.calls, n);
        expect_same(status, &error, reached ? TENMAP_ERR_IO : TENMAP_OK,
                    "rank 1: ", "a read that fails");
    }
    expect(compare_case(&c) < 0, "after the last one that can fail, it works");
    if (rank == 0)
        printf("each of %ld reads failed, by %ld\n", n - every - 1, every);
    free_case(&c);
    tenmap_close(model);
}

/*
 * Each allocation fails in turn on one rank. If the library can do without it, the call may
 * succeed.
 */
static void test_memory(const char *folder, long every, bool in_common) {
    io_files files = {0};
    tenmap_model *model = open_store(folder, in_common ? CODED : BLOCKS, &files);
    tenmap_mpi_options options = plain_options();
    tenmap_mpi_shared *shared = NULL;
    tenmap_error error;
    bool reached = true;
    long n;
    options.chunk_bytes = 1 << 17;
    seed_rolls(50);
    whole_case(&c, model, rank ? TENMAP_BF16 : TENMAP_F32);
    for (size_t i = 0; i < c.count && in_common; i++)
        c.requests[i].dst_stride = 0;
    for (n = 1; reached; n += every) {
        allocations = 0;
        fails_at = rank == 1 ? n : -1;
        tenmap_status status = in_common
                                   ? tenmap_mpi_load_shared(MPI_COMM_WORLD, model, c.requests,
                                                            c.count, &options, &shared, &error)
                                   : load_it(model, &options, &error);
        fails_at = -1;
        reached = was_reached(allocations, n);
        expect_same(status, &error, status == TENMAP_OK ? TENMAP_OK : TENMAP_ERR_MEMORY,
                    "rank 1: ", "memory that is out on one rank");
        expect(reached || status == TENMAP_OK, "with memory it works");
        tenmap_mpi_shared_free(shared);
        shared = NULL;
    }
    if (rank == 0)
        printf("%seach of %ld allocations failed, by %ld\n", in_common ? "one copy per host: " : "",
               n - every - 1, every);
    free_case(&c);
    tenmap_close(model);
}

/* One rank or two fail in some way at some time, or none does. */
static void one_schedule(const char *folder, uint64_t round) {
    static const uint64_t chunks[] = {8192, 50000, 65536, 200000};
    io_files files = {.fail_with = TENMAP_ERR_IO, .message = "the store is gone"};
    tenmap_mpi_options options = plain_options();
    tenmap_error error;
    cancelling when = {-1, 0};
    seed_rolls(round * 31 + 7);
    tenmap_model *model = open_store(folder, roll(MODELS), &files);
    options.chunk_bytes = chunks[roll(4)];
    options.ranks_per_host = 1 + roll((uint32_t)size);
    options.progress = cancel_late;
    options.ctx = &when;
    bool reads = roll(3) == 0, memory = roll(3) == 0;
    int read_rank = (int)roll((uint32_t)size), memory_rank = (int)roll((uint32_t)size);
    long fail_at = 1 + (long)roll(roll(2) ? 5 : 60), fails = 1 + (long)roll(roll(2) ? 20 : 200);
    when.rank = roll(3) == 0 ? (int)roll((uint32_t)size) : -1;
    when.percent = roll(100);
    seed_rolls(round * 131 + (uint64_t)rank * 17 + 5);
    draw_case(&c, model);
    files.calls = 0;
    files.fail_at = reads && rank == read_rank ? fail_at : 0;
    allocations = 0;
    fails_at = memory && rank == memory_rank ? fails : -1;
    tenmap_status status = load_it(model, &options, &error);
    fails_at = -1;
    expect_same(status, &error, status, "rank ", "a random schedule");
    expect(status == TENMAP_OK || (status == TENMAP_ERR_IO && reads) ||
               (status == TENMAP_ERR_MEMORY && memory) ||
               (status == TENMAP_ERR_CANCELLED && when.rank >= 0),
           "a status that there is a reason for");
    expect(status != TENMAP_OK || compare_case(&c) < 0, "every byte as tenmap_load's");
    statuses[status == TENMAP_OK           ? 0
             : status == TENMAP_ERR_IO     ? 1
             : status == TENMAP_ERR_MEMORY ? 2
                                           : 3]++;
    free_case(&c);
    tenmap_close(model);
}

/* What one rank of a host writes into the first place, the others that share it read there. */
static void expect_one_copy(void) {
    MPI_Comm host;
    int first, seen, mark = 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank / (int)ranks_per_host, rank, &host);
    MPI_Comm_rank(host, &first);
    unsigned char *place = c.requests[0].dst;
    MPI_Barrier(host);
    if (first == 0)
        mark = place[0] = (unsigned char)(place[0] ^ 255);
    MPI_Bcast(&mark, 1, MPI_INT, 0, host);
    seen = place[0];
    expect(seen == mark, "the ranks of a host have one copy");
    MPI_Barrier(host);
    MPI_Comm_free(&host);
}

static void test_shared(const char *folder, uint32_t which, bool alike) {
    io_files files = {0};
    tenmap_model *model = open_store(folder, which, &files);
    tenmap_mpi_options options = plain_options();
    tenmap_mpi_shared *shared = NULL;
    tenmap_error error = {0};
    options.chunk_bytes = 200000;
    seed_rolls(77 + (uint64_t)(alike ? 0 : rank));
    if (alike)
        whole_case(&c, model, TENMAP_BF16);
    else
        draw_case(&c, model);
    for (size_t i = 0; i < c.count; i++)
        c.requests[i].dst_stride = 0;
    tenmap_status status = tenmap_mpi_load_shared(MPI_COMM_WORLD, model, c.requests, c.count,
                                                  &options, &shared, &error);
    expect_same(status, &error, TENMAP_OK, "", "a shared load");
    for (size_t i = 0; i < c.count && status == TENMAP_OK; i++) {
        tenmap_request again = c.requests[i];
        again.dst = malloc(again.dst_bytes + 1);
        expect(tenmap_load(model, &again, 1, NULL, NULL) == TENMAP_OK &&
                   memcmp(again.dst, c.requests[i].dst, again.dst_bytes) == 0,
               "shared tensors are those of a plain load");
        expect((uintptr_t)c.requests[i].dst % 64 == 0, "places begin at multiples of 64");
        free(again.dst);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (alike && status == TENMAP_OK)
        expect_one_copy();
    tenmap_mpi_shared_free(shared);
    options.chunk_bytes = rank ? 4096 : 8192;
    status = tenmap_mpi_load_shared(MPI_COMM_WORLD, model, c.requests, c.count, &options, &shared,
                                    &error);
    expect_same(status, &error, TENMAP_ERR_ARGUMENT, "chunk_bytes", "options of a shared load");
    expect(shared == NULL, "nothing is shared then");
    free_case(&c);
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
    uint64_t schedules = strtoull(argv[3], NULL, 10);
    long every = argc > 4 ? strtol(argv[4], NULL, 10) : 1;
    if (rank == 0)
        write_models(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    test_open(argv[1]);
    test_arguments(argv[1]);
    test_cancel(argv[1]);
    test_changed(argv[1], "blocks.gguf", true, is_any);
    test_changed(argv[1], "blocks.gguf", false, is_any);
    test_changed(argv[1], "model.safetensors", true, is_packed);
    test_changed(argv[1], "model.safetensors", true, is_deep);
    test_shared(argv[1], ONE_FILE, true);
    test_shared(argv[1], CODED, true);
    test_shared(argv[1], PARTS, false);
    test_reads(argv[1], every);
    test_memory(argv[1], every, false);
    test_memory(argv[1], every, true);
    for (uint64_t round = 0; round < schedules; round++)
        one_schedule(argv[1], round);
    expect(longest < 20, "a load that fails returns in seconds");
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %s a host: %llu schedules (%d went well, %d reads, %d allocations and %d "
               "cancels failed), longest failure %.2f s: %d failures\n",
               size, argv[2], (unsigned long long)schedules, statuses[0], statuses[1], statuses[2],
               statuses[3], longest, all);
    MPI_Finalize();
    return all != 0;
}
