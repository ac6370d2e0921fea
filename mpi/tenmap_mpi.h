/*
 * tenmap over MPI: a model that many ranks load is read once.
 *
 * Ranks share the reading, and the network does the rest. Every rank says what it wants, as for
 * tenmap_load: whole tensors, or its own slices of them, in the dtype that it computes in. All ranks
 * compute the same plan; each byte that somebody wants is read by one rank, in file order, and sent to
 * those who want it, while the next ones are read. docs/many-hosts.md says when that pays.
 *
 * There is no common binary interface of MPI: compile tenmap_mpi.c with your own mpicc (MPI 3.0 or later)
 * and link it with tenmap. tenmap_mpi_plan.h lies beside it and is a part of it.
 *
 * All functions here are collective over the communicator: every rank of it calls them, in the same
 * order as its other collective calls on it. If ranks call different ones of tenmap_mpi_open, _load and
 * _load_shared, all return TENMAP_ERR_ARGUMENT. An intercommunicator is refused (TENMAP_ERR_ARGUMENT), as
 * are MPI_COMM_NULL and calls before MPI is initialized or after it is finalized. Messages travel on a
 * private duplicate of the communicator. MPI is called from the calling thread only. Hosts must be of
 * one kind: messages hold elements in the byte order of the host.
 *
 * Errors are collective too: if one rank fails, all return the same status and the same sentence, which
 * begins with the rank ("rank 3: ..."). What is already in the destinations is not defined then. A rank
 * that dies is MPI's business: with the error handlers that MPI starts with, the job is ended; an error of
 * MPI itself is TENMAP_ERR_IO with MPI's words, on the ranks that see it, and the communicator should not
 * be used again.
 */
#ifndef TENMAP_MPI_H
#define TENMAP_MPI_H

#include <mpi.h>
#include <tenmap.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a load did on this rank, in bytes; filled in when it succeeds. */
typedef struct tenmap_mpi_counts {
    uint64_t read;   /* of the files, by this rank */
    uint64_t wanted; /* of the files, by all ranks together, each byte once: what all ranks read */
    uint64_t sent;   /* by this rank; of a broadcast of MPI's, nothing is known but what arrives */
    uint64_t received; /* likewise */
    uint64_t buffers;  /* chunks in memory, at most */
    uint64_t plan;     /* the plan in memory */
    uint64_t reserved[2];
} tenmap_mpi_counts;

/* Start from TENMAP_MPI_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_mpi_options {
    size_t struct_size; /* sizeof(tenmap_mpi_options): lets the struct grow */
    /*
     * That read, on this rank; 0: four. They are used only where MPI was initialized with
     * MPI_THREAD_FUNNELED or more: with MPI_THREAD_SINGLE the caller's thread reads, and nothing is read
     * while it sends. Need not be the same on all ranks.
     */
    uint32_t threads;
    /*
     * TENMAP_LOAD_READ, which is the default and so changes nothing, or TENMAP_LOAD_DIRECT: around the
     * page cache. The same on all ranks.
     */
    uint32_t flags;
    /*
     * The most that is read and sent at a time: 4 KiB to 1 GiB; 0: as suits the amount, 1 to 16 MiB.
     * A rank has at most eight of these in memory. The same on all ranks.
     */
    uint64_t chunk_bytes;
    /* So many ranks in a row count as one host; 0: as MPI tells. The same on all ranks. */
    uint32_t ranks_per_host;
    /*
     * On the calling thread, with the bytes of the files that have been delivered of all that are wanted by
     * all ranks: first with 0, last with total. Anything but 0, on any rank, cancels the load on all of
     * them (TENMAP_ERR_CANCELLED), but for the last.
     */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    tenmap_mpi_counts *counts; /* NULL: nobody asks */
} tenmap_mpi_options;

#define TENMAP_MPI_OPTIONS_INIT                                                                    \
    { sizeof(tenmap_mpi_options), 0, 0, 0, 0, NULL, NULL, NULL }

/*
 * Opens the model on every rank, or on none: if a rank cannot, or has another file than the others (by its
 * header, its sizes, and up to 512 bytes from the middle of each of up to 16 tensors, which every rank
 * reads: another version of a model has the same header), *out is NULL everywhere and the error is the same. `path` and `options` are each
 * rank's own, as for tenmap_open; with MPI_THREAD_SINGLE all shards are opened on the calling thread.
 */
tenmap_status tenmap_mpi_open(MPI_Comm comm, const char *path, const tenmap_options *options,
                              tenmap_model **out, tenmap_error *error);

/*
 * Like tenmap_load, on all ranks at once. Every rank brings its own model, opened in whichever way from
 * the same files, by the same TENMAP_OPEN_* flags, and its own requests; a rank that wants nothing
 * brings none (NULL, 0). A rank that could not open its model calls this with NULL, and all ranks return
 * TENMAP_ERR_ARGUMENT. Which files are the same is seen by their headers and sizes; only tenmap_mpi_open looks
 * at weights. Of quantized weights it is also seen by what config.json makes of them (shapes, dtypes, widths
 * and groups: hosts whose config.json differs in something else are not told apart). That a file was
 * changed since a rank opened it is seen where that rank reads it (TENMAP_ERR_IO).
 *
 * All that can be said before a byte is read is agreed on first: arguments, options, models, memory.
 * Elements are converted before they are sent where all want the same and that is less, else by those who
 * get them; the results are tenmap_load's, bit for bit. Requests, and what their begin and end point to, are
 * not looked at again once progress has been called. error.index is the request on the rank that failed,
 * where it was one.
 *
 * Bytes between those that are wanted are not read, but for pages and such that the system reads itself,
 * and but for tensors of more than eight axes, or that the requests cut into more than 65,536 boxes or
 * for more than 1,024 sets of ranks: those are read, and sent, from the first element that is wanted to
 * the last. Three things are read more often than once: tensors of which one request takes the bytes for
 * another dtype than another request does (once each); parts of quantized weights that several chunks
 * need (scales); the byte around elements of 4 and 6 bits at the edge of a chunk.
 */
tenmap_status tenmap_mpi_load(MPI_Comm comm, const tenmap_model *model,
                              const tenmap_request *requests, size_t count,
                              const tenmap_mpi_options *options, tenmap_error *error);

/* Tensors that the ranks of a host have in common. */
typedef struct tenmap_mpi_shared tenmap_mpi_shared;

/*
 * Likewise, once for each host, into memory that its ranks share: request i is at requests[i].dst when it
 * returns, to be read and not written, until tenmap_mpi_shared_free. Ranks of a host that want the same
 * (tensor, block, dtypes, flags) get the same memory, at addresses of their own. dst and dst_bytes are not
 * looked at but set, dst_stride must be 0; places begin at multiples of 64 bytes. The model may be closed
 * afterwards. For what needs no conversion a mapped model is shared by the ranks of a host anyway, in the
 * page cache. On failure *out is NULL, and dst and dst_bytes are as before; error.index is 0 where a load
 * that had begun failed. The memory is MPI's, on Linux mostly in /dev/shm, which is 64 MB in many containers:
 * TENMAP_ERR_MEMORY if it has not the room when it is asked, for all that a host's ranks share, by however
 * many of them (ranks_per_host); a rank by itself needs none.
 */
tenmap_status tenmap_mpi_load_shared(MPI_Comm comm, const tenmap_model *model,
                                     tenmap_request *requests, size_t count,
                                     const tenmap_mpi_options *options, tenmap_mpi_shared **out,
                                     tenmap_error *error);

/* Collective over the ranks that loaded it. NULL, on all of them, is fine. */
void tenmap_mpi_shared_free(tenmap_mpi_shared *shared);

#ifdef __cplusplus
}
#endif

#endif
