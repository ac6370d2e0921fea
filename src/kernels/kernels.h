/*
 * The interface between src/values/ and the kernels. Kernels know nothing about models or errors:
 * their callers have checked the arguments.
 */
#ifndef TENMAP_KERNELS_H
#define TENMAP_KERNELS_H

#include "../base/base.h"

/*
 * The instruction sets of this build. -DTENMAP_NO_AVX2 or -DTENMAP_NO_NEON leaves one out. Kernels
 * use function-level target attributes, which GCC and Clang have, so no -m flag is needed. The
 * other parts that can be left out have TENMAP_NO_WRITE, TENMAP_NO_MEASURE and TENMAP_NO_CHECK; the
 * files that they leave out test for these.
 *
 * On Windows, GCC keeps 32-byte vectors on a stack that is aligned to 16 bytes and moves them as if
 * it were aligned to 32. There AVX2 requires -DTENMAP_AVX2 and an assembler option that makes those
 * moves unaligned (-Wa,-muse-unaligned-vector-move); CMake sets both. Clang does not have this bug.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(TENMAP_NO_AVX2) &&                        \
    (!defined(_WIN32) || defined(__clang__) || defined(TENMAP_AVX2))
#define TMI_AVX2 1
#else
#define TMI_AVX2 0
#endif
#if defined(__aarch64__) && defined(__GNUC__) && !TMI_BIG_ENDIAN && !defined(TENMAP_NO_NEON)
#define TMI_NEON 1
#else
#define TMI_NEON 0
#endif

/*
 * Converts `count` elements in the host's byte order. Both ends are byte-aligned; no other
 * alignment is required. 4- and 6-bit elements come one per byte unless the table says packed.
 * There are two flags. Kernels from F64, F32, F16 and BF16 to something narrower than F32 must
 * honor TENMAP_CONVERT_SATURATE; no other kernel is given it. TENMAP_CONVERT_STREAM asks for
 * non-temporal stores and may be ignored.
 */
typedef void tmi_kernel(void *dst, const void *src, size_t count, uint32_t flags);

/*
 * Sums a block of `count` host-order elements, a multiple of 16 and not 0, into lanes that have
 * just begun (moments.h); for 16-bit elements the shift is 0. `codes` may be non-NULL only for
 * 16-bit elements; each element is then also counted at the index of its code. Returns false if an
 * element has to be left to plain C; the lanes are then undefined and nothing has been counted.
 */
typedef struct tmi_lanes tmi_lanes;
typedef bool tmi_moments(tmi_lanes *lanes, const void *src, size_t count, uint32_t *codes);

/* Finds the histogram bins of `count` host-order F32, a multiple of 8 (moments.h). */
typedef struct tmi_f32_bins tmi_f32_bins;
typedef void tmi_f32_find_bins(uint32_t *places, const void *src, size_t count,
                               const tmi_f32_bins *bins);

/*
 * Combines each of `count` values with the number of its group: by[0] for the first `first` values,
 * at least one, then the next number for each further `group` values. One operation, rounded once.
 */
typedef void tmi_group_op(float *values, size_t count, const float *by, size_t first, size_t group);

/*
 * Unpacks `blocks` whole blocks of a block dtype, in file layout, into F32 in the host's byte
 * order, as many as the blocks hold. src may have any alignment; dst has that of a float.
 */
typedef void tmi_unpack(float *dst, const unsigned char *src, size_t blocks);

/* What a table of 16 holds: any values, those of E2M1, or each code minus 8. */
typedef enum tmi_code_kind { TMI_KIND_ANY, TMI_KIND_E2M1, TMI_KIND_CENTERED } tmi_code_kind;

/*
 * Tables that a kernel computes from scales, cached for the next run: the rows of a block share
 * their scales. scale_bits[i] holds the bits of the scale that entry i was computed from. Initially
 * all its bits are set, which is a NaN.
 */
enum { TMI_CACHED_TABLES = 256, TMI_TABLE_BYTES = 32 };
typedef struct tmi_table_cache {
    uint32_t scale_bits[TMI_CACHED_TABLES];
    unsigned char bytes[TMI_CACHED_TABLES * TMI_TABLE_BYTES];
} tmi_table_cache;

/*
 * A run of values of a quantized weight, starting from its codes. 4-bit codes index a table, and
 * the steps are applied to the table's entries instead of the values because there are fewer of
 * them. The steps are (code - zero) * scale, or code * scale + zero if zeros are added, each
 * rounded to F32.
 */
typedef struct tmi_fused_run {
    const unsigned char *codes; /* starts at a whole byte */
    size_t count;
    const float *table;          /* 16 entries, for 4-bit codes */
    bool high_first;             /* the high half of a byte holds the first of its two codes */
    tmi_code_kind kind;          /* of 4-bit codes, before zeros */
    bool added;                  /* zeros are added */
    const float *scales, *zeros; /* one per group; zeros may be NULL */
    /* Values in the first group, at least one, and in each other group. */
    size_t first, group;
    tmi_table_cache *tables; /* NULL if nothing is cached */
    size_t place;            /* index of the first group in the tables; the next ones follow */
} tmi_fused_run;

/*
 * Dequantizes all of a run to F32, BF16 or F16 at any address, with the flags of a tmi_kernel.
 * Returns false if it leaves the run to other code; it may have written some of dst by then. A
 * caller that asks for non-temporal stores calls `fence` after the last run.
 */
typedef bool tmi_dequant_fused(void *dst, tenmap_dtype as, const tmi_fused_run *run,
                               uint32_t flags);

/* Lines of bytes that are `stride` bytes apart, to write and to read. */
typedef struct tmi_lines {
    unsigned char *bytes;
    size_t stride;
} tmi_lines;
typedef struct tmi_const_lines {
    const unsigned char *bytes;
    size_t stride;
} tmi_const_lines;

/*
 * Splits `count` rows of words into columns. `count` is a multiple of eight. Each word holds the
 * 4-bit codes of eight columns, lowest bits first or, if `awq_order`, in AWQ's order. Writes the
 * codes of each column, the first in the lowest bits, to a line.
 */
typedef void tmi_split_columns(tmi_lines to, tmi_const_lines rows, size_t count, size_t words,
                               bool awq_order);
/*
 * Multiplies `count` E2M1 values, the low half of a byte first, each by its own power of two from
 * 2^-125 to 2^125, given as BF16. The results are F32, BF16 or F16 at any address, with the flags
 * of a tmi_kernel. After non-temporal stores the caller calls `fence`.
 */
typedef void tmi_scale_by_powers(void *dst, tenmap_dtype as, const unsigned char *codes,
                                 const unsigned char *powers, size_t count, uint32_t flags);
/*
 * Transposes a matrix: row i of `from` becomes column i of `to`. With `stream` it may use
 * non-temporal stores, and the caller calls `fence`.
 */
typedef void tmi_transpose(tmi_lines to, tmi_const_lines from, size_t rows, size_t columns,
                           bool stream);

/* Unpacks `count` 4-bit codes, the low half of a byte first, and subtracts `bias` from each. */
typedef void tmi_nibbles(float *values, const unsigned char *bytes, size_t count, int32_t bias);

/* Adds whole blocks of 1024 bytes, at any alignment, to the sums of XXH3 (xxh3_blocks.h). */
typedef void tmi_xxh3_blocks(uint64_t sums[8], const unsigned char *bytes, size_t blocks);

/*
 * Products and sums of F64, for derived tensors. Each multiplication and each addition is rounded
 * by itself: compilers may fuse them if they are not told, which gives other bits.
 */
#if defined(__clang__)
#define TMI_UNFUSED_BEGIN _Pragma("STDC FP_CONTRACT OFF")
#define TMI_UNFUSED_END
#elif defined(__GNUC__)
#define TMI_UNFUSED_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"fp-contract=off\")")
#define TMI_UNFUSED_END _Pragma("GCC pop_options")
#else
#define TMI_UNFUSED_BEGIN
#define TMI_UNFUSED_END
#endif

/* Adds factor * values[i] to each of `count` sums. */
typedef void tmi_add_scaled(double *sums, const double *values, size_t count, double factor);
/* b has `rows` rows of `inner` values, a has `inner` rows that are a_line values apart. */
typedef struct tmi_product {
    const double *b, *a;
    size_t a_line, rows, columns, inner;
} tmi_product;
/*
 * Sets out, `rows` rows of `columns` values, to b @ a: each is 0 plus the products of a row of b
 * and a column of a, added one by one from the first to the last.
 */
typedef void tmi_matrix_product(double *out, const tmi_product *product);

/*
 * The kernels of one instruction set. cpu.c fills entries that are NULL from the next lower
 * instruction set that has them, and plain C is the lowest. So a table may have as few kernels as
 * one, and NULL in a filled table means that no instruction set of the machine has the kernel;
 * other code then does its work. After the name there are only function pointers.
 */
typedef struct tmi_kernels {
    const char *name;
    tmi_kernel *pair[TMI_DTYPE_COUNT][TMI_DTYPE_COUNT]; /* [to][from] */
    /* To F32 rounded to odd, so that rounding again to something narrower acts as one rounding. */
    tmi_kernel *odd[TMI_DTYPE_COUNT];
    /* From F4 packed two per byte. */
    tmi_kernel *packed_f4[TMI_DTYPE_COUNT];
    /* Copies `count` bytes with non-temporal stores. Plain C has none. */
    tmi_kernel *stream_copy;
    /*
     * Orders earlier non-temporal stores, of kernels that leave this to the caller, before all
     * later stores. NULL if no kernel uses such stores.
     */
    void (*fence)(void);
    /* For measuring; if NULL, elements are converted to F32 or F64 and plain C sums them. */
    tmi_moments *moments[TMI_DTYPE_COUNT];
    tmi_f32_find_bins *places;
    /* For quantized weights. */
    tmi_group_op *times, *minus, *plus;
    /* By block dtype, counted from TENMAP_Q4_0. */
    tmi_unpack *unpack[TMI_BLOCK_ROWS];
    tmi_unpack *unpack_nt[TMI_BLOCK_ROWS]; /* non-temporal stores, to multiples of 32 bytes */
    tmi_nibbles *nibbles;
    tmi_dequant_fused *fused4, *fused_e4m3, *fused_i8; /* if NULL, each step is a pass of its own */
    tmi_split_columns *split_columns;
    tmi_scale_by_powers *scale_by_powers;     /* if NULL, other code computes such values */
    tmi_transpose *transpose16, *transpose32; /* elements of 2 and of 4 bytes */
    tmi_xxh3_blocks *xxh3_blocks;
    /* For derived tensors. */
    tmi_add_scaled *add_scaled;
    tmi_matrix_product *product;
} tmi_kernels;

/* group_ops.c: plain C. */
tmi_group_op tmi_group_times, tmi_group_minus, tmi_group_plus;
tmi_nibbles tmi_scalar_nibbles;
/* transpose.c: plain C, and the positions of the eight codes in AWQ's words. */
tmi_split_columns tmi_scalar_split_columns;
tmi_transpose tmi_scalar_transpose16, tmi_scalar_transpose32;
extern const uint8_t tmi_awq_order[8];
/* low_rank_products.c: plain C. */
tmi_add_scaled tmi_scalar_add_scaled;
tmi_matrix_product tmi_scalar_product;
#if TMI_NEON /* arm_neon_low_rank.c */
tmi_add_scaled tmi_neon_add_scaled;
tmi_matrix_product tmi_neon_product;
#endif
#if TMI_NEON /* arm_neon_group_ops.c */
tmi_group_op tmi_neon_group_times, tmi_neon_group_minus, tmi_neon_group_plus;
tmi_nibbles tmi_neon_nibbles;
/* arm_neon_dequant_fused.c */
tmi_dequant_fused tmi_neon_fused4;
#endif

extern const tmi_kernels tmi_kernels_scalar; /* plain C, for every CPU */
#if TMI_AVX2
extern const tmi_kernels tmi_kernels_avx2;
#endif
#if TMI_NEON
extern const tmi_kernels tmi_kernels_neon;
#endif

/*
 * Parameters of a narrowing kernel for formats of at most 16 bits with a sign, a fraction and no
 * more exponent bits than F32. In every format that does not clamp, the code after the largest
 * stands for overflow. A NaN is the sign bit or'ed with one code.
 */
typedef struct tmi_narrow_format {
    unsigned fraction_bits, bias, sign_at;
    uint32_t largest, nan;
    bool always_clamps, unsigned_zero;
} tmi_narrow_format;

#define TMI_NARROW_F4 ((tmi_narrow_format){1, 1, 3, 0x7, 0x8, true, false})
#define TMI_NARROW_F6_E2M3 ((tmi_narrow_format){3, 1, 5, 0x1f, 0x20, true, false})
#define TMI_NARROW_F6_E3M2 ((tmi_narrow_format){2, 3, 5, 0x1f, 0x20, true, false})
#define TMI_NARROW_F8_E5M2 ((tmi_narrow_format){2, 15, 7, 0x7b, 0x7e, false, false})
#define TMI_NARROW_F8_E4M3 ((tmi_narrow_format){3, 7, 7, 0x7e, 0x7f, false, false})
#define TMI_NARROW_F8_E4M3FNUZ ((tmi_narrow_format){3, 8, 7, 0x7f, 0x80, false, true})
#define TMI_NARROW_F8_E5M2FNUZ ((tmi_narrow_format){2, 16, 7, 0x7f, 0x80, false, true})

/* The F32 bits of a positive, normal code of such a format. */
#define TMI_NARROW_AS_F32(f, code)                                                                 \
    (((uint32_t)(code) << (23 - (f).fraction_bits)) + ((127 - (f).bias) << 23))

/* oracle.c: one element at a time, in integer arithmetic; slow, correct by construction. */

/*
 * One end of a conversion: how its elements lie in memory. Block dtypes are allowed only as a
 * source (or, by whole blocks, into themselves), and only in tmi_route.
 */
typedef struct tmi_elements {
    tenmap_dtype dtype;
    /*
     * For 4- and 6-bit dtypes: the bit of the first byte at which the first element starts. For
     * block dtypes: the number of the first element in the first block.
     */
    unsigned bit;
    bool little_endian; /* byte order of elements wider than a byte */
} tmi_elements;

/* Converts one element: takes the bits of an element of `from`, returns those of one of `to`. */
uint64_t tmi_scalar_one(tenmap_dtype to, tenmap_dtype from, uint64_t bits, uint32_t flags);

/* The bits of element i. */
uint64_t tmi_scalar_load(const tmi_elements *elements, const void *base, size_t i);

/*
 * Converts any pair that tmi_convert_check allows, same-type copies included. Bits of *dst before
 * to.bit are kept; unused bits after the last element become 0.
 */
void tmi_scalar_convert(tmi_elements to, void *dst, tmi_elements from, const void *src,
                        size_t count, uint32_t flags);

/* Whether the bits are a subnormal number of a floating-point dtype. */
bool tmi_scalar_is_subnormal(tenmap_dtype dtype, uint64_t bits);

/*
 * The limits beyond which a conversion to a floating-point dtype loses a number, as magnitudes of
 * `middle` (F32 or F64, which represents them exactly): from *over on a number is beyond the
 * largest, and up to *under it becomes zero. If `middle` is no wider than the dtype, nothing is
 * lost: *over is the infinity of `middle` and *under is 0.
 */
void tmi_scalar_limits(tenmap_dtype to, tenmap_dtype middle, uint64_t *over, uint64_t *under);

/* portable.c: helpers for the rare elements that vector kernels leave to plain C. */

uint32_t tmi_f32_from_f64(uint64_t bits);
uint32_t tmi_f32_odd_from_f64(uint64_t bits);

/* integers.c: converts among integer dtypes and BOOL, in the host's byte order. */

/* Whether `to` can represent every value of `from`. */
bool tmi_integers_all_fit(tenmap_dtype to, tenmap_dtype from);
/* Integers that do not fit into a dtype: the first that stopped a conversion, and how many. */
typedef struct tmi_misfits {
    size_t first, count;
} tmi_misfits;
/*
 * Converts elements until one does not fit; of those before it, some may not have been written.
 * `first` of the result is the number of that element, or `count` if there is none. With
 * TENMAP_CONVERT_SATURATE elements that do not fit become the nearest value that does and stop
 * nothing, and the result counts them. If dst is NULL, nothing is written.
 */
tmi_misfits tmi_integers(tenmap_dtype to, void *dst, tenmap_dtype from, const void *src,
                         size_t count, uint32_t flags);

#endif
