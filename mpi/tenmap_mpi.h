/*
 * tenmap over MPI: many ranks load a model, and its files are read once.
 *
 * The ranks share the reading and exchange the bytes over the network. Every rank says what it
 * wants, as for tenmap_load: whole tensors or slices of them, in the dtype that it computes in. All
 * ranks compute the same plan. Each wanted byte is read by one rank, in file order, and sent to the
 * ranks that want it while the next bytes are read. docs/many-hosts.md says when that pays.
 *
 * MPI has no common binary interface, so compile tenmap_mpi.c with your own mpicc (MPI 3.0 or
 * later) and link it with tenmap. It includes the other files tenmap_mpi*.h, which must be beside
 * it.
 *
 * All functions here are collective over the communicator: every rank of it calls them, in the same
 * order as its other collective calls on it. If some ranks call one of tenmap_mpi_open, _load and
 * _load_shared and others another, all return TENMAP_ERR_ARGUMENT. An intercommunicator,
 * MPI_COMM_NULL, and a call before MPI is initialized or after it is finalized are
 * TENMAP_ERR_ARGUMENT, too. Messages travel on a private duplicate of the communicator. MPI is
 * called on the calling thread only. Hosts must be of one kind: messages hold elements in the
 * host's byte order.
 *
 * Errors are collective too: if one rank fails, all return the same status and the same message,
 * which begins with the rank ("rank 3: ..."). The contents of the destinations are then undefined.
 * MPI handles ranks that die: with MPI's default error handlers the job ends. An error of MPI
 * itself is TENMAP_ERR_IO with MPI's message, on the ranks that see it; do not use the communicator
 * again after that.
 */
#ifndef TENMAP_MPI_H
#define TENMAP_MPI_H

#include <mpi.h>
#include <tenmap.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a load did on this rank, in bytes. Set when the load succeeds. */
typedef struct tenmap_mpi_counts {
    uint64_t read;     /* of the files, by this rank */
    uint64_t wanted;   /* of the files, by all ranks, each byte once: the sum of `read` */
    uint64_t sent;     /* by this rank; of MPI's own broadcasts only received bytes are known */
    uint64_t received; /* likewise */
    uint64_t buffers;  /* the most memory that chunks took */
    uint64_t plan;     /* memory that the plan took */
    uint64_t reserved[2];
} tenmap_mpi_counts;

/* Start from TENMAP_MPI_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_mpi_options {
    size_t struct_size; /* sizeof(tenmap_mpi_options): lets the struct grow */
    /*
     * Threads that read on this rank; 0: four. They are used only if MPI was initialized with
     * MPI_THREAD_FUNNELED or more. With MPI_THREAD_SINGLE the caller's thread reads, and nothing is
     * read while it sends. Ranks may differ.
     */
    uint32_t threads;
    /*
     * TENMAP_LOAD_READ, which is the default, or TENMAP_LOAD_DIRECT, which bypasses the page cache.
     * The same on all ranks.
     */
    uint32_t flags;
    /*
     * The most that is read and sent at a time: 4 KiB to 1 GiB; 0: 1 to 16 MiB, depending on the
     * amount. A rank has at most eight such chunks in memory. The same on all ranks.
     */
    uint64_t chunk_bytes;
    /* This many consecutive ranks count as one host; 0: ask MPI. The same on all ranks. */
    uint32_t ranks_per_host;
    /*
     * Called on the calling thread with the file bytes that have been delivered, of all that all
     * ranks want: first with 0, last with total. A nonzero return on any rank cancels the load on
     * all of them (TENMAP_ERR_CANCELLED); the final call's return is ignored.
     */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    tenmap_mpi_counts *counts; /* NULL: not wanted */
} tenmap_mpi_options;

#define TENMAP_MPI_OPTIONS_INIT                                                                    \
    { sizeof(tenmap_mpi_options), 0, 0, 0, 0, NULL, NULL, NULL }

/*
 * Opens the model on every rank, or on none: if a rank cannot open it, or has another file than the
 * others, *out is NULL and the error is the same on all ranks. Files are compared by their headers,
 * their sizes, and up to 512 bytes from the middle of each of up to 16 tensors, which every rank
 * reads, because two versions of a model can have the same header. `path` and `options` are each
 * rank's own, as for tenmap_open. With MPI_THREAD_SINGLE all shards are opened on the calling
 * thread.
 */
tenmap_status tenmap_mpi_open(MPI_Comm comm, const char *path, const tenmap_options *options,
                              tenmap_model **out, tenmap_error *error);

/*
 * Like tenmap_load, on all ranks at once. Every rank passes its own model, opened in any way from
 * the same files, with the same TENMAP_OPEN_* flags, and its own requests. A rank that wants
 * nothing passes none (NULL, 0). A rank that could not open its model passes NULL as the model, and
 * all ranks return TENMAP_ERR_ARGUMENT. Files count as the same if their headers and sizes are
 * equal. Only tenmap_mpi_open compares weights, and only by them does it notice strides that
 * differ. Quantized weights must also agree in what config.json makes of them (shapes, dtypes,
 * widths and groups); other differences between the hosts' config.json are not noticed. A rank
 * notices that a file was changed since it opened it when it reads that file (TENMAP_ERR_IO).
 *
 * Before a byte is read, the ranks agree on everything that can be known by then: arguments,
 * options, models, memory. Elements are converted before they are sent if all receivers want the
 * same dtype and that is smaller, otherwise by the receivers. The results are tenmap_load's, bit
 * for bit. Requests, and what their begin and end point to, are not read again once progress has
 * been called. If a request failed, error.index is its number on the rank that failed.
 *
 * Bytes that nobody wants are not read, with two exceptions: what the system itself reads in
 * addition, such as whole pages; and tensors of more than eight axes, or that the requests cut into
 * more than 65,536 boxes or for more than 1,024 sets of ranks, which are read and sent from the
 * first wanted element to the last. Four things are read more than once: tensors whose bytes
 * requests take as different dtypes (once for each); parts of quantized weights that several chunks
 * need (scales); bytes at the edge of a chunk that elements of 4 and 6 bits share; and bytes of
 * strided tensors, which several tensors or several chunks may see.
 */
tenmap_status tenmap_mpi_load(MPI_Comm comm, const tenmap_model *model,
                              const tenmap_request *requests, size_t count,
                              const tenmap_mpi_options *options, tenmap_error *error);

/* Tensors that the ranks of a host share. */
typedef struct tenmap_mpi_shared tenmap_mpi_shared;

/*
 * Like tenmap_mpi_load, but loads once per host, into memory that its ranks share. On return
 * request i is at requests[i].dst, aligned to 64 bytes, to be read but not written, until
 * tenmap_mpi_shared_free. Ranks of a host that want the same (tensor, block, dtypes, flags) get the
 * same memory, each at its own address. dst and dst_bytes are set, not read; dst_stride must be 0.
 * The model may be closed afterwards. If nothing needs conversion, this is not needed: the ranks of
 * a host share a mapped model in the page cache. On failure *out is NULL, and dst and dst_bytes are
 * unchanged; error.index is 0 if the load had begun. The memory is MPI's, on Linux mostly in
 * /dev/shm, which is 64 MB in many containers. TENMAP_ERR_MEMORY if that does not have room for
 * everything that the ranks of a machine share, also if ranks_per_host makes several hosts of it. A
 * rank that is alone on its host needs none of it.
 */
tenmap_status tenmap_mpi_load_shared(MPI_Comm comm, const tenmap_model *model,
                                     tenmap_request *requests, size_t count,
                                     const tenmap_mpi_options *options, tenmap_mpi_shared **out,
                                     tenmap_error *error);

/* Collective over the ranks that loaded it. NULL is allowed if all of them pass it. */
void tenmap_mpi_shared_free(tenmap_mpi_shared *shared);

#ifdef __cplusplus
}
#endif

#endif
