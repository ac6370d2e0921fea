/*
 * Reads elements of a tensor into a dtype: selects them, reads them from memory or through a window
 * on the file, and converts them.
 */
#ifndef TENMAP_VALUES_H
#define TENMAP_VALUES_H

#include "../model/model.h"

/*
 * transfer.c: selects elements of a tensor, converts them and stores them where the caller wants
 * them.
 */

/* The name of the tensor's dtype in the file, which may be any text. */
tmi_quoted tmi_stored_dtype(const tenmap_tensor *tensor);

/*
 * A block of a tensor. The trailing dimensions that are taken whole form one contiguous run with
 * the last dimension that is not. The dimensions before that one are walked. A dimension of extent
 * 1 only adds to the start; at most 63 others remain, since each at least doubles a count that fits
 * in 64 bits. A range of elements is a block of one run.
 */
enum { TMI_MOST_WALKED = 64 };

typedef struct tmi_walk {
    uint64_t extent, stride; /* in elements */
} tmi_walk;

typedef struct tmi_transfer {
    const tenmap_tensor *tensor;
    tenmap_dtype stored; /* how its bytes are read: as its own dtype, or the caller's choice */
    const struct tmi_computed *computed; /* its maker's state (computed.h); NULL: a plain tensor */
    bool *normal;                        /* of tmi_values_wanted; otherwise NULL */
    tenmap_dtype as;
    uint32_t flags;    /* TENMAP_CONVERT_* */
    uint64_t elements; /* of dtype `stored` in the tensor */
    unsigned char *dst;
    uint64_t row;        /* elements of the innermost dimension of the selection */
    uint64_t row_stride; /* bytes from one row in dst to the next; 0: rows are contiguous */
    uint64_t start;      /* first element of the first run */
    uint64_t run;        /* elements per run */
    uint64_t count; /* elements in all; if 0, the other fields of the selection are undefined */
    unsigned walked;
    tmi_walk *walk; /* the caller's array of TMI_MOST_WALKED, set before _block; innermost first */
} tmi_transfer;

/*
 * Checks and sets up a transfer. The calls come in this order: _begin for the tensor and its
 * dtypes; _range, _block or _whole for the selection; _target for the destination. Shapes and
 * counts are in elements of `stored_as`, which scales the last dimension.
 */
tenmap_status tmi_transfer_begin(tmi_transfer *x, const tenmap_tensor *t, tenmap_dtype stored_as,
                                 tenmap_dtype as, uint32_t flags, tenmap_error *error);
tenmap_status tmi_transfer_range(tmi_transfer *x, uint64_t first, uint64_t count,
                                 tenmap_error *error);
tenmap_status tmi_transfer_block(tmi_transfer *x, const uint64_t *begin, const uint64_t *end,
                                 tenmap_error *error);
/* Selects the whole tensor; `rows` says that the rows in the destination may lie apart. */
tenmap_status tmi_transfer_whole(tmi_transfer *x, bool rows, tenmap_error *error);
tenmap_status tmi_transfer_target(tmi_transfer *x, void *dst, size_t dst_bytes, uint64_t dst_stride,
                                  tenmap_error *error);
/*
 * Decides, unless the caller did, whether results are written with non-temporal stores. `bytes` is
 * the size of all results together. tmi_transfer_target decides by the transfer's own size.
 */
void tmi_transfer_stream(tmi_transfer *x, uint64_t bytes);

/*
 * Sets [*begin, *end) to the bytes of the file from the first to the last that elements [first,
 * first+count) of the transfer occupy. `count` is at least 1.
 */
void tmi_transfer_extent(const tmi_transfer *x, uint64_t first, uint64_t count, uint64_t *begin,
                         uint64_t *end);
/* The position in the tensor of element `i` of the transfer. */
uint64_t tmi_transfer_position(const tmi_transfer *x, uint64_t i);
/*
 * Returns the byte of dst where element `to` of the transfer goes, and sets *bit to the bit in that
 * byte. Lowers *count to the elements that are contiguous from there.
 */
unsigned char *tmi_transfer_place(const tmi_transfer *x, uint64_t to, uint64_t *count,
                                  unsigned *bit);
/* Whether the runs lie so close together that reading through the gaps is cheap. */
bool tmi_transfer_is_dense(const tmi_transfer *x);

/*
 * Transfers elements [first, first+count) to their place in dst. With 4- and 6-bit destinations
 * `first` must be a multiple of 8, so that no two calls share a byte. An integer that does not fit
 * is TENMAP_ERR_RANGE.
 */
tenmap_status tmi_transfer_run(const tmi_transfer *x, tmi_window *window, uint64_t first,
                               uint64_t count, tenmap_error *error);
/*
 * Fails with TENMAP_ERR_RANGE: element `number` of the tensor, an integer whose bytes are at *at,
 * in the file at `offset`, does not fit.
 */
tenmap_status tmi_transfer_misfit(const tmi_transfer *x, const void *at, uint64_t number,
                                  uint64_t offset, tenmap_error *error);

/* value_source.c: computes values (value_source.h), and runs transfers of every kind of tensor. */

/* What one thread needs to produce elements. It is large, and allocated when it is first needed. */
typedef struct tmi_source tmi_source;
void tmi_source_free(tmi_source *source); /* NULL is allowed */

/*
 * Same as tmi_transfer_run, for every kind of tensor. Set *source to NULL before the first call;
 * later calls reuse it. The caller frees it.
 */
tenmap_status tmi_values_run(const tmi_transfer *x, tmi_window *window, tmi_source **source,
                             uint64_t first, uint64_t count, tenmap_error *error);
/*
 * Call this after TENMAP_ERR_RANGE in a piece that begins with element `first`. If an integer
 * before `first` does not fit either, perhaps in another thread's piece, *error becomes the error
 * of the first such integer.
 */
void tmi_values_first_misfit(const tmi_transfer *x, tmi_window *window, tmi_source **source,
                             uint64_t first, tenmap_error *error);

/* Elements [first, first+count) of a tensor that is not plain, for contiguous memory. */
typedef struct tmi_values_wanted {
    const tenmap_tensor *tensor;
    uint64_t first, count;
    tenmap_dtype as;
    uint32_t flags; /* TENMAP_CONVERT_* */
    void *dst;
    size_t dst_bytes;
    /* All bytes are read from the file, even if they are mapped: a changed file is an error. */
    bool checked;
    /*
     * NULL, or set to whether all values are known to be normal: each is 0 or has a magnitude that
     * F32 and BF16 represent at full precision, so that these lose nothing except by rounding.
     */
    bool *normal;
} tmi_values_wanted;

tenmap_status tmi_values_read(tmi_source **source, const tmi_values_wanted *wanted,
                              tenmap_error *error);
/* Whether values of the tensor can be known to be normal in dtype `as`; false for elements. */
bool tmi_values_can_be_normal(const tenmap_tensor *t, tenmap_dtype as);
/* Whether the tensor is stored row by row, so that a few rows can be asked for at a time. */
bool tmi_values_in_rows(const tenmap_tensor *t);

/* load.c: loads many tensors at once. */

/*
 * Copies the caller's options, and fills the rest with defaults. Only those of tenmap_take may name
 * an arena.
 */
tenmap_status tmi_init_load_options(const tenmap_load_options *given, tenmap_load_options *out,
                                    tenmap_error *error);
tenmap_status tmi_init_take_options(const tenmap_load_options *given, tenmap_load_options *out,
                                    tenmap_error *error);

/* arena.c: the memory of weights that are copied. tenmap_arena_free frees all of it. */

/*
 * Allocates an arena with the allocator of the options. `alignment` is a power of two up to 2 MiB.
 */
tenmap_status tmi_arena_create(tenmap_arena **out, const tenmap_load_options *options,
                               uint64_t bytes, size_t alignment, tenmap_error *error);
/* The memory that the arena was created with. */
unsigned char *tmi_arena_memory(const tenmap_arena *arena);
/* Makes `more`, an arena that was just created, a part of `arena`. */
void tmi_arena_append(tenmap_arena *arena, tenmap_arena *more);

/* convert.c: converts numbers. */

/*
 * Whether elements of `from` can be converted to `to` under these TENMAP_CONVERT_* flags. Otherwise
 * UNSUPPORTED or ARGUMENT, with an error message. Neither dtype may be TENMAP_AS_STORED.
 */
tenmap_status tmi_convert_check(tenmap_dtype to, tenmap_dtype from, uint32_t flags,
                                tenmap_error *error);

/* Elements of a dtype that begin at a bit of the first byte: 0, or 0 to 7 for 4- and 6-bit ones. */
typedef struct tmi_packed {
    tenmap_dtype dtype;
    unsigned bit;
} tmi_packed;
/*
 * Converts `count` elements of a pair that passed the check. The source is in file order
 * (little-endian), the result in host order. Bits of *dst before to.bit are kept; spare bits after
 * the last element of the last byte become 0. Any alignment is allowed; the buffers must not
 * overlap. Returns `count`, or the index of the first integer that does not fit, with all elements
 * before it converted. With dst NULL, which is for pairs of integer dtypes only, it only checks.
 */
uint64_t tmi_convert_file(tmi_packed to, void *dst, tmi_packed from, const void *src,
                          uint64_t count, uint32_t flags);
/*
 * Fails with TENMAP_ERR_RANGE: element `number`, whose value is at *at in file order, does not fit
 * into `to`.
 */
tenmap_status tmi_fail_misfit(tenmap_error *error, tenmap_dtype to, tenmap_dtype from,
                              const void *at, uint64_t number);

/* losses.c: counts what a conversion loses beyond rounding. */

/* A conversion whose losses are counted. The pair of dtypes has passed the check. */
typedef struct tmi_counted {
    tenmap_dtype to, from;
    bool file_order; /* the elements are in file order, not in host order */
    uint32_t flags;  /* TENMAP_CONVERT_* */
} tmi_counted;
/* Adds to *lost what converting these elements loses; they begin at bit 0. */
void tmi_losses_add(tmi_counted conversion, const void *src, uint64_t count, tenmap_losses *lost);

#endif
