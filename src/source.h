/*
 * A source of values: what a tensor's elements are made of where they are not simply there. It gives
 * them as F32, a row of the stored matrix at a time, and says which way its rows lie; source.c walks the
 * boxes that a transfer asks for in tiles that suit it, and puts them where they belong, in the dtype
 * that is wanted. Plain tensors have none: their bytes go straight through the kernels of route.c.
 */
#ifndef TENMAP_SOURCE_H
#define TENMAP_SOURCE_H

#include "quantized.h"
#include "values.h"

/* The most values that are asked for at once. */
enum { TMI_SOURCE_RUN = 2048 };

/* One part of a tensor, on its way into memory. */
typedef struct tmi_part {
    const tenmap_tensor *tensor; /* NULL: there is none */
    const unsigned char *base;   /* where it is in memory; else it is read through the window */
    tmi_window window;
    tmi_block room;
} tmi_part;

/*
 * How one kind of tensors is made. `row` gives `count` values, at most TMI_SOURCE_RUN, of row `row` of
 * matrix `matrix` from `column` on; rows, columns and matrices are those of what is stored.
 */
typedef struct tmi_maker {
    /* When a thread turns to the tensor; may be NULL. The parts are there. */
    tenmap_status (*begin)(tmi_source *source, tenmap_error *error);
    tenmap_status (*row)(tmi_source *source, uint64_t matrix, uint64_t row, uint64_t column,
                         size_t count, float *values, tenmap_error *error);
} tmi_maker;

/* A part of a matrix of the tensor, and where it goes: rows one behind the other, from `to` on. */
typedef struct tmi_values_box {
    uint64_t matrix, row, column, rows, columns, to;
} tmi_values_box;

/* A scale for each value at most, and those that were used last. */
typedef struct tmi_scales {
    uint64_t row, first; /* which are here: those of a row of scales, from `first` on */
    size_t count;        /* 0: none */
    float scales[TMI_SOURCE_RUN + 1], zeros[TMI_SOURCE_RUN + 1];
} tmi_scales;

/* One thread's work on one tensor after the other. */
struct tmi_source {
    const tenmap_tensor *tensor; /* that it is turned to */
    const tmi_maker *maker;
    const tmi_recipe *recipe; /* of a TENMAP_TENSOR_COMPUTED one; else NULL */
    uint64_t rows, columns;   /* of a stored matrix */
    bool transposed;
    bool reading; /* no part is taken from memory */
    tmi_part parts[TMI_PART_COUNT];
    /* What makers keep. */
    tmi_scales kept;
    float table[16], nested_table[256];
    float second;
    uint64_t second_of; /* which matrix's it is */
    uint32_t groups[TMI_SOURCE_RUN];
    /* A tile as it is stored, the same as it is wanted, and that in its dtype. */
    float stored[TMI_SOURCE_RUN * 8], turned[TMI_SOURCE_RUN * 8];
    unsigned char placed[TMI_SOURCE_RUN * 8 * 8];
};

/* *bytes are [offset, offset+size) of a part, at most 16 KiB, until the next call about it. */
tenmap_status tmi_source_bytes(tmi_source *source, unsigned part, uint64_t offset, size_t size,
                               const unsigned char **bytes, tenmap_error *error);
/* Elements of a part as F32: from the `first`-th on, of the dtype that its bytes are taken for. */
tenmap_status tmi_source_floats(tmi_source *source, unsigned part, tenmap_dtype as, uint64_t first,
                                size_t count, float *out, tenmap_error *error);

/* recipe.c: weights in parts. */
extern const tmi_maker tmi_recipe_maker;

#endif
