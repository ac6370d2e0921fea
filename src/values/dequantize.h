/* Dequantizes weights: what one thread needs for it, and the steps in their files. */
#ifndef TENMAP_DEQUANTIZE_H
#define TENMAP_DEQUANTIZE_H

#include "../kernels/kernels.h"
#include "../model/quantized.h"
#include "part_reader.h"
#include "value_rows.h"
#include "value_source.h"

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

/* The state of the maker. */
typedef struct tmi_dequantizer {
    tmi_value_rows out;             /* comes first: tmi_row_ops get its address */
    const tenmap_tensor *tensor;    /* the one that the thread has switched to; NULL: none */
    const tmi_quant_layout *layout; /* how its values are stored */
    tmi_part_reader parts[TMI_PART_COUNT];
    tmi_scale_cache scale_cache;
    tmi_table_cache tables;
    float table[16], nested_table[256];
    float global_scale;
    bool reading;        /* parts are read, even those that are in memory */
    uint64_t values_end; /* the run that was begun last needs no code at or after this offset */
    uint64_t global_scale_of; /* the element of the global scale part that `global_scale` is */
    uint32_t groups[TMI_SOURCE_RUN], least_group, most_group;
    /* Scales of a tile, if `out.stored` and `out.transposed_f32` do not hold them. */
    unsigned char scale_bytes[TMI_TILE_VALUES * 4];
} tmi_dequantizer;

static inline tmi_dequantizer *tmi_dequantizer_of(tmi_value_rows *rows) {
    return (tmi_dequantizer *)(void *)rows;
}

/*
 * Sets *bytes to bytes [offset, offset+size) of a part; size is at most 32 KiB. They are valid
 * until the next call for the same part.
 */
tenmap_status tmi_quant_bytes(tmi_dequantizer *s, unsigned part, uint64_t offset, size_t size,
                              const unsigned char **bytes, tenmap_error *error);
/* The size in bytes of the window on a part that is not in memory. */
size_t tmi_quant_window(const tmi_dequantizer *s, unsigned part);
/* `count` elements of a part, from element `first` on, whose bytes are interpreted as a dtype. */
typedef struct tmi_part_run {
    unsigned part;
    tenmap_dtype as;
    uint64_t first;
    size_t count;
} tmi_part_run;
/* Converts elements of a part to F32. */
tenmap_status tmi_quant_floats(tmi_dequantizer *s, const tmi_part_run *run, float *out,
                               tenmap_error *error);

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
/* A part whose fields are packed down the columns of matrices of 32-bit words. */
typedef struct tmi_packed_down {
    unsigned part;
    uint64_t matrix_bytes, row_bytes; /* of a matrix, and of a row of words in it */
} tmi_packed_down;
/* Unpacks a run of fields of such a part. */
tenmap_status tmi_read_down(tmi_dequantizer *s, const tmi_packed_down *packed,
                            const tmi_row_run *run, uint8_t *fields, tenmap_error *error);

/* dequantize_scales.c: scales and zero points. */
/*
 * Makes s->scale_cache hold scales [first, first+count) of row `row` of a matrix's scales, and
 * their zeros.
 */
tenmap_status tmi_cache_scales(tmi_dequantizer *s, uint64_t matrix, uint64_t row, uint64_t first,
                               size_t count, tenmap_error *error);
/*
 * Makes s->scale_cache hold the scales of all groups in s->groups, which lists the group of each of
 * `count` values. The scale of group g is s->scale_cache.scales[g - s->scale_cache.first].
 */
tenmap_status tmi_cache_listed_scales(tmi_dequantizer *s, uint64_t matrix, uint64_t row,
                                      size_t count, tenmap_error *error);
/*
 * Sets s->groups to the groups of rows or columns [first, first+count). A group that is not below
 * `groups` is an error.
 */
tenmap_status tmi_read_groups(tmi_dequantizer *s, uint64_t first, size_t count, uint64_t groups,
                              tenmap_error *error);
/* A scale and a zero for each group. The first group has `first` values, each other `group`. */
typedef struct tmi_group_scales {
    const float *scales, *zeros;
    size_t first, group;
} tmi_group_scales;
/* Computes values from codes in place. */
void tmi_apply_scales(const tmi_quant_layout *r, const tmi_group_scales *by, float *values,
                      size_t count);

/* dequantize_transposed.c: weights that are stored transposed, a tile at a time. */
tenmap_status tmi_transpose_tile(tmi_value_rows *rows, uint64_t matrix, const tmi_tile *tile,
                                 bool *done, tenmap_error *error);
void tmi_transposed_row(tmi_value_rows *rows, size_t i, float *values, tmi_destination *target);
tenmap_status tmi_tile_rows(tmi_value_rows *rows, uint64_t matrix, const tmi_tile *tile,
                            tmi_destination *target, tenmap_error *error);
/* Sets the size of the tiles that suit the layout, and whether the parts are in memory. */
void tmi_choose_tile(tmi_dequantizer *s);

#endif
