/* MLX weights: codes in U32 words along the rows, scales, and biases that are added. */
#include "model.h"
#include "quantized.h"

#include <string.h>

/* Chooses the bits and the columns per group. The shapes give only their product. */
static bool deduce_width(const tmi_quantized_config *config, uint64_t product, uint64_t *bits,
                         uint64_t *group) {
    const uint64_t groups[] = {config->group, 64, 32, 128, 16};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        *group = groups[i];
        *bits = *group ? product / *group : 0;
        if (*bits >= 2 && *bits <= 8 && *bits != 7 && *bits * *group == product)
            return true;
    }
    return false;
}

/* The modes without biases: floats of 4 or 8 bits. */
static bool set_mode_layout(uint64_t product, tmi_quant_layout *r, const char **name) {
    enum { NVFP4 = 4 * 16, MXFP4 = 4 * 32, MXFP8 = 8 * 32 };
    bool nvfp4 = product == NVFP4, mxfp8 = product == MXFP8;
    if (!nvfp4 && !mxfp8 && product != MXFP4)
        return false;
    r->codes = TMI_CODES_DTYPE;
    r->code_dtype = mxfp8 ? TENMAP_F8_E4M3 : TENMAP_F4;
    r->bits = mxfp8 ? 8 : 4;
    r->group_columns = nvfp4 ? 16 : 32;
    r->scale_dtype = nvfp4 ? TENMAP_F8_E4M3 : TENMAP_F8_E8M0;
    *name = nvfp4 ? "nvfp4" : mxfp8 ? "mxfp8" : "mxfp4";
    return true;
}

static bool set_affine_layout(tmi_part_finder *f, const tenmap_tensor *t,
                              const tenmap_tensor *scales, uint64_t product, tmi_quant_weight *c) {
    static const char *const names[9] = {
        "", "",           "int2-affine", "int3-affine", "int4-affine", "int5-affine", "int6-affine",
        "", "int8-affine"};
    const size_t cut = strlen(".weight");
    const tenmap_tensor *biases = tmi_find_part(f, t, cut, ".biases");
    uint64_t bits, group;
    if (!biases)
        return f->status == TENMAP_OK && tmi_part_missing(f, t, cut, ".biases", "MLX");
    if (biases->dtype != scales->dtype || biases->nelems != scales->nelems)
        return TMI_PART_WRONG(f, t, biases, "expected as many %s as there are scales",
                              tenmap_dtype_text(scales));
    if (!deduce_width(f->config, product, &bits, &group))
        return TMI_PART_WRONG(f, t, scales, "no width of 2 to 8 bits gives that many groups");
    c->layout.codes = TMI_CODES_STREAM;
    c->layout.bits = (uint8_t)bits;
    c->layout.group_columns = group;
    c->layout.scale_dtype = scales->dtype;
    c->layout.zeros = TMI_ZEROS_ADDED;
    c->parts[TMI_PART_ZEROS] = biases;
    c->computed.scheme = (tenmap_scheme){names[bits], (uint32_t)bits, 0, 0, 0};
    return true;
}

/* Whether all axes of the values and the scales are equal, except for the last. */
static bool same_rows(const tenmap_tensor *t, const tenmap_tensor *scales) {
    if (scales->rank != t->rank || scales->shape[t->rank - 1] == 0)
        return false;
    for (uint32_t d = 0; d + 1 < t->rank; d++)
        if (scales->shape[d] != t->shape[d])
            return false;
    return true;
}

bool tmi_find_mlx(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    tmi_quant_layout *r = &c->layout;
    if (t->dtype != TENMAP_U32 || !tmi_ends_with(t, ".weight") || t->rank < 2)
        return false;
    const tenmap_tensor *scales = tmi_find_part(f, t, strlen(".weight"), ".scales");
    if (!scales)
        return f->status == TENMAP_OK && strcmp(f->config->method, "mlx") == 0 &&
               tmi_part_missing(f, t, strlen(".weight"), ".scales", "MLX");
    uint64_t words = t->shape[t->rank - 1];
    bool fits = same_rows(t, scales) && words <= UINT64_MAX / 32;
    uint64_t groups = fits ? scales->shape[t->rank - 1] : 1;
    uint64_t product = fits && words * 32 % groups == 0 ? words * 32 / groups : 0;
    const char *mode = "";
    bool plain = scales->dtype == TENMAP_U8;
    if (plain ? !set_mode_layout(product, r, &mode)
              : product == 0 || (scales->dtype != TENMAP_F16 && scales->dtype != TENMAP_BF16 &&
                                 scales->dtype != TENMAP_F32))
        return TMI_PART_WRONG(
            f, t, scales,
            "expected one scale for each group of each row of the values, which are %s",
            tmi_shape_text(t->shape, t->rank).text);
    if (plain)
        c->computed.scheme = (tenmap_scheme){mode, r->bits, 0, 0, 0};
    else if (!set_affine_layout(f, t, scales, product, c))
        return false;
    r->rows = r->scale_rows = t->shape[t->rank - 2];
    r->row_bytes = words * 4;
    r->matrix_bytes = r->rows * r->row_bytes;
    r->group_rows = 1;
    r->scale_columns = groups;
    r->columns = groups * r->group_columns;
    c->parts[TMI_PART_VALUES] = t;
    c->parts[TMI_PART_SCALES] = scales;
    return tmi_set_last_extent(f, t, r->columns, c);
}
