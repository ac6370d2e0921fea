/*
 * NVFP4 of GGUF. Its blocks contain a scale for every 16 values. A further scale may be stored in a
 * tensor next to the weight, one for the whole weight or one for each expert: blk.0.ffn_up.scale
 * for blk.0.ffn_up.weight.
 */
#include "model.h"
#include "quantized.h"

#include <string.h>

bool tmi_find_nvfp4_scale(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    if (t->dtype != TENMAP_NVFP4 || t->rank == 0 || !tmi_ends_with(t, ".weight"))
        return false;
    const tenmap_tensor *scale = tmi_find_part(f, t, strlen(".weight"), ".scale");
    if (!scale)
        return false;
    tmi_quant_layout *r = &c->layout;
    r->codes = TMI_CODES_DTYPE;
    r->code_dtype = t->dtype;
    r->bits = 4; /* not counting scales; sizes come from the dtype */
    r->rows = t->rank > 1 ? t->shape[t->rank - 2] : 1;
    r->columns = t->shape[t->rank - 1];
    r->row_bytes = tmi_bytes_of(t->dtype, r->columns);
    r->matrix_bytes = r->rows * r->row_bytes;
    r->group_rows = r->rows ? r->rows : 1;
    r->group_columns = r->columns ? r->columns : 1;
    r->scale_rows = r->scale_columns = 1;
    r->scale_shared = scale->nelems == 1;
    r->scale_dtype = scale->dtype;
    if (scale->dtype != TENMAP_F32 && scale->dtype != TENMAP_F16 && scale->dtype != TENMAP_BF16)
        return TMI_PART_WRONG(f, t, scale, "expected a scale of F32, F16 or BF16");
    if (!r->scale_shared && scale->nelems != tmi_matrices(t->shape, t->rank))
        return TMI_PART_WRONG(
            f, t, scale, "expected one scale, or one for each matrix, for a weight of shape %s",
            tmi_shape_text(t->shape, t->rank).text);
    c->parts[TMI_PART_VALUES] = t;
    c->parts[TMI_PART_SCALES] = scale;
    c->rank = t->rank;
    c->shape = t->shape;
    c->computed.scheme = tmi_dtype_blocks(t->dtype)->scheme;
    return true;
}
