/*
 * tenmap: fingerprints, digests of 128 bits (XXH3) that tell models and tensors apart. They protect
 * against accidents, not against forgery. All functions may be called from any thread.
 */
#ifndef TENMAP_INCLUDE_FINGERPRINT_H
#define TENMAP_INCLUDE_FINGERPRINT_H

#include "read.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For tenmap_fingerprint: hash the bytes of the tensors, not only the headers. */
enum { TENMAP_FINGERPRINT_VALUES = 1 };

/* The size of a tensor's fingerprint. */
enum { TENMAP_FINGERPRINT_BYTES = 16 };

/*
 * Fills out[0..16) with the model's fingerprint, and the rest of out with zeros.
 *
 * Without flags, the call reads the headers again, but no tensor. The fingerprint covers the size,
 * modification time and header text of each file, the index, which tensors the model lists, and how
 * they are dequantized. If two opens give equal fingerprints, the files have not been written in
 * between, as far as their times tell. Paths do not matter. The definition may change from version
 * to version, so store such a fingerprint only in caches. TENMAP_ERR_IO if a file has changed since
 * it was opened; TENMAP_ERR_UNSUPPORTED with options.io and for memory.
 *
 * With TENMAP_FINGERPRINT_VALUES, the call reads every byte of the tensors, with as many threads as
 * the library chooses. The fingerprint depends on the names, dtypes, shapes and bytes of all
 * tensors of tenmap_at. It does not depend on their order, shards, alignment and metadata. The
 * tool's `hash --model` prints the same. The definition never changes; docs/tool.md has it.
 *
 * On failure, out is unchanged. tenmap_fingerprint_tensors describes the failures of reading.
 */
TENMAP_API tenmap_status tenmap_fingerprint(const tenmap_model *model, uint32_t flags,
                                            uint8_t out[32], tenmap_error *error);

/* Start from TENMAP_FINGERPRINT_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_fingerprint_options {
    size_t struct_size; /* sizeof(tenmap_fingerprint_options): lets the struct grow */
    uint32_t threads;   /* 0: the library decides; at most 64, the caller's included */
    uint32_t flags;     /* 0 */
    /* As in tenmap_load_options: on the caller's thread; a nonzero return cancels. */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
} tenmap_fingerprint_options;

#define TENMAP_FINGERPRINT_OPTIONS_INIT                                                            \
    { sizeof(tenmap_fingerprint_options), 0, 0, NULL, NULL }

/*
 * Computes the fingerprints of n tensors, of one model or of several, on any backend, at close to
 * the speed of memory. That of tensor i is TENMAP_FINGERPRINT_BYTES bytes long, at out + i *
 * TENMAP_FINGERPRINT_BYTES. It depends on the tensor's dtype, shape and bytes as the file has them,
 * not on its name or place. For a dequantized weight, the bytes are those that a plain tensor of
 * its dtype would have. The number of threads and the CPU change nothing.
 *
 * Bytes that are not in memory are read in pieces of 16 MiB, one for each thread; pages of a mapped
 * tensor are brought in as with TENMAP_ADVISE_POPULATE. error.index is the tensor's number. After
 * an error or a cancel (TENMAP_ERR_CANCELLED) the contents of out are undefined.
 */
TENMAP_API tenmap_status tenmap_fingerprint_tensors(const tenmap_tensor *const *tensors, size_t n,
                                                    const tenmap_fingerprint_options *options,
                                                    uint8_t *out, tenmap_error *error);

/*
 * Computes the model's fingerprint, TENMAP_FINGERPRINT_BYTES bytes, from those of its tensors. The
 * result is that of tenmap_fingerprint with TENMAP_FINGERPRINT_VALUES. `tensors` holds the
 * fingerprints of tenmap_at(model, 0), tenmap_at(model, 1) and so on. Reads no tensor.
 */
TENMAP_API tenmap_status tenmap_fingerprint_combine(const tenmap_model *model,
                                                    const uint8_t *tensors, uint8_t *out,
                                                    tenmap_error *error);

#ifdef __cplusplus
}
#endif

#endif
