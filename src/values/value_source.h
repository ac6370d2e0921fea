/*
 * A source produces the values of tensors whose elements are not stored directly, such as
 * dequantized weights. It computes them as F32, one row of the stored matrix at a time, and says
 * whether the stored matrix is transposed. value_source.c splits the boxes that a transfer asks for
 * into tiles that suit the source, converts the values to the wanted dtype and stores them in the
 * destination. Tensors whose elements are stored directly have no source: their bytes go through
 * the kernels of conversion_route.c.
 */
#ifndef TENMAP_VALUE_SOURCE_H
#define TENMAP_VALUE_SOURCE_H

#include "../kernels/kernels.h"
#include "../model/quantized.h"
#include "values.h"

/*
 * The most values that are asked for at once: as F32, directly into the destination, and as an F32
 * tile; and the bytes of a tile of codes, or of elements that are transposed in the destination's
 * dtype.
 */
enum {
    TMI_SOURCE_RUN = 2048,
    TMI_FUSED_RUN = 16384,
    TMI_TILE_VALUES = TMI_SOURCE_RUN * 8,
    TMI_TILE_BYTES = TMI_TILE_VALUES * 20
};

/* Reads the bytes of one part of a tensor. */
typedef struct tmi_part_reader {
    const tenmap_tensor *tensor; /* NULL: the tensor has no such part */
    const unsigned char *base;   /* its bytes in memory; NULL: it is read through the window */
    tmi_window window;
    tmi_block buffer;
} tmi_part_reader;

/*
 * The destination of values that are computed in one pass: F32, BF16 or F16, with TENMAP_CONVERT_*
 * flags.
 */
typedef struct tmi_destination {
    tenmap_dtype as;
    unsigned char *dst;
    uint32_t flags;
    bool done; /* set by the function that computes the values, if it did */
} tmi_destination;

/* A tile of a transposed tensor: which part of the tensor s->tile holds. */
typedef struct tmi_tile {
    uint64_t row, column; /* its first row and column in the stored matrix */
    size_t wide, high;    /* its stored rows and columns: columns and rows of the tensor */
    size_t line;          /* bytes from one line of s->tile to the next */
    unsigned skip;        /* codes before the first wanted one: tiles begin with a whole word */
    size_t runs;          /* groups along a row of the tensor, each with a scale */
    size_t first, group;  /* values of the first group, and of each other group */
} tmi_tile;

/*
 * How the values of one kind of tensor are computed. `row` computes `count` values, at most
 * TMI_SOURCE_RUN, of row `row` of matrix `matrix`, starting at `column`. Rows, columns and matrices
 * are those that are stored.
 */
typedef struct tmi_value_ops {
    /* Called when a thread switches to the tensor, after its parts are set; may be NULL. */
    tenmap_status (*begin)(tmi_source *source, tenmap_error *error);
    tenmap_status (*row)(tmi_source *source, uint64_t matrix, uint64_t row, uint64_t column,
                         size_t count, float *values, tenmap_error *error);
    /*
     * Computes at most TMI_FUSED_RUN values in one pass, and sets target->done. If it leaves
     * target->done unset, the caller uses `row`.
     */
    tenmap_status (*fused)(tmi_source *source, uint64_t matrix, uint64_t row, uint64_t column,
                           size_t count, tmi_destination *target, tenmap_error *error);
    /*
     * Fills s->tile with the codes of `wide` stored rows and `high` of their columns, starting at
     * (row, column). Sets *done if the layout allows it and the codes fit. Then `transposed_row`
     * computes row `i` of the tile, as the tensor has it: into the target if that is not NULL and
     * `transposed_row` sets its `done`, otherwise into `values` as F32.
     */
    tenmap_status (*transpose_tile)(tmi_source *source, uint64_t matrix, const tmi_tile *tile,
                                    bool *done, tenmap_error *error);
    void (*transposed_row)(tmi_source *source, size_t i, float *values, tmi_destination *target);
    /*
     * Computes the stored rows of such a tile in one pass, tile->line bytes apart, at target->dst.
     * Sets target->done if it did.
     */
    tenmap_status (*tile_rows)(tmi_source *source, uint64_t matrix, const tmi_tile *tile,
                               tmi_destination *target, tenmap_error *error);
} tmi_value_ops;

/*
 * A part of a matrix of the tensor, and where it goes: row after row, from element `to` of the
 * transfer on.
 */
typedef struct tmi_values_box {
    uint64_t matrix, row, column, rows, columns, to;
} tmi_values_box;

/*
 * The most scales that are held at once: one for each value of a run, or one for each group that a
 * group list (g_idx) may name.
 */
enum { TMI_MOST_SCALES = TMI_MOST_GROUPS + 1 }; /* the latter are more */
typedef struct tmi_scale_cache {
    uint64_t row, first; /* which are held: of row `row` of scales, from number `first` on */
    size_t count;        /* 0: none */
    float scales[TMI_MOST_SCALES], zeros[TMI_MOST_SCALES];
} tmi_scale_cache;

/* What one thread needs to compute values, of one tensor after the other. */
struct tmi_source {
    const tenmap_tensor *tensor; /* the one that the thread has switched to; NULL: none */
    const tmi_value_ops *ops;
    const tmi_quant_layout *layout; /* how its values are stored */
    uint64_t rows, columns;         /* of a stored matrix */
    bool transposed;
    size_t wide, high; /* of a tile, if the tensor is transposed and its parts are in memory */
    /* Stored rows of a tile, if parts are read: the parts' windows hold all of them. */
    size_t window_rows;
    /* Rows follow one another in every part: a run may continue in the next row. */
    bool rows_contiguous;
    bool reading;    /* parts are read, even those that are in memory */
    bool all_normal; /* see tmi_values_were_normal */
    tmi_part_reader parts[TMI_PART_COUNT];
    /* State of the functions in `ops`. */
    tmi_scale_cache scale_cache;
    tmi_table_cache tables;
    float table[16], nested_table[256];
    float global_scale;
    uint64_t global_scale_of; /* the element of the global scale part that `global_scale` is */
    uint32_t groups[TMI_SOURCE_RUN], least_group, most_group;
    /* A tile as F32 as it is stored, the same transposed, and that in the destination's dtype. */
    float stored[TMI_TILE_VALUES], transposed_f32[TMI_TILE_VALUES];
    unsigned char tile[TMI_TILE_BYTES];
    /*
     * Or `tile` holds codes, transposed. Their scales and zeros are in `stored` and
     * `transposed_f32`, or in `scale_bytes`.
     */
    tmi_tile at;
    unsigned char scale_bytes[TMI_TILE_VALUES * 4];
};

/*
 * Sets *bytes to bytes [offset, offset+size) of a part; size is at most 32 KiB. They are valid
 * until the next call for the same part.
 */
tenmap_status tmi_source_bytes(tmi_source *source, unsigned part, uint64_t offset, size_t size,
                               const unsigned char **bytes, tenmap_error *error);
/* The size in bytes of the window on a part that is not in memory. */
size_t tmi_source_window(const tmi_source *source, unsigned part);
/*
 * Converts `count` elements of a part to F32, from element `first` on. Its bytes are interpreted as
 * dtype `as`.
 */
tenmap_status tmi_source_floats(tmi_source *source, unsigned part, tenmap_dtype as, uint64_t first,
                                size_t count, float *out, tenmap_error *error);

/* dequantize.c: quantized weights. */
extern const tmi_value_ops tmi_dequantizer;

/* Reads a 32-bit word of a file, which is little-endian. */
static inline uint32_t tmi_word_at(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/*
 * dequantize_fields.c: unpacks `count` fields of `bits` bits, from field `at` of a bit stream on.
 * `bytes` points to the byte in which that field begins.
 */
void tmi_unpack_stream(const unsigned char *bytes, uint64_t at, size_t count, unsigned bits,
                       uint8_t *fields);
void tmi_unpack_awq(const unsigned char *words, uint64_t at, size_t count, uint8_t *fields);
/*
 * Unpacks `count` fields of row `row` of a part whose fields are packed down the columns of a
 * matrix of words. A row of words is `stride` bytes long.
 */
tenmap_status tmi_read_down(tmi_source *source, unsigned part, uint64_t matrix_at, uint64_t stride,
                            uint64_t row, uint64_t column, size_t count, uint8_t *fields,
                            tenmap_error *error);

/* dequantize_scales.c: scales and zero points. */
/*
 * Makes s->scale_cache hold scales [first, first+count) of row `row` of a matrix's scales, and
 * their zeros.
 */
tenmap_status tmi_cache_scales(tmi_source *source, uint64_t matrix, uint64_t row, uint64_t first,
                               size_t count, tenmap_error *error);
/*
 * Makes s->scale_cache hold the scales of all groups in s->groups, which lists the group of each of
 * `count` values. The scale of group g is s->scale_cache.scales[g - s->scale_cache.first].
 */
tenmap_status tmi_cache_listed_scales(tmi_source *source, uint64_t matrix, uint64_t row,
                                      size_t count, tenmap_error *error);
/*
 * Sets s->groups to the groups of rows or columns [first, first+count). A group that is not below
 * `groups` is an error.
 */
tenmap_status tmi_read_groups(tmi_source *source, uint64_t first, size_t count, uint64_t groups,
                              tenmap_error *error);
/*
 * Computes values from codes in place, with a scale and a zero for each group. The first group has
 * `first` values, each other `group`.
 */
void tmi_apply_scales(const tmi_quant_layout *r, const float *scales, const float *zeros,
                      float *values, size_t count, size_t first, size_t group);

/* dequantize_transposed.c: weights that are stored transposed, a tile at a time. */
tenmap_status tmi_transpose_tile(tmi_source *source, uint64_t matrix, const tmi_tile *tile,
                                 bool *done, tenmap_error *error);
void tmi_transposed_row(tmi_source *source, size_t i, float *values, tmi_destination *target);
tenmap_status tmi_tile_rows(tmi_source *source, uint64_t matrix, const tmi_tile *tile,
                            tmi_destination *target, tenmap_error *error);
/* Sets the size of the tiles that suit the layout. */
void tmi_choose_tile(tmi_source *source);

#endif
