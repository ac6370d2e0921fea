/*
 * Loads a Llama-like model on the ranks of a job, each its slices, divided as in tensor-parallel
 * engines. Input projections (q, k, v, gate, up), the embedding and the head are cut by rows,
 * output projections (o, down) by columns; every rank has the norms. Each byte is read by one rank;
 * a table shows by which.
 *     mpirun -n N tensor_parallel MODEL
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenmap_mpi.h>

/* The axis that a weight is cut along, by its name; -1: none. */
static int axis_of_weight(const tenmap_tensor *t) {
    static const struct {
        const char *part;
        int axis;
    } rules[] = {{"q_proj.", 0},    {"k_proj.", 0},  {"v_proj.", 0},
                 {"gate_proj.", 0}, {"up_proj.", 0}, {"embed_tokens.", 0},
                 {"lm_head.", 0},   {"o_proj.", 1},  {"down_proj.", 1}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strstr(t->name, rules[i].part) && t->rank > (uint32_t)rules[i].axis)
            return rules[i].axis;
    return -1;
}

/* Rank r of n gets the r-th of n equal parts of the axis. */
static size_t cut(const tenmap_tensor *t, uint64_t r, uint64_t n, uint64_t *begin, uint64_t *end) {
    int axis = axis_of_weight(t);
    uint64_t elements = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        begin[d] = (int)d == axis ? t->shape[d] * r / n : 0;
        end[d] = (int)d == axis ? t->shape[d] * (r + 1) / n : t->shape[d];
        elements *= end[d] - begin[d];
    }
    uint32_t together = 1, bytes = 1;
    (void)tenmap_dtype_block(t->dtype, &together, &bytes);
    return (size_t)((elements + together - 1) / together * bytes);
}

/* This rank's part of a model. */
typedef struct part {
    tenmap_request *requests;
    uint64_t *boxes; /* begin and end of each */
    void *memory;    /* for all of them */
    size_t count;
} part;

enum { AXES = 8 };

static void free_part(part *p) {
    free(p->requests);
    free(p->boxes);
    tenmap_free(p->memory);
}

static bool make_part(const tenmap_model *model, int rank, int ranks, part *p) {
    size_t bytes = 0, tensors = tenmap_count(model);
    p->requests = calloc(tensors + 1, sizeof *p->requests);
    p->boxes = calloc(tensors + 1, sizeof *p->boxes * 2 * AXES);
    for (size_t i = 0; i < tensors && p->requests && p->boxes; i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        tenmap_request *r = &p->requests[p->count];
        uint64_t *begin = p->boxes + p->count * 2 * AXES;
        if (t->rank > AXES || t->dtype == TENMAP_OPAQUE)
            continue;
        r->tensor = t;
        r->begin = begin;
        r->end = begin + AXES;
        r->dst_bytes = cut(t, (uint64_t)rank, (uint64_t)ranks, begin, begin + AXES);
        bytes += (r->dst_bytes + 63) / 64 * 64;
        p->count++;
    }
    p->memory = tenmap_alloc(bytes + 1);
    char *at = p->memory;
    for (size_t i = 0; i < p->count && at; at += (p->requests[i].dst_bytes + 63) / 64 * 64, i++)
        p->requests[i].dst = at;
    return p->requests && p->boxes && p->memory;
}

static void print_table(const tenmap_mpi_counts *mine, int rank, int ranks) {
    tenmap_mpi_counts *all = rank == 0 ? calloc((size_t)ranks, sizeof *all) : NULL;
    MPI_Gather(mine, (int)sizeof *mine, MPI_BYTE, all, (int)sizeof *mine, MPI_BYTE, 0,
               MPI_COMM_WORLD);
    for (int r = 0; all && r < ranks; r++) {
        if (r == 0)
            printf("rank      read MB   sent MB  received MB  buffers MB   of %.1f MB wanted\n",
                   (double)all[0].wanted / 1e6);
        printf("%4d %12.1f %9.1f %12.1f %11.1f\n", r, (double)all[r].read / 1e6,
               (double)all[r].sent / 1e6, (double)all[r].received / 1e6,
               (double)all[r].buffers / 1e6);
    }
    free(all);
}

int main(int argc, char **argv) {
    int level, rank, ranks, failed = 1;
    tenmap_model *model = NULL;
    tenmap_error error = {.message = "usage: tensor_parallel MODEL"};
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    tenmap_mpi_counts counts = {0};
    part mine = {0};
    /* FUNNELED: a thread of the library may read while this one sends. */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    options.counts = &counts;
    if (argc == 2 && tenmap_mpi_open(MPI_COMM_WORLD, argv[1], NULL, &model, &error) == TENMAP_OK) {
        /* A rank that runs out of memory passes a NULL model, which is an error on all ranks. */
        bool good = make_part(model, rank, ranks, &mine);
        failed = tenmap_mpi_load(MPI_COMM_WORLD, good ? model : NULL, mine.requests,
                                 good ? mine.count : 0, &options, &error) != TENMAP_OK;
        if (!failed)
            print_table(&counts, rank, ranks);
        free_part(&mine);
        tenmap_close(model);
    }
    if (failed && rank == 0)
        fprintf(stderr, "%s\n", error.message);
    MPI_Finalize();
    return failed;
}
