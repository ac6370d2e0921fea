/*
 * Reads the scales and zero points of quantized weights, and applies them to codes. Each step is
 * one operation in F32; docs/quantized.md has the formulas.
 */
#include "dequantize.h"
#include "cpu.h"

static tenmap_status fail_group_index(const tmi_dequantizer *s, uint64_t first, size_t count,
                                      uint64_t groups, tenmap_error *error) {
    const tenmap_tensor *list = s->parts[TMI_PART_GROUP_INDEX].tensor;
    size_t i = 0;
    while (i + 1 < count && s->groups[i] < groups)
        i++;
    return TMI_FAIL_TENSOR(error, TENMAP_ERR_FORMAT, s->tensor,
                           "element %llu of its part %s is %lld, but there are only %llu groups of "
                           "scales",
                           (ull)(first + i), tmi_quote(list->name, list->name_len).text,
                           (long long)(int32_t)s->groups[i], (ull)groups);
}

/*
 * Reads the groups that the model lists for its rows or columns (g_idx), and notes the least and
 * the greatest.
 */
tenmap_status tmi_read_groups(tmi_dequantizer *s, uint64_t first, size_t count, uint64_t groups,
                              tenmap_error *error) {
    const unsigned char *bytes;
    uint32_t least = UINT32_MAX, most = 0;
    tenmap_status status =
        tmi_quant_bytes(s, TMI_PART_GROUP_INDEX, first * 4, count * 4, &bytes, error);
    for (size_t i = 0; status == TENMAP_OK && i < count; i++) {
        uint32_t group = s->groups[i] = tmi_word_at(bytes + 4 * i);
        least = group < least ? group : least;
        most = group > most ? group : most;
    }
    s->least_group = least;
    s->most_group = most;
    return status == TENMAP_OK && most >= groups ? fail_group_index(s, first, count, groups, error)
                                                 : status;
}

/* Scales that are quantized themselves: table[code] * nested + offset, each operation rounded. */
static tenmap_status nested_scales(tmi_dequantizer *s, uint64_t first, size_t count, float *out,
                                   tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    float *nested = s->scale_cache.zeros; /* such schemes have no zero points */
    const unsigned char *codes;
    uint64_t block = first / r->nested_block;
    size_t blocks = (size_t)((first + count - 1) / r->nested_block - block + 1);
    tenmap_status status = tmi_quant_floats(
        s, &(tmi_part_run){TMI_PART_NESTED_SCALES, TENMAP_F32, block, blocks}, nested, error);
    if (status == TENMAP_OK)
        status = tmi_quant_bytes(s, TMI_PART_SCALES, first, count, &codes, error);
    if (status != TENMAP_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        out[i] = s->nested_table[codes[i]];
    const tmi_kernels *k = tmi_cpu_kernels();
    k->times(out, count, nested, (size_t)(r->nested_block - first % r->nested_block),
             (size_t)r->nested_block);
    k->plus(out, count, &r->offset, count, count);
    return TENMAP_OK;
}

/* Reads the scale of the scales: the only one, or that of the matrix if each has its own. */
static tenmap_status read_global_scale(tmi_dequantizer *s, uint64_t matrix, tenmap_error *error) {
    const tenmap_tensor *global_scale = s->parts[TMI_PART_GLOBAL_SCALE].tensor;
    uint64_t which = global_scale->nelems == 1 ? 0 : matrix;
    if (s->global_scale_of == which)
        return TENMAP_OK;
    tmi_part_run run = {TMI_PART_GLOBAL_SCALE, global_scale->dtype, which, 1};
    tenmap_status status = tmi_quant_floats(s, &run, &s->global_scale, error);
    s->global_scale_of =
        status == TENMAP_OK ? which : UINT64_MAX; /* what was not read is not cached */
    return status;
}

/* Divides each value. The volatile divisor keeps -ffast-math from multiplying by 1/by. */
static TMI_NOINLINE void divide_all(float *values, size_t count, float by) {
    volatile float divisor = by;
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] / divisor;
}

/* Reads scales [first, first+count) of the whole part, ready to multiply values with. */
static tenmap_status read_scales(tmi_dequantizer *s, uint64_t matrix, uint64_t first, size_t count,
                                 float *out, tenmap_error *error) {
    static const float over_127 = 1.0f / 127.0f;
    const tmi_quant_layout *r = s->layout;
    if (r->scale == TMI_SCALE_NESTED)
        return nested_scales(s, first, count, out, error);
    tmi_part_run run = {TMI_PART_SCALES, r->scale_dtype, first, count};
    tenmap_status status = tmi_quant_floats(s, &run, out, error);
    if (status == TENMAP_OK && (r->scale == TMI_SCALE_TIMES || r->scale == TMI_SCALE_DIVIDED))
        status = read_global_scale(s, matrix, error);
    if (status != TENMAP_OK)
        return status;
    const tmi_kernels *k = tmi_cpu_kernels();
    if (r->scale == TMI_SCALE_TIMES)
        k->times(out, count, &s->global_scale, count, count);
    else if (r->scale == TMI_SCALE_DIVIDED)
        divide_all(out, count, s->global_scale);
    else if (r->scale == TMI_SCALE_127)
        k->times(out, count, &over_127, count, count);
    return TENMAP_OK;
}

/* Reads zero points that are packed along a row of scales, as the codes of a row are packed. */
static tenmap_status read_packed_zeros(tmi_dequantizer *s, uint64_t row, uint64_t column,
                                       size_t count, uint8_t *fields, tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    bool awq_order = r->codes == TMI_CODES_AWQ;
    uint64_t row_bytes = (r->scale_columns * r->bits + 31) / 32 * 4, first = 0;
    uint64_t last = (column + count) * r->bits;
    const unsigned char *bytes;
    first = awq_order ? column / 8 * 4 : column * r->bits / 8;
    uint64_t end = awq_order ? (column + count + 7) / 8 * 4 : (last + 7) / 8;
    tenmap_status status = tmi_quant_bytes(s, TMI_PART_ZEROS, row * row_bytes + first,
                                           (size_t)(end - first), &bytes, error);
    if (status != TENMAP_OK)
        return status;
    if (awq_order)
        tmi_unpack_awq(bytes, column, count, fields);
    else
        tmi_unpack_stream(bytes, column, count, r->bits, fields);
    for (size_t i = 0; r->zero_plus_one && i < count; i++)
        fields[i] = (uint8_t)((fields[i] + 1u) & ((1u << r->bits) - 1));
    return TENMAP_OK;
}

/* Reads the zero points, or the numbers to add, of scales [column, column+count) of row `row`. */
static tenmap_status read_zero_points(tmi_dequantizer *s, uint64_t matrix, uint64_t row,
                                      uint64_t column, size_t count, tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    uint8_t fields[TMI_MOST_SCALES];
    uint64_t at =
        ((r->scale_shared ? 0 : matrix * r->scale_rows) + row) * r->scale_columns + column;
    float *zeros = s->scale_cache.zeros;
    if (r->zeros == TMI_ZEROS_DTYPE || r->zeros == TMI_ZEROS_ADDED) {
        tmi_part_run run = {TMI_PART_ZEROS, s->parts[TMI_PART_ZEROS].tensor->dtype, at, count};
        return tmi_quant_floats(s, &run, zeros, error);
    }
    tenmap_status status;
    if (r->zeros == TMI_ZEROS_ALONG) {
        status = read_packed_zeros(s, matrix * r->scale_rows + row, column, count, fields, error);
    } else {
        uint64_t words = (r->scale_rows * r->bits + 31) / 32, stride = r->scale_columns * 4;
        tmi_packed_down packed = {TMI_PART_ZEROS, words * stride, stride};
        tmi_row_run run = {matrix, row, column, count};
        status = tmi_read_down(s, &packed, &run, fields, error);
    }
    for (size_t i = 0; status == TENMAP_OK && i < count; i++)
        zeros[i] = (float)((int32_t)fields[i] - r->code_bias);
    return status;
}

tenmap_status tmi_cache_scales(tmi_dequantizer *s, uint64_t matrix, uint64_t row, uint64_t first,
                               size_t count, tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    tmi_scale_cache *scale_cache = &s->scale_cache;
    uint64_t all_rows = matrix * r->scale_rows + row;
    uint64_t at = (r->scale_shared ? row : all_rows) * r->scale_columns + first;
    if (scale_cache->count && scale_cache->row == all_rows && scale_cache->first == first &&
        scale_cache->count >= count)
        return TENMAP_OK;
    scale_cache->count = 0;
    tenmap_status status = read_scales(s, matrix, at, count, scale_cache->scales, error);
    if (status == TENMAP_OK && r->zeros != TMI_ZEROS_NONE)
        status = read_zero_points(s, matrix, row, first, count, error);
    if (status != TENMAP_OK)
        return status;
    scale_cache->row = all_rows;
    scale_cache->first = first;
    scale_cache->count = count;
    return TENMAP_OK;
}

/*
 * A list may name groups in any order, so all scales that a run of values needs are read at once:
 * the whole row of scales if many values are wanted, otherwise from the least group that is named
 * to the greatest.
 */
tenmap_status tmi_cache_listed_scales(tmi_dequantizer *s, uint64_t matrix, uint64_t row,
                                      size_t count, tenmap_error *error) {
    enum { FEW = 8 }; /* scales read per value: a scale costs less than a value */
    const tmi_quant_layout *r = s->layout;
    const tmi_scale_cache *scale_cache = &s->scale_cache;
    uint64_t first = s->least_group, last = s->most_group;
    if (scale_cache->count && scale_cache->row == matrix * r->scale_rows + row &&
        scale_cache->first <= first && last < scale_cache->first + scale_cache->count)
        return TENMAP_OK;
    bool whole = r->scale_columns <= FEW * (uint64_t)count;
    return tmi_cache_scales(s, matrix, row, whole ? 0 : first,
                            (size_t)(whole ? r->scale_columns : last - first + 1), error);
}

void tmi_apply_scales(const tmi_quant_layout *r, const tmi_group_scales *by, float *values,
                      size_t count) {
    const tmi_kernels *k = tmi_cpu_kernels();
    if (r->zeros != TMI_ZEROS_NONE && r->zeros != TMI_ZEROS_ADDED)
        k->minus(values, count, by->zeros, by->first, by->group);
    k->times(values, count, by->scales, by->first, by->group);
    if (r->zeros == TMI_ZEROS_ADDED)
        k->plus(values, count, by->zeros, by->first, by->group);
}
