/*
 * Elements of a tensor into a dtype: which of them, through which window, by which kernels.
 */
#ifndef TENMAP_VALUES_H
#define TENMAP_VALUES_H

#include "../model/model.h"

/* transfer.c: elements of a tensor, selected, converted and put where the caller wants them. */

/* The dtype as the file has it, which may be any text at all. */
tmi_quoted tmi_stored_dtype(const tenmap_tensor *tensor);

/*
 * A block of a tensor. The trailing dimensions that are taken whole make one contiguous run with
 * the first that is not; what is left are the dimensions to walk. Those of one index only add to
 * the start, and there are at most 63 others, since each at least doubles a count that fits in 64
 * bits. A range of elements is a block of one run.
 */
enum { TMI_MOST_WALKED = 64 };

typedef struct tmi_walk {
    uint64_t extent, stride; /* in elements */
} tmi_walk;

typedef struct tmi_transfer {
    const tenmap_tensor *tensor;
    tenmap_dtype stored; /* what its bytes are taken for: its own dtype, or the caller's word */
    bool made; /* it has a source of values (value_source.h) instead of bytes of its dtype */
    tenmap_dtype as;
    uint32_t flags;    /* TENMAP_CONVERT_* */
    uint64_t elements; /* of `stored` that the tensor has */
    unsigned char *dst;
    uint64_t row;        /* elements of the innermost dimension of what is selected */
    uint64_t row_stride; /* bytes from one row in dst to the next; 0: they lie together */
    uint64_t start;      /* of the first run, in elements */
    uint64_t run;        /* elements per run */
    uint64_t count;      /* elements in all; 0: the fields above and below mean nothing */
    unsigned walked;
    tmi_walk *walk; /* the caller's room for TMI_MOST_WALKED, set before a block; innermost first */
} tmi_transfer;

/*
 * Checking, in this order: the tensor and its dtypes; a range or a block, or all of it; the
 * destination. Shapes and counts are those of `stored_as`, which scales the last dimension.
 */
tenmap_status tmi_transfer_begin(tmi_transfer *x, const tenmap_tensor *t, tenmap_dtype stored_as,
                                 tenmap_dtype as, uint32_t flags, tenmap_error *error);
tenmap_status tmi_transfer_range(tmi_transfer *x, uint64_t first, uint64_t count,
                                 tenmap_error *error);
tenmap_status tmi_transfer_block(tmi_transfer *x, const uint64_t *begin, const uint64_t *end,
                                 tenmap_error *error);
/* All of it, in rows where the destination's are to lie apart. */
tenmap_status tmi_transfer_whole(tmi_transfer *x, bool rows, tenmap_error *error);
tenmap_status tmi_transfer_target(tmi_transfer *x, void *dst, size_t dst_bytes, uint64_t dst_stride,
                                  tenmap_error *error);
/*
 * Decides, unless the caller did, whether results go around the cache; `bytes` is the size of all
 * of them together. tmi_transfer_target decides by the transfer's own size.
 */
void tmi_transfer_stream(tmi_transfer *x, uint64_t bytes);

/*
 * The bytes of the file from the first to the last that elements [first, first+count) of the
 * transfer, at least one, are in.
 */
void tmi_transfer_extent(const tmi_transfer *x, uint64_t first, uint64_t count, uint64_t *begin,
                         uint64_t *end);
/* Where element number `i` of the transfer is in the tensor. */
uint64_t tmi_transfer_position(const tmi_transfer *x, uint64_t i);
/*
 * The byte of dst where element `to` of the transfer goes, and the bit in it; *count is lowered to
 * what lies together from there.
 */
unsigned char *tmi_transfer_place(const tmi_transfer *x, uint64_t to, uint64_t *count,
                                  unsigned *bit);
/* Whether the runs lie so close together that reading through the gaps is cheap. */
bool tmi_transfer_is_dense(const tmi_transfer *x);

/*
 * Elements [first, first+count) of the transfer, to their place in dst. With 4- and 6-bit
 * destinations `first` is a multiple of 8, so that two such calls never share a byte. An integer that
 * does not fit is TENMAP_ERR_RANGE.
 */
tenmap_status tmi_transfer_run(const tmi_transfer *x, tmi_window *window, uint64_t first,
                               uint64_t count, tenmap_error *error);
/*
 * After TENMAP_ERR_RANGE in a part that begins with element `first`: where there is an integer before
 * it that does not fit either, perhaps in a part that another thread has, *error names that one.
 */
void tmi_transfer_first_misfit(const tmi_transfer *x, tmi_window *window, uint64_t first,
                               tenmap_error *error);

/* value_source.c: values that are made (value_source.h), and the way to both kinds. */

/* What one thread needs to make values; large, and made when it is first wanted. */
typedef struct tmi_source tmi_source;
void tmi_source_free(tmi_source *source); /* NULL is fine */

/* As tmi_transfer_run, for every tensor. *source begins as NULL, and is kept from call to call. */
tenmap_status tmi_values_run(const tmi_transfer *x, tmi_window *window, tmi_source **source,
                             uint64_t first, uint64_t count, tenmap_error *error);
/*
 * Elements of a tensor whose values are made, one after the other. With `checked` all
 * bytes are read, also those that are mapped, so that a file that has changed is an error.
 */
tenmap_status tmi_values_read(const tenmap_tensor *t, tmi_source **source, uint64_t first,
                              uint64_t count, tenmap_dtype as, uint32_t flags, void *dst,
                              size_t dst_bytes, bool checked, tenmap_error *error);
/*
 * Whether values of a tensor that is made can be told to lose nothing in a dtype but by rounding, and those that
 * were made since the last call, as far as that is known: each is 0 or of a magnitude that F32 and BF16 have
 * in full. No source: none were. Of what was made before the first call it is not known: who never asks does
 * not pay for it.
 */
bool tmi_values_may_be_tame(const tenmap_tensor *t, tenmap_dtype as);
bool tmi_values_were_tame(tmi_source *source);
/* Whether its rows are stored as such: a few of them may then be asked for at a time. */
bool tmi_values_in_rows(const tenmap_tensor *t);
/* How many bytes of files elements [first, first+count) of any tensor stand for; they add up. */
uint64_t tmi_stored_bytes(const tenmap_tensor *t, uint64_t first, uint64_t count);

/* load.c: many at once. */

/* The caller's, filled up with defaults. */
tenmap_status tmi_take_load_options(const tenmap_load_options *given, tenmap_load_options *out,
                                    tenmap_error *error);

/* convert.c: numbers. */

/*
 * Whether elements of `from` can become `to` under these TENMAP_CONVERT_* flags. UNSUPPORTED or
 * ARGUMENT with a sentence otherwise. Neither dtype may be TENMAP_AS_STORED.
 */
tenmap_status tmi_convert_check(tenmap_dtype to, tenmap_dtype from, uint32_t flags,
                                tenmap_error *error);

/*
 * Converts `count` elements of a pair that passed the check. The source is in file order
 * (little-endian) and starts at bit src_bit (0..7, for 4- and 6-bit dtypes) of *src; the result is
 * in host order and starts at bit dst_bit of *dst. Bits of *dst before dst_bit are kept; spare bits
 * after the last element of the last byte become 0. Any alignment; no overlap. Returns `count`, or
 * the number of the first element that is an integer which does not fit, with those before it done;
 * with dst NULL, which is for such pairs only, it just looks.
 */
uint64_t tmi_convert_file(tenmap_dtype to, void *dst, unsigned dst_bit, tenmap_dtype from,
                          const void *src, unsigned src_bit, uint64_t count, uint32_t flags);
/* TENMAP_ERR_RANGE: element `number`, whose value is in file order at *at, does not fit into `to`. */
tenmap_status tmi_fail_misfit(tenmap_error *error, tenmap_dtype to, tenmap_dtype from,
                              const void *at, uint64_t number);

/* losses.c: what a conversion changes that no rounding would. */

/*
 * Adds to *lost what converting these elements does, or did: a pair that passed the check, in file
 * order or in the host's, from bit 0 on.
 */
void tmi_losses_add(tenmap_dtype to, tenmap_dtype from, bool file_order, const void *src,
                    uint64_t count, uint32_t flags, tenmap_losses *lost);

#endif
