/*
 * tenmap: how a tensor is stored. The scheme and the stored parts of a quantized weight, and how
 * its codes are packed, for programs that compute with the parts as they are mapped. read.h gives
 * the values of such a weight. docs/quantized.md describes the schemes.
 */
#ifndef TENMAP_INCLUDE_QUANTIZED_H
#define TENMAP_INCLUDE_QUANTIZED_H

#include "read.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a tensor is stored. Owned by the library, valid until tenmap_close. */
typedef struct tenmap_scheme {
    const char *name;    /* "none", "fp8-block", "mxfp4", "q4_k", ...: docs/quantized.md has all */
    uint32_t bits;       /* of a stored value; 0 for "none" */
    uint32_t group_rows; /* a scale is shared by this many rows and columns of the last two axes; */
    uint32_t group_columns; /* 0: all of that axis */
    uint32_t part_count;    /* 0 for a tensor that is not computed */
} tenmap_scheme;

/*
 * Never NULL: "none" for NULL and for a tensor whose elements are stored directly. The scheme of a
 * block dtype is its name in lower case, without parts: TENMAP_Q4_K is "q4_k", 4 bits, groups of 1
 * x 32.
 */
TENMAP_API const tenmap_scheme *tenmap_scheme_of(const tenmap_tensor *tensor);
/*
 * The i-th part of a TENMAP_TENSOR_COMPUTED tensor, as stored; NULL past the end. The parts that
 * the weight has come in this order: VALUES, SCALES, ZEROS or BIASES, GLOBAL_SCALE, GROUP_INDEX,
 * TABLE, NESTED_SCALES, NESTED_TABLE, OTHER. There may be several OTHER, but at most one of each
 * other kind. Every call that takes a tensor takes parts. tenmap_at and tenmap_find do not return
 * them.
 */
TENMAP_API const tenmap_tensor *tenmap_part_at(const tenmap_tensor *tensor, uint32_t i);

/* What a part is. Values never change; new ones are appended. */
enum {
    TENMAP_PART_VALUES = 1, /* the codes; for a strided tensor, the range of the file */
    TENMAP_PART_SCALES = 2,
    TENMAP_PART_ZEROS = 3,         /* subtracted from codes: tenmap_packing.zeros is 1, 2 or 3 */
    TENMAP_PART_GROUP_INDEX = 4,   /* the group of scales of each column of the weight (I32) */
    TENMAP_PART_GLOBAL_SCALE = 5,  /* one for all scales, or one for each matrix */
    TENMAP_PART_TABLE = 6,         /* the value of each code */
    TENMAP_PART_OTHER = 7,         /* describes the weight; products do not need it */
    TENMAP_PART_BIASES = 8,        /* added to scaled codes: tenmap_packing.zeros is 4 */
    TENMAP_PART_NESTED_SCALES = 9, /* the scales of SCALES, which are then codes themselves */
    TENMAP_PART_NESTED_TABLE = 10, /* the value of each code of SCALES */
    TENMAP_PART_TERM = 11          /* a term of a derived tensor (derive.h) */
};
/* TENMAP_PART_* of the i-th part; 0 past the end and for a tensor without parts. */
TENMAP_API uint32_t tenmap_part_role(const tenmap_tensor *tensor, uint32_t i);

/*
 * How the codes of a quantized weight are packed in VALUES, and which scale belongs to which code.
 * With this, an engine can compute with the parts as they are mapped. Owned by the library, valid
 * until tenmap_close; it grows at the end.
 *
 * Where a code is stored: the last two axes of the weight are its matrices. For each of them,
 * VALUES has one matrix of `rows` x `columns` codes; these are matrix_bytes apart. Element (i, j)
 * of a matrix of the weight has the number e = i * n + j, where n is the weight's last extent. Its
 * code is in row e / columns and column e % columns. So a weight whose codes lie in one long row
 * has one row. If `transposed`, the code of element (i, j) is in row j and column i instead.
 *
 * Which bits a code has: codes are packed into words of word_bits bits, little-endian. The words of
 * a row follow each other from byte row * row_bytes on, and code k is the one in column k. With
 * `down`, the words of a column begin at byte column * word_bits / 8 and are row_bytes apart, and
 * code k is the one in row k. Code k is field order[k % per_word] of word k / per_word; fields are
 * counted from the lowest bits. If per_word is 0, codes may cross words: code k begins at bit
 * k * bits of the stream that the words form.
 *
 * What a code means: a number of dtype `code`. If `code` is TENMAP_AS_STORED, the number is
 * TABLE[field] if there is a TABLE, else field - bias. Its scale is in row (row / group_rows) and
 * column (column / group_columns) of a matrix of scale_rows x scale_columns; all matrices share one
 * such matrix if scales_shared. With a GROUP_INDEX g, the scale is in column g[column] instead, or,
 * if transposed, in row g[row]. The value is (number - zero) * scale. With BIASES, it is
 * number * scale, plus the entry of BIASES for that scale.
 */
typedef struct tenmap_packing {
    uint32_t bits;            /* of a code */
    uint32_t word_bits;       /* 8 or 32 */
    uint32_t per_word;        /* codes in a word; 0: codes may cross words */
    uint8_t order[32];        /* order[i]: the field of code i in its word, from the lowest bits */
    uint32_t down;            /* 1: codes are packed down the stored columns, not along the rows */
    uint32_t transposed;      /* 1: stored rows are the columns of the weight */
    tenmap_dtype code, scale; /* code: AS_STORED for unsigned integers; scale: to read SCALES as */
    int32_t bias;             /* subtracted from every unsigned code and every packed zero */
    /*
     * How the scale to use follows from the stored one. 0: it is the same. 1: times GLOBAL_SCALE.
     * 2: divided by GLOBAL_SCALE. 3: times 1/127. 4: scale i is NESTED_TABLE[stored] *
     * NESTED_SCALES[i / nested_block] + nested_offset. Each operation is rounded to F32.
     */
    uint32_t scale_op;
    /*
     * How zeros are stored. 0: there are none. 1: as elements of a dtype of their own, one for each
     * scale. 2: as fields of `bits` bits along the rows of scales, in the order of the codes, each
     * row in whole 32-bit words. 3: as a stream of such fields down each column of scales, from the
     * lowest bits up; ZEROS then has rows of one 32-bit word for each column. 4: there are BIASES
     * instead, one for each scale.
     */
    uint32_t zeros;
    uint32_t zero_plus_one; /* 1: packed zeros are stored minus one, modulo 2^bits */
    uint64_t rows, columns, row_bytes, matrix_bytes;
    uint64_t group_rows, group_columns, scale_rows, scale_columns;
    uint32_t scales_shared;
    float nested_offset;
    uint64_t nested_block;
} tenmap_packing;
/*
 * NULL for tensors whose values are not packed codes: plain and strided tensors, block dtypes.
 * Opening the model checked everything in it against the parts, except for the numbers in
 * GROUP_INDEX: check these before you use them.
 */
TENMAP_API const tenmap_packing *tenmap_packing_of(const tenmap_tensor *tensor);

/* The stored tensors of one quantized weight, recognized by their names and dtypes alone. */
typedef struct tenmap_quantized {
    const char *family;   /* who writes it so: "GPTQ or AWQ", "MLX", ... Static */
    uint32_t dequantizes; /* 1: TENMAP_OPEN_DEQUANTIZE has the rules of this family; else 0 */
    uint32_t part_count;  /* at least 2 */
    uint64_t values;      /* of the weight; 0 where the parts do not say */
    const tenmap_tensor *parts[12]; /* the codes first */
    uint64_t reserved[4];           /* 0 */
} tenmap_quantized;

/*
 * For a model that is opened as it is stored. Returns 1 and sets *out (may be NULL) if `tensor`
 * holds the codes of a quantized weight and a part that tells its family is there too; else 0, and
 * sets nothing. Families that the library cannot dequantize are recognized as well. Whether parts
 * fit together is not checked. May read a part of at most 64 bytes, which holds the weight's shape.
 */
TENMAP_API int tenmap_quantized_of(const tenmap_tensor *tensor, tenmap_quantized *out);
/* The name of the i-th family that tenmap_quantized_of knows; NULL past the end. Static. */
TENMAP_API const char *tenmap_family_at(size_t i);

#ifdef __cplusplus
}
#endif

#endif
