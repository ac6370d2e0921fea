/*
 * A source of values: what a tensor's elements are made of where they are not simply there. It gives
 * them as F32, a row of the stored matrix at a time, and says which way its rows lie; value_source.c walks the
 * boxes that a transfer asks for in tiles that suit it, and puts them where they belong, in the dtype
 * that is wanted. Plain tensors have none: their bytes go straight through the kernels of conversion_route.c.
 */
#ifndef TENMAP_SOURCE_H
#define TENMAP_SOURCE_H

#include "../kernels/kernels.h"
#include "../model/quantized.h"
#include "values.h"

/*
 * The most values that are asked for at once, straight into the destination, and in a tile of F32; and the
 * bytes of a tile of codes or of elements that are turned as they are.
 */
enum {
    TMI_SOURCE_RUN = 2048,
    TMI_FUSED_RUN = 16384,
    TMI_TILE_VALUES = TMI_SOURCE_RUN * 8,
    TMI_TILE_BYTES = TMI_TILE_VALUES * 20
};

/* One part of a tensor, on its way into memory. */
typedef struct tmi_part_reader {
    const tenmap_tensor *tensor; /* NULL: there is none */
    const unsigned char *base;   /* where it is in memory; else it is read through the window */
    tmi_window window;
    tmi_block room;
} tmi_part_reader;

/* Where values go that are made in one pass: F32, BF16 or F16, and TENMAP_CONVERT_* flags. */
typedef struct tmi_destination {
    tenmap_dtype as;
    unsigned char *dst;
    uint32_t flags;
    bool done; /* set where they were made */
} tmi_destination;

/* A tile of a tensor that is stored the other way round: what of it is in s->tile. */
typedef struct tmi_tile {
    uint64_t row, column; /* of what is stored */
    size_t wide, high;    /* stored rows and columns: columns and rows of the tensor */
    size_t line;          /* bytes from one line of s->tile to the next */
    unsigned skip;        /* codes before the first in a line */
    size_t runs;          /* groups along a row of the tensor, each with a scale */
    size_t first, group;  /* values of the first, and of the others */
} tmi_tile;

/*
 * How one kind of tensors is made. `row` gives `count` values, at most TMI_SOURCE_RUN, of row `row` of
 * matrix `matrix` from `column` on; rows, columns and matrices are those of what is stored.
 */
typedef struct tmi_maker {
    /* When a thread turns to the tensor; may be NULL. The parts are there. */
    tenmap_status (*begin)(tmi_source *source, tenmap_error *error);
    tenmap_status (*row)(tmi_source *source, uint64_t matrix, uint64_t row, uint64_t column,
                         size_t count, float *values, tenmap_error *error);
    /* The same in one pass, at most TMI_FUSED_RUN of them, where target->done says so. */
    tenmap_status (*straight)(tmi_source *source, uint64_t matrix, uint64_t row, uint64_t column,
                              size_t count, tmi_destination *target, tenmap_error *error);
    /*
     * Makes s->tile the codes of `wide` stored rows and `high` of their columns, from (row, column) on;
     * *done says whether it can, and they fit. Then `turned` gives row `i` of the tensor's, as
     * F32, or to the target where that is not NULL and its `done` is set.
     */
    tenmap_status (*turn)(tmi_source *source, uint64_t matrix, const tmi_tile *tile, bool *done,
                          tenmap_error *error);
    void (*turned)(tmi_source *source, size_t i, float *values, tmi_destination *target);
    /*
     * Makes the stored rows of such a tile, each tile->line bytes from the other, at target->dst, in one
     * pass, where target->done says so.
     */
    tenmap_status (*lines)(tmi_source *source, uint64_t matrix, const tmi_tile *tile,
                           tmi_destination *target, tenmap_error *error);
} tmi_maker;

/* A part of a matrix of the tensor, and where it goes: rows one behind the other, from `to` on. */
typedef struct tmi_values_box {
    uint64_t matrix, row, column, rows, columns, to;
} tmi_values_box;

/* A scale for each value at most, or for each group that is listed; and those that were used last. */
enum { TMI_MOST_SCALES = TMI_MOST_GROUPS + 1 }; /* the former are fewer */
typedef struct tmi_scales {
    uint64_t row, first; /* which are here: those of a row of scales, from `first` on */
    size_t count;        /* 0: none */
    float scales[TMI_MOST_SCALES], zeros[TMI_MOST_SCALES];
} tmi_scales;

/* One thread's work on one tensor after the other. */
struct tmi_source {
    const tenmap_tensor *tensor; /* that it is turned to */
    const tmi_maker *maker;
    const tmi_quant_layout *layout; /* of a TENMAP_TENSOR_COMPUTED one; else NULL */
    uint64_t rows, columns;         /* of a stored matrix */
    bool transposed;
    size_t wide, high; /* of tiles, where parts are in memory and the tensor is transposed */
    size_t flat;  /* stored rows of a tile, where parts are read: their windows hold them all */
    bool joined;  /* rows follow one another in every part: columns past the last are of the next */
    bool reading; /* no part is taken from memory */
    bool tame;    /* see tmi_values_were_tame */
    tmi_part_reader parts[TMI_PART_COUNT];
    /* What makers keep. */
    tmi_scales kept;
    tmi_tables tables;
    float table[16], nested_table[256];
    float second;
    uint64_t second_of; /* which matrix's it is */
    uint32_t groups[TMI_SOURCE_RUN], least_group, most_group;
    /* A tile as it is stored, the same as it is wanted, and that in its dtype. */
    float stored[TMI_TILE_VALUES], turned[TMI_TILE_VALUES];
    unsigned char tile[TMI_TILE_BYTES];
    /* Or `tile` has codes, turned; their scales and zeros are in `stored` and `turned`, or `beside` it. */
    tmi_tile at;
    unsigned char beside[TMI_TILE_VALUES * 4];
};

/* *bytes are [offset, offset+size) of a part, at most 32 KiB, until the next call about it. */
tenmap_status tmi_source_bytes(tmi_source *source, unsigned part, uint64_t offset, size_t size,
                               const unsigned char **bytes, tenmap_error *error);
/* How many bytes of a part, which is not in memory, are held at a time. */
size_t tmi_source_window(const tmi_source *source, unsigned part);
/* Elements of a part as F32: from the `first`-th on, of the dtype that its bytes are taken for. */
tenmap_status tmi_source_floats(tmi_source *source, unsigned part, tenmap_dtype as, uint64_t first,
                                size_t count, float *out, tenmap_error *error);

/* dequantize.c: weights in parts. */
extern const tmi_maker tmi_dequantizer;

/* Files are little-endian. */
static inline uint32_t tmi_word_at(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* dequantize_fields.c: `count` fields of `bits` bits, from field `at` of a stream on, in whose byte `bytes` begins. */
void tmi_unpack_stream(const unsigned char *bytes, uint64_t at, size_t count, unsigned bits,
                       uint8_t *fields);
void tmi_unpack_awq(const unsigned char *words, uint64_t at, size_t count, uint8_t *fields);
/* Fields of row `row` of a part that go down the columns of a matrix, whose rows of words are `stride` long. */
tenmap_status tmi_read_down(tmi_source *source, unsigned part, uint64_t matrix_at, uint64_t stride,
                            uint64_t row, uint64_t column, size_t count, uint8_t *fields,
                            tenmap_error *error);

/* dequantize_scales.c */
/* Makes s->kept those of scales [first, first+count) of row `row` of a matrix's scales. */
tenmap_status tmi_cache_scales(tmi_source *source, uint64_t matrix, uint64_t row, uint64_t first,
                               size_t count, tenmap_error *error);
/* Makes s->kept hold the scales of s->groups, which are of `count` values, from number s->kept.first of the row on. */
tenmap_status tmi_keep_listed(tmi_source *source, uint64_t matrix, uint64_t row, size_t count,
                              tenmap_error *error);
/* Makes s->groups those of rows or columns [first, first+count), each below `groups`. */
tenmap_status tmi_read_groups(tmi_source *source, uint64_t first, size_t count, uint64_t groups,
                              tenmap_error *error);
/* Values of codes: a scale and a zero for each group, of which the first has `first` of them. */
void tmi_apply_scales(const tmi_quant_layout *r, const float *scales, const float *zeros,
                      float *values, size_t count, size_t first, size_t group);

/* dequantize_transposed.c: those that are stored the other way round, a tile at a time. */
tenmap_status tmi_transpose_tile(tmi_source *source, uint64_t matrix, const tmi_tile *tile,
                                 bool *done, tenmap_error *error);
void tmi_transposed_row(tmi_source *source, size_t i, float *values, tmi_destination *target);
tenmap_status tmi_tile_rows(tmi_source *source, uint64_t matrix, const tmi_tile *tile,
                            tmi_destination *target, tenmap_error *error);
/* The tile that suits a recipe. */
void tmi_choose_tile(tmi_source *source);

#endif
