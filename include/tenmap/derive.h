/*
 * tenmap: models whose tensors are computed from tensors of other open models: renamed, cut,
 * joined, transposed, added with factors, with the low-rank products of a LoRA. The opening comment
 * of tenmap.h has the rules for all calls. docs/derived.md has the formulas.
 */
#ifndef TENMAP_INCLUDE_DERIVE_H
#define TENMAP_INCLUDE_DERIVE_H

#include "read.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tenmap_term.flags */
enum {
    /*
     * The term is taken transposed, after its shape and its block: as a matrix, so it has two axes.
     * For TENMAP_DERIVE_LOW_RANK it may have more, which count as they do there.
     */
    TENMAP_TERM_TRANSPOSED = 1
};

/* One operand. Everything in it is copied, except the tensor, which must outlive the model. */
typedef struct tenmap_term {
    const tenmap_tensor *tensor; /* of any open model; NULL only as term 0 of LOW_RANK: zeros */
    /*
     * Of SUM: that of each term. Of LOW_RANK: that of term 0 and of the first of each pair. Finite
     * and not 0 there (where the tensor is NULL: any finite number); 0 elsewhere.
     */
    double factor;
    const uint64_t *shape;       /* taken as this shape, of the same count; NULL: its own */
    const uint64_t *begin, *end; /* then this block of it, one pair per axis; both NULL: all */
    uint32_t rank;               /* of `shape`; 0 if that is NULL */
    uint32_t flags;              /* TENMAP_TERM_* */
    uint64_t reserved[2];        /* 0 */
} tenmap_term;

/* tenmap_derived.op. Values never change; new ones are appended. */
enum {
    TENMAP_DERIVE_RENAME = 1, /* term 0, the only one */
    TENMAP_DERIVE_CONCAT = 2, /* all terms, one after the other along the axis `axis` */
    TENMAP_DERIVE_STACK = 3,  /* all terms, of one shape, as the indexes of a new axis `axis` */
    TENMAP_DERIVE_SUM = 4,    /* the sum over all terms, of one shape, of factor * term */
    /*
     * factor * term 0, plus for each pair of terms, B then A, factor * (B @ A). A term that has
     * more than two axes counts as a matrix of its first axis by all others; the result has the
     * shape of term 0. Without a term 0 its shape is B's rows by A's columns.
     */
    TENMAP_DERIVE_LOW_RANK = 5,
    TENMAP_DERIVE_CALL = 6 /* what the caller's function makes of all terms, of one shape */
};

/* One tensor of a derived model. Everything in it is copied; `ctx` must live until the close. */
typedef struct tenmap_derived {
    const char *name;   /* UTF-8; no other tensor of the model has it */
    tenmap_dtype dtype; /* TENMAP_AS_STORED: the library chooses, as described below */
    uint32_t op;        /* TENMAP_DERIVE_* */
    uint32_t axis;      /* of CONCAT and STACK; 0 elsewhere */
    /*
     * Terms: 1 of RENAME, up to 64 of SUM and CALL, 3 to 129 of LOW_RANK, up to 65,536 of CONCAT
     * and STACK.
     */
    uint32_t n;
    uint32_t rank; /* of `shape`; 0 if that is NULL */
    const tenmap_term *terms;
    /*
     * A permutation of the axes of op's result: axis i of the tensor is the result's axis order[i].
     * NULL: they stay as they are.
     */
    const uint32_t *order;
    const uint64_t *shape; /* after `order`, taken as this shape, of the same count; NULL: as is */
    /*
     * Of CALL: sets out[0] to out[count - 1] from terms[0] to terms[n - 1], each of which has
     * `count` values, of adjacent columns of one row. The last two axes of op's result, before
     * `order`, are a matrix; a vector is one row, a scalar 1 x 1. It must be a pure function of the
     * position and of the values: the library may call it for any cut, in any order, again for the
     * same values, and on several threads at once. `out` overlaps no term. It may not call back
     * into the model's calls that take this tensor. Anything but TENMAP_OK ends the read with that
     * status and *error, which is never NULL and holds a message that names the tensor until the
     * function writes another one.
     */
    tenmap_status (*call)(void *ctx, uint64_t matrix, uint64_t row, uint64_t column, size_t count,
                          const float *const *terms, float *out, tenmap_error *error);
    void *ctx; /* passed to `call` */
    uint64_t reserved[4];
} tenmap_derived;

/*
 * Makes a model of `n` tensors, which tenmap_at has in the order given. It reads no tensor data and
 * opens no file. `options` is NULL or all defaults. Close it with tenmap_close, before the models
 * of its terms. On failure *out is NULL, and error.index is the number of the tensor that is wrong,
 * whose name is in the message.
 *
 * What it has: tenmap_path, tenmap_folder and the metadata are those of the model of the first term
 * (metadata.shard counts that model's shards). tenmap_shard_at gives the shards that terms use, in
 * the order of their first use: views of the models that they belong to, whose first_tensor and
 * tensor_count count the tensors of those. There is no index, and nothing is missing.
 *
 * Dtypes: RENAME, CONCAT and STACK move elements of any dtype of whole bytes bit for bit. All terms
 * have one dtype, and `dtype` is that or AS_STORED. Rows of a block dtype are moved whole, or in
 * whole blocks. Quantized weights (TENMAP_OPEN_DEQUANTIZE) and other terms that are values move as
 * their values: a read as F32 gives the same as a read of the term. SUM, LOW_RANK and CALL take
 * floating-point terms, block dtypes and quantized weights included, as the values that tenmap_read
 * gives as F64, and give F64 values, which are rounded once, to what a read asks for. AS_STORED is
 * term 0's dtype if that is F64, F32, F16 or BF16, else F32. A `dtype` of less than a byte, a block
 * dtype, integers, BOOL and C64 are TENMAP_ERR_UNSUPPORTED for them. Nothing broadcasts.
 *
 * Views: a RENAME of a whole tensor, or of a part of a stored one whose bytes lie together, is a
 * view: it costs nothing, has `data` where its term has it, and keeps the scheme and the parts of
 * a quantized weight if its shape stays the same. Any other tensor has TENMAP_TENSOR_COMPUTED and
 * the scheme "derived"; tenmap_part_at gives its terms, TENMAP_PART_TERM. Its shard and file_offset
 * are those of its first term.
 *
 * Limits: terms may be derived tensors, up to 8 deep. A thread that reads a tensor has the state of
 * one term at a time for each level of that depth, up to 2 MB a level, and with LOW_RANK the
 * values of A and B as F64, which it reads once for each tensor. A large tensor that is asked for
 * in small pieces is computed in small pieces: LOW_RANK reads A and B again in every call.
 *
 * All other calls work as with any model, except that tenmap_detach is TENMAP_ERR_UNSUPPORTED, and
 * so is tenmap_fingerprint without TENMAP_FINGERPRINT_VALUES. Advice and questions about memory go
 * to everything that a tensor is computed from; progress counts a term as often as it is used. If a
 * file of a term changes or cannot be read, calls fail as they do for the term.
 *
 * Thread rule: as tenmap_open, and the models of the terms must stay open meanwhile.
 */
TENMAP_API tenmap_status tenmap_derive(const tenmap_derived *tensors, size_t n,
                                       const tenmap_options *options, tenmap_model **out,
                                       tenmap_error *error);

#ifdef __cplusplus
}
#endif

#endif
