/*
 * What conversion_route.c and the kernels know of each other. Kernels know nothing of models or errors: they
 * take arguments that convert.c has checked.
 */
#ifndef TENMAP_KERNELS_H
#define TENMAP_KERNELS_H

#include "../base/base.h"

/*
 * The instruction sets of this build. -DTENMAP_NO_AVX2 or -DTENMAP_NO_NEON leaves one out. Kernels
 * use function-level target attributes, so no -m flag is needed; GCC and Clang have them.
 * TENMAP_NO_WRITE, TENMAP_NO_MEASURE and TENMAP_NO_CHECK, which leave out the rest that can be, are
 * asked for in the files that they leave out.
 *
 * On Windows GCC keeps 32-byte vectors on a stack that is aligned to 16 and moves them as if it were
 * aligned to 32. There AVX2 wants -DTENMAP_AVX2 and an assembler that is told to make those moves
 * unaligned (-Wa,-muse-unaligned-vector-move), which CMake does. Clang has no such fault.
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
 * Converts `count` elements in the host's byte order, both ends byte-aligned and of any alignment
 * beyond that. 4- and 6-bit elements come one per byte unless the table says packed. The flags are
 * TENMAP_CONVERT_SATURATE, which kernels from F64, F32, F16 and BF16 to something narrower than F32 must
 * honour and no other kernel is given, and TENMAP_CONVERT_STREAM, which asks for stores that go
 * around the cache and may be ignored.
 */
typedef void tmi_kernel(void *dst, const void *src, size_t count, uint32_t flags);

/*
 * Sums over a block of `count` host-order elements, a multiple of 16 and at least one, into lanes
 * that have just begun (moments.h), those of 16 bits about 0. Unless `codes` is NULL, which it is but
 * for elements of 16 bits, each of them is counted there too, at the place that its code says. False,
 * the lanes of no value and nothing counted, if there is an element that it leaves to plain C.
 */
typedef struct tmi_lanes tmi_lanes;
typedef bool tmi_moments(tmi_lanes *lanes, const void *src, size_t count, uint32_t *codes);

/* The bins of `count` host-order F32, a multiple of 8 (moments.h). */
typedef struct tmi_f32_bins tmi_f32_bins;
typedef void tmi_f32_places(uint32_t *places, const void *src, size_t count,
                            const tmi_f32_bins *bins);

/*
 * Each of `count` values with the number of its group: by[0] for the first `first` of them, at least
 * one, then the next for each `group` more. One operation, rounded once.
 */
typedef void tmi_group_op(float *values, size_t count, const float *by, size_t first, size_t group);

/*
 * Unpacks whole blocks of a block dtype, as files have them, into F32 in the host's order: so many
 * blocks, and as many elements as they hold. Any alignment of src, that of a float of dst.
 */
typedef void tmi_unpack(float *dst, const unsigned char *src, size_t blocks);

/* What a table of 16 has: anything, the numbers of E2M1, or each code less 8. */
typedef enum tmi_code_kind { TMI_KIND_ANY, TMI_KIND_E2M1, TMI_KIND_CENTRED } tmi_code_kind;

/*
 * What a kernel makes of scales, kept for the next run: the rows of a block have the same ones. Each place
 * has the bits of the scale that it is of; at first all of them set, which is a NaN.
 */
enum { TMI_TABLES = 256, TMI_TABLE_BYTES = 32 };
typedef struct tmi_tables {
    uint32_t of[TMI_TABLES];
    unsigned char bytes[TMI_TABLES * TMI_TABLE_BYTES];
} tmi_tables;

/*
 * A run of values of a weight in parts, from its codes on. Codes of 4 bits are numbers of a table, whose
 * entries take the steps instead of the values: there are fewer of them. The steps are (code - zero) *
 * scale, or code * scale + zero where zeros are added, each rounded to F32.
 */
typedef struct tmi_fused_run {
    const unsigned char *codes; /* from a whole byte on */
    size_t count;
    const float *table;          /* of 16, for codes of 4 bits */
    bool high_first;             /* the high half of a byte is the first of its two codes */
    tmi_code_kind kind;          /* of codes of 4 bits; zeros apart */
    bool added;                  /* zeros are */
    const float *scales, *zeros; /* of each group; zeros may be NULL */
    size_t first, group;         /* values of the first group, at least one, and of the others */
    tmi_tables *tables;          /* NULL: nothing is kept */
    size_t place;                /* of the first group in the tables; the next are behind it */
} tmi_fused_run;

/*
 * Makes all of a run, as F32, BF16 or F16 at any address, with the flags of a tmi_kernel. False if it
 * leaves the run to others, whatever it has written by then. Who asks for stores around the cache calls
 * `fence` after the last of them.
 */
typedef bool tmi_dequant_fused(void *dst, tenmap_dtype as, const tmi_fused_run *run,
                               uint32_t flags);

/*
 * `count` rows of words, a multiple of eight, `stride` bytes apart; each word has codes of 4 bits of eight
 * columns, the lowest bits first, or mixed, in the order that AWQ has. The codes of each column, the first in
 * the lowest bits, `line` bytes apart.
 */
typedef void tmi_split_columns(unsigned char *to, size_t line, const unsigned char *rows,
                               size_t stride, size_t count, size_t words, bool mixed);
/*
 * `count` values of E2M1, the low half of a byte first, each times a power of two of its own, from 2^-125 to
 * 2^125, which is there as BF16: as F32, BF16 or F16, at any address, with the flags of a tmi_kernel. After
 * stores around the cache the caller calls `fence`.
 */
typedef void tmi_scale_by_powers(void *dst, tenmap_dtype as, const unsigned char *codes,
                                 const unsigned char *powers, size_t count, uint32_t flags);
/*
 * A matrix the other way round: row i of `from` becomes column i of `to`, whose rows are `to_stride` bytes
 * apart. With `stream` stores may go around the cache, and the caller calls `fence`.
 */
typedef void tmi_transpose(unsigned char *to, size_t to_stride, const unsigned char *from,
                           size_t from_stride, size_t rows, size_t columns, bool stream);

/* `count` codes of 4 bits, the low half of a byte first, each less a number. */
typedef void tmi_nibbles(float *values, const unsigned char *bytes, size_t count, int32_t less);

/* One instruction set. What an entry leaves NULL is done by tmi_kernels_scalar's. */
typedef struct tmi_kernels {
    const char *name;
    tmi_kernel *pair[TMI_DTYPE_COUNT][TMI_DTYPE_COUNT]; /* [to][from] */
    /* To F32 rounded to odd, so that rounding again to something narrower is one rounding. */
    tmi_kernel *odd[TMI_DTYPE_COUNT];
    /* From F4 packed two per byte. */
    tmi_kernel *packed_f4[TMI_DTYPE_COUNT];
    /* A copy of `count` bytes around the cache; NULL: this instruction set does not stream. */
    tmi_kernel *stream_copy;
    /* Stores around the cache that a tmi_dequant_fused has made come before all that follow; where it streams. */
    void (*fence)(void);
    /* For measuring; where NULL, elements become F32 or F64 and plain C does it. */
    tmi_moments *moments[TMI_DTYPE_COUNT];
    tmi_f32_places *places;
    /* For weights in parts. */
    tmi_group_op *times, *minus, *plus;
    /* By block dtype, counted from TENMAP_Q4_0 on. */
    tmi_unpack *unpack[TMI_BLOCK_ROWS];
    tmi_unpack *unpack_nt[TMI_BLOCK_ROWS]; /* past the cache, to multiples of 32 bytes */
    tmi_nibbles *nibbles;
    tmi_dequant_fused *fused4, *fused_e4m3,
        *fused_i8; /* where NULL, values take one step after the other */
    tmi_split_columns *split_columns;
    tmi_scale_by_powers *scale_by_powers;     /* where NULL, others make such values */
    tmi_transpose *transpose16, *transpose32; /* of elements of 2 and of 4 bytes */
} tmi_kernels;

/* group_ops.c: in plain C. */
tmi_group_op tmi_group_times, tmi_group_minus, tmi_group_plus;
tmi_nibbles tmi_scalar_nibbles;
/* transpose.c: likewise; where the eight codes of AWQ's words are. */
tmi_split_columns tmi_scalar_split_columns;
tmi_transpose tmi_scalar_transpose16, tmi_scalar_transpose32;
extern const uint8_t tmi_awq_order[8];
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
 * Formats of at most 16 bits with a sign, fraction and no more exponent than F32, as a narrowing
 * kernel wants them. Overflow is the code after the largest, by nature of each format that does not
 * clamp; a NaN is the sign bit or'ed with one code.
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

/* The F32 bits of a positive code of such a format that is not subnormal. */
#define TMI_NARROW_AS_F32(f, code)                                                                 \
    (((uint32_t)(code) << (23 - (f).fraction_bits)) + ((127 - (f).bias) << 23))

/* oracle.c. One element at a time, integers only; slow, and right by construction. */

/*
 * One end of a conversion: how the elements lie in memory. Block dtypes are taken as a source only (and
 * by whole blocks into themselves), and by tmi_route alone.
 */
typedef struct tmi_elements {
    tenmap_dtype dtype;
    /* Of the first byte, where the first element starts: 4- and 6-bit dtypes. The number of the first
     * element in the first block: block dtypes. */
    unsigned bit;
    bool little_endian; /* the byte order of elements that are wider than a byte */
} tmi_elements;

/* The bits of one element of `to` for the bits of one element of `from`. */
uint64_t tmi_scalar_one(tenmap_dtype to, tenmap_dtype from, uint64_t bits, uint32_t flags);

/* The bits of element i. */
uint64_t tmi_scalar_load(const tmi_elements *elements, const void *base, size_t i);

/*
 * Any pair that tmi_convert_check allows, same-type copies included. Bits of *dst before to.bit are
 * kept; spare bits after the last element become 0.
 */
void tmi_scalar_convert(tmi_elements to, void *dst, tmi_elements from, const void *src,
                        size_t count, uint32_t flags);

/* Whether the bits are a subnormal number of a floating-point dtype. */
bool tmi_scalar_is_subnormal(tenmap_dtype dtype, uint64_t bits);

/*
 * Where a conversion to a floating-point dtype loses a number, as magnitudes of `middle` (F32 or F64,
 * which holds those places exactly): from *over on it is beyond the largest, up to *under it becomes
 * zero. A middle no wider than the dtype loses nothing: its infinity, and 0.
 */
void tmi_scalar_limits(tenmap_dtype to, tenmap_dtype middle, uint64_t *over, uint64_t *under);

/* portable.c: what vector kernels need for the rare element that they leave to plain C. */

uint32_t tmi_f32_from_f64(uint64_t bits);
uint32_t tmi_f32_odd_from_f64(uint64_t bits);

/* integers.c: integers and BOOL into other such dtypes, in the host's byte order. */

/* Whether `to` holds every value of `from`. */
bool tmi_integers_all_fit(tenmap_dtype to, tenmap_dtype from);
/*
 * Converts up to the first that does not fit, whose number is *first then (else count), and returns 0
 * if all fit. With TENMAP_CONVERT_SATURATE what does not fit becomes the nearest value that does, and
 * the result is how many those are. *dst may be written up to `count` elements; NULL: this only looks.
 */
size_t tmi_integers(tenmap_dtype to, void *dst, tenmap_dtype from, const void *src, size_t count,
                    uint32_t flags, size_t *first);

/* cpu.c: the choice, made once. */

const tmi_kernels *tmi_cpu_kernels(void);
/* Whether a result of so many bytes is too large to stay in the cache. */
bool tmi_cpu_streams(uint64_t bytes);
#ifdef TENMAP_TESTING
/* That instruction set, or NULL if this machine or this build lacks it. */
const tmi_kernels *tmi_cpu_find(const char *name);
void tmi_cpu_use(const tmi_kernels *kernels);
#endif

/* conversion_route.c: from any allowed dtype to any other, by way of the kernels. */

/*
 * Returns `count`, or less where an integer does not fit into an integer dtype: the number of the first
 * such element, with those before it converted.
 */
uint64_t tmi_route(tmi_elements to, void *dst, tmi_elements from, const void *src, uint64_t count,
                   uint32_t flags);
/* Integers and BOOL to another such dtype: the same, and with dst NULL it only looks. */
bool tmi_route_is_integer(tenmap_dtype to, tenmap_dtype from);
uint64_t tmi_route_integers(tmi_elements to, void *dst, tmi_elements from, const void *src,
                            uint64_t count, uint32_t flags, uint64_t *clamped);

#endif
