/*
 * FP4 and FP6 packed in bytes: MXFP4 and NVFP4 of gpt-oss, compressed-tensors, ModelOpt and
 * DeepSeek, and MXFP6 of compressed-tensors.
 */
#include "model.h"
#include "quantized.h"

#include <string.h>

enum { MX_GROUP = 32, NV_GROUP = 16 };

static bool is_e8m0(const tenmap_tensor *scales) {
    return scales->dtype == TENMAP_U8 || scales->dtype == TENMAP_F8_E8M0;
}

/*
 * Whether the scales have the same axes as the values, except for the last one, which counts
 * groups.
 */
static bool scale_axes_fit(const tenmap_tensor *t, uint32_t rank, const tenmap_tensor *scales) {
    if (scales->rank != rank)
        return false;
    for (uint32_t d = 0; d + 1 < rank; d++)
        if (scales->shape[d] != t->shape[d])
            return false;
    return true;
}

/* Elements of a sub-byte dtype, in rows of `row_bytes` bytes, with a scale for each group. */
static void set_fp4_layout(tmi_quant_weight *c, tenmap_dtype dtype, uint64_t rows,
                           uint64_t row_bytes, uint64_t group) {
    tmi_quant_layout *r = &c->layout;
    r->codes = TMI_CODES_DTYPE;
    r->code_dtype = dtype;
    r->bits = tmi_dtypes[dtype].bits;
    r->rows = r->scale_rows = rows;
    r->columns = row_bytes / r->bits * 8 + row_bytes % r->bits * 8 / r->bits;
    r->row_bytes = row_bytes;
    r->matrix_bytes = rows * row_bytes;
    r->group_rows = 1;
    r->group_columns = group;
    r->scale_columns = r->columns / group + (r->columns % group != 0);
    r->scale_dtype = group == NV_GROUP ? TENMAP_F8_E4M3 : TENMAP_F8_E8M0;
}

/* gpt-oss: N_blocks [..., R, G, 16] and N_scales [..., R, G] form the weight N [..., G * 32, R]. */
bool tmi_find_mxfp4_blocks(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    const size_t cut = strlen("_blocks");
    uint32_t rank = t->rank;
    if (t->dtype != TENMAP_U8 || !tmi_ends_with(t, "_blocks") || rank < 3 ||
        t->shape[rank - 1] != MX_GROUP / 2)
        return false;
    c->cut = cut;
    const tenmap_tensor *scales = tmi_find_part(f, t, cut, "_scales");
    if (!scales)
        return f->status == TENMAP_OK && tmi_part_missing(f, t, cut, "_scales", "MXFP4");
    uint64_t rows = t->shape[rank - 3], groups = t->shape[rank - 2];
    if (!is_e8m0(scales) || !scale_axes_fit(t, rank - 1, scales) ||
        scales->shape[rank - 2] != groups)
        return TMI_PART_WRONG(f, t, scales, "expected U8 %s",
                              tmi_shape_text(t->shape, rank - 1).text);
    set_fp4_layout(c, TENMAP_F4, rows, groups * (MX_GROUP / 2), MX_GROUP);
    c->layout.transposed = true;
    c->parts[TMI_PART_VALUES] = t;
    c->parts[TMI_PART_SCALES] = scales;
    c->computed.scheme = (tenmap_scheme){"mxfp4", 4, 0, 0, 0};
    uint64_t *shape = tmi_shape_room(f, rank - 1);
    if (!shape)
        return false;
    memcpy(shape, t->shape, (rank - 3) * sizeof *shape);
    shape[rank - 3] = groups * MX_GROUP;
    shape[rank - 2] = rows;
    c->rank = rank - 1;
    c->shape = shape;
    return true;
}

/* NVFP4's global scale: one for the whole weight, or one for each matrix. */
static bool find_global_scale(tmi_part_finder *f, const tenmap_tensor *t, size_t cut, bool packed,
                              tmi_quant_weight *c) {
    const char *ending = packed ? "_global_scale" : "_scale_2";
    const tenmap_tensor *global_scale = tmi_find_part(f, t, cut, ending);
    if (!global_scale)
        return f->status == TENMAP_OK && tmi_part_missing(f, t, cut, ending, "NVFP4");
    if (global_scale->dtype != TENMAP_F32 ||
        (global_scale->nelems != 1 && global_scale->nelems != tmi_matrices(t->shape, t->rank)))
        return TMI_PART_WRONG(f, t, global_scale, "expected one F32, or one for each matrix");
    c->parts[TMI_PART_GLOBAL_SCALE] = global_scale;
    c->layout.scale = packed ? TMI_SCALE_DIVIDED : TMI_SCALE_TIMES;
    return true;
}

static const tenmap_tensor *find_fp4_scales(tmi_part_finder *f, const tenmap_tensor *t,
                                            size_t cut) {
    const tenmap_tensor *scales = tmi_find_part(f, t, cut, "_scale");
    if (!scales && !cut && tmi_ends_with(t, ".weight"))
        scales = tmi_find_part(f, t, strlen(".weight"), ".scale");
    return f->status == TENMAP_OK ? scales : NULL;
}

/* The sub-byte dtype of the values, deduced from the number of scales in a row. */
static tenmap_dtype deduce_fp4_dtype(const tenmap_tensor *t, const tenmap_tensor *scales,
                                     bool packed) {
    uint64_t bytes = t->shape[t->rank - 1];
    uint64_t groups = scales->rank ? scales->shape[scales->rank - 1] : 0;
    if (groups == 0 || bytes > UINT64_MAX / 8 || groups > UINT64_MAX / 32)
        return TENMAP_AS_STORED;
    if (scales->dtype == TENMAP_F8_E4M3)
        return groups == (bytes * 2 + NV_GROUP - 1) / NV_GROUP ? TENMAP_F4 : TENMAP_AS_STORED;
    if (!is_e8m0(scales))
        return TENMAP_AS_STORED;
    if (groups == (bytes * 2 + MX_GROUP - 1) / MX_GROUP)
        return TENMAP_F4;
    return packed && bytes * 4 == groups * MX_GROUP * 3 ? TENMAP_F6_E2M3 : TENMAP_AS_STORED;
}

bool tmi_find_fp4_bytes(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    bool packed = tmi_ends_with(t, "_packed");
    size_t cut = packed ? strlen("_packed") : 0;
    if ((t->dtype != TENMAP_U8 && (packed || t->dtype != TENMAP_I8)) || t->rank < 2)
        return false;
    c->cut = cut;
    const tenmap_tensor *scales = find_fp4_scales(f, t, cut);
    if (!scales)
        return packed && f->status == TENMAP_OK &&
               tmi_part_missing(f, t, cut, "_scale", "MXFP4 or NVFP4");
    tenmap_dtype dtype = deduce_fp4_dtype(t, scales, packed);
    bool nvfp4 = scales->dtype == TENMAP_F8_E4M3;
    if (dtype == TENMAP_AS_STORED || !scale_axes_fit(t, t->rank, scales))
        return packed && TMI_PART_WRONG(f, t, scales,
                                        "expected one scale for every 32 (U8) or 16 (F8_E4M3) "
                                        "elements of the values, which are %s",
                                        tmi_shape_text(t->shape, t->rank).text);
    if (!packed && tmi_ends_with(t, ".weight") &&
        tmi_find_part(f, t, strlen(".weight"), ".comfy_quant"))
        return TMI_PART_WRONG(
            f, t, scales,
            "ComfyUI stores these scales in an order of its own, which is not supported");
    set_fp4_layout(c, dtype, t->shape[t->rank - 2], t->shape[t->rank - 1],
                   nvfp4 ? NV_GROUP : MX_GROUP);
    c->parts[TMI_PART_VALUES] = t;
    c->parts[TMI_PART_SCALES] = scales;
    if (nvfp4 && !find_global_scale(f, t, cut, packed, c))
        return false;
    const char *name = nvfp4 ? "nvfp4" : dtype == TENMAP_F4 ? "mxfp4" : "mxfp6";
    c->computed.scheme = (tenmap_scheme){name, c->layout.bits, 0, 0, 0};
    return tmi_set_last_extent(f, t, c->layout.columns, c);
}
