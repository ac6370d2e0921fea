/*
 * Tests what tenmap_mpi.h says about arguments and error messages: invalid communicators, paths
 * that no terminal should see, integers that do not fit, one file with two configurations; ranks
 * that make different calls, requests that change during a load; shared windows that the host has
 * no room for, or that one rank does not get; MPI that fails. All communicators must be freed.
 *     mpirun -n N test_contract FOLDER
 */
#define _POSIX_C_SOURCE 200809L
#include "mpi_model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int rank, size, failures;
static const char *folder;
static int communicators;     /* that were made and not freed */
static bool lacks_the_window; /* this rank, of the next one */
static bool mpi_fails;        /* the next time that anything is waited for */
static const void *vote;      /* where MPI was last told to write one, */
static MPI_Request voting;    /* which it is doing, */
static MPI_Request *left;     /* and what else it was doing when it failed */
static int left_count;
static uint64_t room_left; /* of /dev/shm, if it is not 0 */

/* The linker redirects statvfs to this. */
int __real_statvfs(const char *path, struct statvfs *out);
int __wrap_statvfs(const char *path, struct statvfs *out);
int __wrap_statvfs(const char *path, struct statvfs *out) {
    if (!room_left)
        return __real_statvfs(path, out);
    memset(out, 0, sizeof *out);
    out->f_blocks = out->f_frsize = 1;
    out->f_bavail = (fsblkcnt_t)room_left;
    return 0;
}

/* MPI's profiling interface lets us wrap its calls. */
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) {
    communicators++;
    return PMPI_Comm_dup(comm, out);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out) {
    communicators++;
    return PMPI_Comm_split(comm, color, key, out);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out) {
    communicators++;
    return PMPI_Comm_split_type(comm, type, key, info, out);
}
int MPI_Comm_free(MPI_Comm *comm) {
    communicators--;
    return PMPI_Comm_free(comm);
}
int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *base,
                            MPI_Win *out) {
    int code = PMPI_Win_allocate_shared(bytes, unit, info, comm, base, out);
    return lacks_the_window ? MPI_ERR_NO_MEM : code;
}

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request) {
    int code = PMPI_Iallreduce(in, out, count, type, op, comm, request);
    vote = out;
    voting = *request;
    return code;
}
int MPI_Testsome(int count, MPI_Request *requests, int *done, int *which, MPI_Status *statuses) {
    left = requests;
    left_count = count;
    if (mpi_fails)
        return MPI_ERR_OTHER;
    return PMPI_Testsome(count, requests, done, which, statuses);
}

static void expect(bool good, const char *rule) {
    if (good)
        return;
    fprintf(stderr, "rank %d: FAILED: %s\n", rank, rule);
    failures++;
}

static void expect_error(tenmap_status status, const tenmap_error *error, tenmap_status expected,
                         const char *fragment, const char *rule) {
    bool good = status == expected && error->status == expected && strstr(error->message, fragment);
    if (!good)
        fprintf(stderr, "rank %d: %s: %s\n", rank, tenmap_status_name(status), error->message);
    expect(good, rule);
}

/* All three calls refuse the communicator without sending anything to other ranks. */
static void expect_refused(MPI_Comm comm, const char *fragment, const char *rule) {
    char path[4096];
    tenmap_model *model;
    tenmap_mpi_shared *shared;
    tenmap_error error = {0};
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    tenmap_status status = tenmap_mpi_open(comm, path, NULL, &model, &error);
    expect_error(status, &error, TENMAP_ERR_ARGUMENT, fragment, rule);
    expect(model == NULL, "no model then");
    status = tenmap_mpi_load(comm, NULL, NULL, 0, NULL, &error);
    expect_error(status, &error, TENMAP_ERR_ARGUMENT, fragment, rule);
    status = tenmap_mpi_load_shared(comm, NULL, NULL, 0, NULL, &shared, &error);
    expect_error(status, &error, TENMAP_ERR_ARGUMENT, fragment, rule);
    expect(shared == NULL, "nothing shared then");
}

static void test_communicators(void) {
    MPI_Comm half, between;
    expect_refused(MPI_COMM_NULL, "MPI_COMM_NULL", "no communicator");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &between);
    expect_refused(between, "intercommunicator", "an intercommunicator");
    PMPI_Comm_free(&between); /* not one of those that are counted */
    MPI_Comm_free(&half);
}

/* Rank 0 writes a file of one tensor of I64, the last of which does not fit into I32. */
static void write_integers(const char *path, uint64_t rows) {
    uint64_t shape[] = {rows, 100};
    int64_t *values = calloc((size_t)rows * 100, sizeof *values);
    tenmap_writer *writer;
    values[rows * 100 - 1] = (int64_t)1 << 40;
    if (tenmap_writer_create(path, NULL, &writer, NULL) != TENMAP_OK ||
        tenmap_writer_add(writer, "t", 1, TENMAP_I64, shape, 2, NULL, NULL) != TENMAP_OK ||
        tenmap_writer_write(writer, 0, 0, values, (size_t)rows * 100 * sizeof *values, NULL) !=
            TENMAP_OK ||
        tenmap_writer_commit(writer, NULL) != TENMAP_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    free(values);
}

/*
 * Whether it is UTF-8 without control characters; for texts of characters of one and three bytes.
 */
static bool is_fit_to_print(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    for (; *s; s += *s < 0x80 ? 1 : 3)
        if (*s < 0x20 || *s == 0x7f || (*s >= 0x80 && (*s < 0xe1 || s[1] < 0x80 || s[2] < 0x80)))
            return false;
    return true;
}

static void test_sentences(void) {
    char path[4096];
    tenmap_model *model;
    tenmap_error error = {0};
    size_t len = (size_t)snprintf(path, sizeof path, "%s/\n\033[7m", folder);
    for (int i = 0; i < 80; i++) /* the euro sign, 240 bytes */
        len += (size_t)snprintf(path + len, sizeof path - len, "\xe2\x82\xac");
    snprintf(path + len, sizeof path - len, rank == 1 ? "b" : "a");
    if (rank < 2)
        write_integers(path, rank == 1 ? 3 : 2);
    MPI_Barrier(MPI_COMM_WORLD);
    tenmap_status status = tenmap_mpi_open(MPI_COMM_WORLD, path, NULL, &model, &error);
    expect_error(status, &error, TENMAP_ERR_FORMAT, "rank 1: ", "different files");
    expect(is_fit_to_print(error.message), "sentences are UTF-8 without control characters");
}

/* In a shared load ranks load for each other, so error.index is not a request's. */
static void expect_shared_misfit(const tenmap_tensor *t) {
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    tenmap_error error = {0};
    options.ranks_per_host = 1;
    tenmap_mpi_shared *shared;
    tenmap_request pair[] = {{.tensor = t, .as = TENMAP_I32},
                             {.tensor = t, .as = TENMAP_I16, .flags = TENMAP_CONVERT_SATURATE}};
    tenmap_status status =
        tenmap_mpi_load_shared(MPI_COMM_WORLD, t->model, pair, 2, &options, &shared, &error);
    expect_error(status, &error, TENMAP_ERR_RANGE, "element 5999 is", "likewise in a shared load");
    expect(error.index == 0, "no number among the requests that a rank has for its host");
    expect(!shared && !pair[0].dst && !pair[1].dst_bytes, "a shared load that fails sets nothing");
}

/*
 * For an integer that does not fit, the error names the tensor and the element's number in it,
 * whichever rank converts it.
 */
static void test_misfits(void) {
    enum { ROWS = 60 }; /* of 100 */
    static int64_t wide[ROWS * 100];
    static int32_t narrow[ROWS * 100], other[64];
    char path[4096];
    tenmap_model *model;
    tenmap_error error = {0};
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    snprintf(path, sizeof path, "%s/integers.safetensors", folder);
    if (rank == 0)
        write_integers(path, ROWS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (tenmap_mpi_open(MPI_COMM_WORLD, path, NULL, &model, &error) != TENMAP_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    const tenmap_tensor *t = tenmap_at(model, 0);
    uint64_t begin[] = {0, 0}, end[] = {1, 8};
    tenmap_request requests[] = {
        {.tensor = t, .begin = begin, .end = end, .as = TENMAP_I32, .dst = other, .dst_bytes = 256},
        {.tensor = t, .as = TENMAP_I32, .dst = narrow, .dst_bytes = sizeof narrow}};
    options.chunk_bytes = 4096;
    for (int by_receiver = 0; by_receiver < 2; by_receiver++) {
        if (by_receiver && rank != 1) {
            requests[1].as = TENMAP_I64;
            requests[1].dst = wide;
            requests[1].dst_bytes = sizeof wide;
        }
        tenmap_status status =
            tenmap_mpi_load(MPI_COMM_WORLD, model, requests, 2, &options, &error);
        expect_error(status, &error, TENMAP_ERR_RANGE,
                     "integers.safetensors\": tensor \"t\": element 5999 is 1099511627776",
                     "an integer that does not fit");
        expect(error.index == (by_receiver ? 1 : 0), "the request of the rank that failed");
    }
    expect_shared_misfit(t);
    tenmap_close(model);
}

/*
 * Rank 0 writes a sparse file of 256 GiB, which is a hole except for its header; false if the
 * system does not support that.
 */
static bool write_hole(const char *path) {
    static const char header[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[274877906944],"
                                 "\"data_offsets\":[0,274877906944]}}";
    int good = 1;
    if (rank == 0) {
        FILE *f = fopen(path, "wb");
        good = f && fputc(sizeof header - 1, f) != EOF && fwrite("\0\0\0\0\0\0", 7, 1, f) == 1 &&
               fputs(header, f) != EOF && fclose(f) == 0 &&
               truncate(path, 8 + (off_t)sizeof header - 1 + 274877906944) == 0;
    }
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return good;
}

/* A shared window of 2 TiB is refused before MPI is asked for it. */
static void test_room(void) {
    char path[4096];
    struct statvfs shm;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error = {0};
    tenmap_mpi_shared *shared;
    snprintf(path, sizeof path, "%s/hole.safetensors", folder);
    if (statvfs("/dev/shm", &shm) != 0 || shm.f_blocks == 0 || !write_hole(path)) {
        printf("SKIPPED: no /dev/shm, or no files with holes\n");
        return;
    }
    options.backend = TENMAP_BACKEND_READ; /* valgrind has no room for such a mapping */
    if (tenmap_mpi_open(MPI_COMM_WORLD, path, &options, &model, &error) != TENMAP_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    tenmap_request request = {.tensor = tenmap_at(model, 0), .as = TENMAP_F64};
    tenmap_status status =
        tenmap_mpi_load_shared(MPI_COMM_WORLD, model, &request, 1, NULL, &shared, &error);
    expect_error(status, &error, TENMAP_ERR_MEMORY, "rank 0: out of memory: shared windows of",
                 "a window that the host has no room for");
    tenmap_close(model);
}

static tenmap_model *open_blocks(void) {
    char path[4096];
    tenmap_model *model;
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    if (tenmap_mpi_open(MPI_COMM_WORLD, path, NULL, &model, NULL) != TENMAP_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return model;
}

/* Windows of several parties on one host: there is room for each, but not for all together. */
static void test_room_together(void) {
    tenmap_model *model = open_blocks();
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    tenmap_error error = {0};
    tenmap_mpi_shared *shared;
    tenmap_request request = {.tensor = tenmap_at(model, 0), .as = TENMAP_F32};
    options.ranks_per_host = 2;
    room_left = 3 * tenmap_at(model, 0)->nbytes / 2;
    tenmap_status status =
        tenmap_mpi_load_shared(MPI_COMM_WORLD, model, &request, 1, &options, &shared, &error);
    room_left = 0;
    if (size >= 4)
        expect_error(status, &error, TENMAP_ERR_MEMORY, "rank 0: out of memory: shared windows",
                     "windows that the host has no room for together");
    else
        expect(status == TENMAP_OK, "a rank by itself needs no room in /dev/shm");
    tenmap_mpi_shared_free(shared);
    tenmap_close(model);
}

/* If one rank makes another call than the others, no rank hangs. */
static void test_calls(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    for (int others = 0; others < 3; others++)
        for (int one = 0; one < 3; one++) {
            tenmap_model *model = open_blocks(), *again = NULL;
            tenmap_mpi_shared *shared = NULL;
            tenmap_error error = {0};
            int call = rank == 1 ? one : others;
            if (one == others) {
                tenmap_close(model);
                continue;
            }
            tenmap_status status =
                call == 0 ? tenmap_mpi_open(MPI_COMM_WORLD, path, NULL, &again, &error)
                : call == 1
                    ? tenmap_mpi_load(MPI_COMM_WORLD, model, NULL, 0, NULL, &error)
                    : tenmap_mpi_load_shared(MPI_COMM_WORLD, model, NULL, 0, NULL, &shared, &error);
            expect_error(status, &error, TENMAP_ERR_ARGUMENT, "rank 1: this rank calls tenmap_mpi_",
                         "all ranks make the same call");
            expect(!again && !shared, "nobody has anything of it then");
            tenmap_close(model);
        }
}

/* The caller's requests, for columns that another rank reads. */
typedef struct caller {
    tenmap_request request;
    uint64_t begin[2], end[2];
} caller;

static int spoil_requests(void *ctx, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    memset(ctx, 0x77, sizeof(caller));
    return 0;
}

/* Changes that the caller's progress function makes to the requests have no effect. */
static void test_requests_are_kept(void) {
    enum { ROWS = 96, COLUMNS = 8 };
    static float loaded[ROWS * COLUMNS], expected[ROWS * COLUMNS];
    tenmap_model *model = open_blocks();
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    caller own = {.begin = {0, 16}, .end = {ROWS, 16 + COLUMNS}};
    tenmap_error error = {0};
    own.request = (tenmap_request){.tensor = tenmap_at(model, 0), .as = TENMAP_F32};
    own.request.begin = own.begin;
    own.request.end = own.end;
    own.request.dst = expected;
    own.request.dst_bytes = sizeof expected;
    expect(tenmap_load(model, &own.request, 1, NULL, NULL) == TENMAP_OK, "a plain load");
    own.request.dst = loaded;
    options.progress = spoil_requests;
    options.ctx = &own;
    expect(tenmap_mpi_load(MPI_COMM_WORLD, model, &own.request, 1, &options, &error) == TENMAP_OK,
           "a load whose requests change under way");
    expect(memcmp(loaded, expected, sizeof loaded) == 0, "requests are what they were at first");
    tenmap_close(model);
}

/* Memory that is left to MPI after an MPI error is not a leak. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

/*
 * MPI fails while votes are in flight: the memory that it may still write to must not be on a stack
 * that has been left.
 */
static void test_mpi_fails(void) {
    tenmap_model *model = open_blocks();
    static float all[96 * 1024];
    tenmap_error error = {0};
    tenmap_request request = {
        .tensor = tenmap_at(model, 0), .as = TENMAP_F32, .dst = all, .dst_bytes = sizeof all};
    if (__lsan_disable)
        __lsan_disable();
    mpi_fails = true;
    tenmap_status status = tenmap_mpi_load(MPI_COMM_WORLD, model, &request, 1, NULL, &error);
    mpi_fails = false;
    if (__lsan_enable)
        __lsan_enable();
    communicators--; /* its own is left to MPI, too */
    expect_error(status, &error, TENMAP_ERR_IO, ": MPI: ", "MPI fails");
    uintptr_t here = (uintptr_t)&status, there = (uintptr_t)vote;
    expect(vote && here - there > 1 << 20, "nothing on the stack is left to MPI");
    if (vote && here - there > 1 << 20) { /* MPI ends what it had begun */
        PMPI_Wait(&voting, MPI_STATUS_IGNORE);
        for (int i = 0; i < left_count; i++)
            PMPI_Wait(&left[i], MPI_STATUS_IGNORE);
    }
    tenmap_close(model);
}

/* If one rank gets no window from MPI, no rank hangs. */
static void test_window(void) {
    tenmap_model *model = open_blocks();
    tenmap_error error = {0};
    tenmap_mpi_shared *shared;
    tenmap_request request = {.tensor = tenmap_at(model, 0), .as = TENMAP_BF16};
    lacks_the_window = rank == 1;
    tenmap_status status =
        tenmap_mpi_load_shared(MPI_COMM_WORLD, model, &request, 1, NULL, &shared, &error);
    lacks_the_window = false;
    expect_error(status, &error, TENMAP_ERR_MEMORY, "rank 1: out of memory: MPI cannot",
                 "a window that one rank lacks");
    tenmap_close(model);
}

/* All bytes from `changes` on are changed. */
static void copy_bytes(const char *from, const char *to, long changes) {
    char path[4096];
    int c;
    snprintf(path, sizeof path, "%s/%s", folder, from);
    FILE *in = fopen(path, "rb");
    snprintf(path, sizeof path, "%s/%s", folder, to);
    FILE *out = fopen(path, "wb");
    if (!in || !out)
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (long at = 0; (c = getc(in)) != EOF; at++)
        putc(at < changes ? c : c ^ 1, out);
    fclose(in);
    if (fclose(out) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

/* The same file, a scale for 128 columns by one and for 140 by the other: as many scales. */
static void test_configurations(void) {
    char path[4096];
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error = {0};
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    snprintf(path, sizeof path, "%s/recoded", folder);
    if (rank == 0) {
        if (mkdir(path, 0777) != 0)
            MPI_Abort(MPI_COMM_WORLD, 3);
        copy_bytes("coded/model.safetensors", "recoded/model.safetensors", LONG_MAX);
        snprintf(path, sizeof path, "%s/recoded/config.json", folder);
        FILE *f = fopen(path, "w");
        fputs("{\"torch_dtype\":\"bfloat16\",\"quantization_config\":{\"quant_method\":\"fp8\","
              "\"weight_block_size\":[128,140]}}",
              f);
        fclose(f);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/%s", folder, rank == 1 ? "recoded" : "coded");
    tenmap_status status = tenmap_mpi_open(MPI_COMM_WORLD, path, &options, &model, &error);
    expect_error(status, &error, TENMAP_ERR_FORMAT,
                 "config.json describes its quantized weights differently",
                 "one file with two configurations");
    tenmap_close(model);
}

/* The same header and size, other weights: a later version of the model, on one rank. */
static void test_versions(void) {
    static const struct {
        const char *path, *copy;
        uint32_t flags;
    } models[] = {
        {"blocks.gguf", "later.gguf", 0},
        {"llama.safetensors", "later.safetensors", 0},
        {"recoded/model.safetensors", "recoded/later.safetensors", TENMAP_OPEN_DEQUANTIZE}};
    char path[4096];
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_model *model;
        tenmap_error error = {0};
        if (rank == 0)
            copy_bytes(models[i].path, models[i].copy, 4096); /* which headers are shorter than */
        MPI_Barrier(MPI_COMM_WORLD);
        options.flags = models[i].flags;
        snprintf(path, sizeof path, "%s/%s", folder, rank == 1 ? models[i].copy : models[i].path);
        tenmap_status status = tenmap_mpi_open(MPI_COMM_WORLD, path, &options, &model, &error);
        expect_error(status, &error, TENMAP_ERR_FORMAT,
                     "its header is the same, but its weights differ", "two versions of a file");
        tenmap_close(model);
    }
}

int main(int argc, char **argv) {
    int level, all;
    if (argc < 2)
        return 2;
    folder = argv[1];
    expect_refused(MPI_COMM_WORLD, "not initialized", "before MPI begins");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        write_models(folder);
    MPI_Barrier(MPI_COMM_WORLD);
    test_communicators();
    test_sentences();
    test_misfits();
    test_configurations();
    test_versions();
    test_room();
    test_room_together();
    test_window();
    test_calls();
    test_requests_are_kept();
    test_mpi_fails();
    expect(communicators == 0, "all communicators are freed");
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: the contract: %d failures\n", size, all);
    MPI_Finalize();
    return all != 0;
}
