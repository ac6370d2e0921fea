/*
 * Weights of 8 bits per value with scales beside them: FP8 in blocks (DeepSeek, Qwen), per row and
 * per tensor (compressed-tensors, ComfyUI), and INT8 likewise.
 */
#include "model.h"
#include "quantized.h"

#include <string.h>

/* Names of scales: appended to the weight's name, or, with a dot, to its module's name. */
static const char *const scale_endings[] = {"_scale_inv", "_scale", ".scale", ".scale_weight",
                                            ".SCB"};
enum { ENDING_SCB = 4 };

static bool is_float8(tenmap_dtype dtype) {
    return dtype == TENMAP_F8_E4M3 || dtype == TENMAP_F8_E5M2 || dtype == TENMAP_F8_E4M3FNUZ ||
           dtype == TENMAP_F8_E5M2FNUZ;
}

static const tenmap_tensor *find_scales(tmi_part_finder *f, const tenmap_tensor *t, size_t *which) {
    bool is_weight = tmi_ends_with(t, ".weight");
    for (size_t i = 0; i < sizeof scale_endings / sizeof *scale_endings; i++) {
        bool of_module = scale_endings[i][0] == '.';
        if (of_module && !is_weight)
            continue;
        const tenmap_tensor *s =
            tmi_find_part(f, t, of_module ? strlen(".weight") : 0, scale_endings[i]);
        if (s) {
            *which = i;
            return s;
        }
    }
    return NULL;
}

/* Zero points, one per scale, that are subtracted from the signed codes. */
static bool find_8bit_zeros(tmi_part_finder *f, const tenmap_tensor *t, size_t cut,
                            tmi_quant_weight *c) {
    const tenmap_tensor *zeros = tmi_find_part(f, t, cut, "_zero_point");
    if (!zeros)
        return f->status == TENMAP_OK;
    if (zeros->nelems != c->parts[TMI_PART_SCALES]->nelems ||
        (zeros->dtype != TENMAP_I8 && zeros->dtype != TENMAP_U8))
        return TMI_PART_WRONG(f, t, zeros, "expected one 8-bit zero point for each scale");
    c->parts[TMI_PART_ZEROS] = zeros;
    c->layout.zeros = TMI_ZEROS_DTYPE;
    return true;
}

/*
 * bitsandbytes stores the order of the elements: 0 is row-major. The others (col32, col_turing,
 * col_ampere) are layouts for GPUs, which bitsandbytes no longer reads either.
 */
static bool check_row_order(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    const tenmap_tensor *format = tmi_find_part(f, t, 0, "_format");
    unsigned char order[8] = {0};
    if (!format)
        return f->status == TENMAP_OK;
    if (format->nelems != 1 || format->nbytes > sizeof order)
        return TMI_PART_WRONG(f, t, format, "expected one number");
    if (!tmi_part_read(f, t, format, order, (size_t)format->nbytes))
        return false;
    if (tmi_file_u64(order) != 0)
        return TMI_PART_WRONG(f, t, format, "it says order %llu; expected 0 (row by row)",
                              (ull)tmi_file_u64(order));
    c->parts[TMI_PART_ANNOTATION] = format;
    return true;
}

/*
 * Annotations that some writers put beside a weight: bitsandbytes the order of its elements,
 * ComfyUI its format, torchao its type.
 */
static bool check_annotations(tmi_part_finder *f, const tenmap_tensor *t, bool bitsandbytes,
                              tmi_quant_weight *c) {
    if (bitsandbytes) {
        if (t->dtype != TENMAP_I8 || c->layout.scale_rows != c->layout.rows)
            return TMI_PART_WRONG(f, t, c->parts[TMI_PART_SCALES],
                                  "expected one for each of the %llu rows of an I8 weight",
                                  (ull)c->layout.rows);
        c->layout.scale = TMI_SCALE_127;
        return check_row_order(f, t, c);
    } else if (tmi_ends_with(t, ".weight")) {
        const tenmap_tensor *annotation = tmi_find_part(f, t, strlen(".weight"), ".comfy_quant");
        c->parts[TMI_PART_ANNOTATION] = annotation;
        return annotation ? tmi_check_comfy(f, t, annotation) : f->status == TENMAP_OK;
    } else if (tmi_ends_with(t, "._weight_qdata")) {
        return tmi_check_torchao(f, t, c);
    }
    return f->status == TENMAP_OK;
}

static const char *scheme_name_8bit(const tenmap_tensor *t, const tmi_quant_layout *r) {
    bool fp8 = is_float8(t->dtype);
    if (r->scale_dtype == TENMAP_F8_E8M0 && fp8 && r->group_rows == 1)
        return "mxfp8";
    if (r->scale_rows == 1 && r->scale_columns == 1)
        return fp8 ? "fp8-tensor" : "int8-tensor";
    if (r->scale_columns == 1)
        return fp8 ? "fp8-channel" : "int8-channel";
    if (r->group_rows == 1)
        return fp8 ? "fp8-group" : "int8-group";
    return fp8 ? "fp8-block" : "int8-block";
}

bool tmi_find_8bit(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    bool fp8 = is_float8(t->dtype);
    size_t which = 0;
    if ((!fp8 && t->dtype != TENMAP_I8) || t->rank == 0)
        return false;
    bool torchao = tmi_ends_with(t, "._weight_qdata");
    c->cut = torchao ? strlen("_weight_qdata") : 0;
    c->ending = torchao ? "weight" : "";
    const tenmap_tensor *scales =
        torchao ? tmi_find_part(f, t, strlen("_qdata"), "_scale") : find_scales(f, t, &which);
    if (!scales) {
        bool said = strcmp(f->config->method, "fp8") == 0 && fp8 && tmi_ends_with(t, ".weight");
        return said && f->status == TENMAP_OK && tmi_part_missing(f, t, 0, "_scale_inv", "FP8");
    }
    tmi_quant_layout *r = &c->layout;
    r->codes = TMI_CODES_DTYPE;
    r->code_dtype = t->dtype;
    r->bits = 8;
    r->rows = t->rank > 1 ? t->shape[t->rank - 2] : 1;
    r->columns = r->row_bytes = t->shape[t->rank - 1];
    r->matrix_bytes = r->rows * r->columns;
    c->parts[TMI_PART_VALUES] = t;
    /* E8M0 was stored as U8 before there was a name for it. */
    tenmap_dtype as = scales->dtype == TENMAP_U8 ? TENMAP_F8_E8M0 : scales->dtype;
    if (!tmi_set_scales(f, t, c, scales, as) || !find_8bit_zeros(f, t, torchao ? 6 : 0, c))
        return false;
    c->rank = t->rank;
    c->shape = t->shape;
    if (!check_annotations(f, t, which == ENDING_SCB, c))
        return false;
    c->computed.scheme = (tenmap_scheme){scheme_name_8bit(t, r), 8, 0, 0, 0};
    return true;
}
