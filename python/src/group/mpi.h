/*
 * The part of MPI that mpi/tenmap_mpi*.h need, over a process group of torch.distributed. group.c
 * implements it with calls of tenmap/_group.py, so that Python and MPI share one plan, one schedule
 * and one delivery. Each call of MPI is a macro, because the function behind it has fewer
 * parameters.
 */
#ifndef TENMAP_PYTHON_GROUP_MPI_H
#define TENMAP_PYTHON_GROUP_MPI_H

#include <stdint.h>

typedef struct tpy_group *MPI_Comm;
typedef int64_t MPI_Request; /* a number that _group.py gave; 0: none */
typedef int MPI_Status;
/* A datatype: its bytes in the lowest 4 bits. */
typedef enum MPI_Datatype {
    MPI_BYTE = 1,
    MPI_INT = 4,
    MPI_INT64_T = 8,
    MPI_UINT64_T = 8 | 16
} MPI_Datatype;
enum { MPI_SUCCESS = 0, MPI_ERR_OTHER = 1, MPI_UNDEFINED = -1, MPI_MAX_ERROR_STRING = 512 };
enum { MPI_THREAD_SINGLE = 0, MPI_THREAD_FUNNELED = 1 };
enum { MPI_MIN = 0, MPI_MAX = 1 };
#define MPI_COMM_NULL NULL
#define MPI_REQUEST_NULL 0
#define MPI_STATUS_IGNORE NULL

/* Bytes that go from or to a rank, or from a rank to all. */
typedef struct group_bytes {
    void *data;
    uint64_t size;
    int rank, tag;
} group_bytes;
/* A reduction of `count` numbers. */
typedef struct group_numbers {
    const void *in;
    void *out;
    int count, maximum;
    MPI_Datatype type;
} group_numbers;
/* What each rank gives to all: that many bytes, which begin at `places` of `out`. */
typedef struct group_parts {
    const void *in;
    void *out;
    const int *counts, *places; /* in elements; NULL: `size` bytes each, one after the other */
    uint64_t size;              /* of what a rank gives, or of an element */
} group_parts;

/* Without a request, these two wait. */
static int group_start(MPI_Comm group, const char *kind, group_bytes bytes, MPI_Request *request);
static int group_reduce(MPI_Comm group, group_numbers numbers, MPI_Request *request);
static int group_gather(MPI_Comm group, group_parts parts);
static int group_test(MPI_Request *request, int *done);
static int group_test_some(int count, MPI_Request *requests, int *finished, int *which);
static int group_hosts(MPI_Comm group, MPI_Comm *hosts);
static int group_rank(MPI_Comm group);
static int group_size(MPI_Comm group);
static void group_explain(char *text);

#define GROUP_BYTES(data, count, type, rank, tag)                                                  \
    ((group_bytes){(void *)(uintptr_t)(data), (uint64_t)(count) * ((type)&15), (rank), (tag)})

#define MPI_Isend(data, count, type, to, tag, comm, request)                                       \
    group_start(comm, "send", GROUP_BYTES(data, count, type, to, tag), request)
#define MPI_Irecv(data, count, type, from, tag, comm, request)                                     \
    group_start(comm, "receive", GROUP_BYTES(data, count, type, from, tag), request)
#define MPI_Ibcast(data, count, type, root, comm, request)                                         \
    group_start(comm, "broadcast", GROUP_BYTES(data, count, type, root, 0), request)
#define MPI_Bcast(data, count, type, root, comm)                                                   \
    group_start(comm, "broadcast", GROUP_BYTES(data, count, type, root, 0), NULL)
#define MPI_Iallreduce(in, out, count, type, op, comm, request)                                    \
    group_reduce(comm, (group_numbers){(in), (out), (count), (op), (type)}, request)
#define MPI_Allreduce(in, out, count, type, op, comm)                                              \
    group_reduce(comm, (group_numbers){(in), (out), (count), (op), (type)}, NULL)
#define MPI_Allgather(in, count, type, out, out_count, out_type, comm)                             \
    group_gather(comm, (group_parts){(in), (out), NULL, NULL, (uint64_t)(count) * ((type)&15)})
#define MPI_Allgatherv(in, count, type, out, counts, places, out_type, comm)                       \
    group_gather(comm, (group_parts){(in), (out), (counts), (places), (type)&15})
#define MPI_Test(request, done, status) group_test(request, done)
#define MPI_Testsome(count, requests, finished, which, statuses)                                   \
    group_test_some(count, requests, finished, which)
#define MPI_Comm_split_type(comm, type, key, info, out) group_hosts(comm, out)
#define MPI_Comm_dup(comm, out) (*(out) = (comm), MPI_SUCCESS)
#define MPI_Comm_free(comm) (*(comm) = MPI_COMM_NULL, MPI_SUCCESS)
#define MPI_Comm_rank(comm, out) (*(out) = group_rank(comm), MPI_SUCCESS)
#define MPI_Comm_size(comm, out) (*(out) = group_size(comm), MPI_SUCCESS)
#define MPI_Comm_set_errhandler(comm, handler) MPI_SUCCESS
#define MPI_Comm_test_inter(comm, out) (*(out) = 0, MPI_SUCCESS)
#define MPI_Initialized(out) (*(out) = 1, MPI_SUCCESS)
#define MPI_Finalized(out) (*(out) = 0, MPI_SUCCESS)
#define MPI_Query_thread(out) (*(out) = MPI_THREAD_FUNNELED, MPI_SUCCESS)
#define MPI_Error_string(code, text, length) (*(length) = 0, group_explain(text))

#endif
