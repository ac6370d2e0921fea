/* Every scheme with the plainest formula for its values, and the ways in which its parts can be wrong. */
#include "quantized_schemes.h"

static uint64_t ceil_div(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

static void shape_it(stored_weight *w, uint64_t rows, uint64_t columns) {
    w->rank = 2;
    w->shape[0] = w->rows = rows;
    w->shape[1] = w->columns = columns;
}

#define SHAPE(...) ((const uint64_t[]){__VA_ARGS__})

/* FP8 and INT8 with a scale for each block, row or tensor. */

static float scaled_value(const stored_weight *w, uint64_t m, uint64_t r, uint64_t c) {
    const stored_part *values = &w->parts[0], *scales = &w->parts[1];
    uint64_t scale_columns = ceil_div(w->columns, w->group_columns);
    uint64_t scale_rows = ceil_div(w->rows, w->group_rows);
    uint64_t g = (m * scale_rows + r / w->group_rows) * scale_columns + c / w->group_columns;
    tenmap_dtype as = scales->dtype == TENMAP_U8 ? TENMAP_F8_E8M0 : scales->dtype;
    float code = part_float(values, values->dtype, (m * w->rows + r) * w->columns + c);
    if (w->part_count == 3)
        code -= part_float(&w->parts[2], w->parts[2].dtype, g);
    return code * part_float(scales, as, g);
}

static void make_scaled(stored_weight *w, const char *label, tenmap_dtype values,
                        const char *scale_name, tenmap_dtype scale, uint64_t rows, uint64_t columns,
                        uint64_t group_rows, uint64_t group_columns) {
    w->label = label;
    w->name = "b.weight";
    w->value = scaled_value;
    shape_it(w, rows, columns);
    w->group_rows = group_rows;
    w->group_columns = group_columns;
    add_part(w, "b.weight", values, 2, w->shape);
    add_scales(w, scale_name, scale, 2,
               SHAPE(ceil_div(rows, group_rows), ceil_div(columns, group_columns)));
}

static const char fp8_config[] = "{\"torch_dtype\": \"bfloat16\", \"quantization_config\": {"
                                 "\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}}";

static void fp8_block(stored_weight *w) {
    make_scaled(w, "fp8 block", TENMAP_F8_E4M3, "b.weight_scale_inv", TENMAP_F32, 256, 384, 128,
                128);
    w->config = fp8_config;
    w->scheme = "fp8-block";
    w->dtype = TENMAP_BF16;
}

static void fp8_block_ragged(stored_weight *w) {
    make_scaled(w, "fp8 block, ragged", TENMAP_F8_E4M3, "b.weight_scale_inv", TENMAP_BF16, 200,
                4500, 128, 128);
    w->scheme = "fp8-block";
    w->dtype = TENMAP_BF16;
}

static void fp8_block_e8m0(stored_weight *w) {
    make_scaled(w, "fp8 block, E8M0", TENMAP_F8_E4M3, "b.scale", TENMAP_F8_E8M0, 130, 129, 128,
                128);
    w->scheme = "fp8-block";
    w->dtype = TENMAP_BF16;
}

static void fp8_small_blocks(stored_weight *w) {
    make_scaled(w, "fp8 blocks of 32x16", TENMAP_F8_E5M2, "b.weight_scale", TENMAP_F32, 70, 100, 32,
                16);
    w->config = "{\"dtype\": \"float16\", \"quantization_config\": {\"quant_method\": \"fp8\", "
                "\"weight_block_size\": [32, 16]}}";
    w->scheme = "fp8-block";
    w->dtype = TENMAP_F16;
}

static void fp8_channel(stored_weight *w) {
    make_scaled(w, "fp8 channel", TENMAP_F8_E4M3, "b.weight_scale", TENMAP_F32, 37, 129, 1, 129);
    w->scheme = "fp8-channel";
    w->dtype = TENMAP_F32;
}

static void fp8_tensor(stored_weight *w) {
    make_scaled(w, "fp8 tensor", TENMAP_F8_E4M3, "b.weight_scale", TENMAP_F16, 33, 65, 33, 65);
    w->parts[1].rank = 0;
    w->scheme = "fp8-tensor";
    w->dtype = TENMAP_F16;
}

static void mxfp8(stored_weight *w) {
    make_scaled(w, "mxfp8", TENMAP_F8_E4M3, "b.weight_scale", TENMAP_U8, 5, 96, 1, 32);
    w->scheme = "mxfp8";
    w->dtype = TENMAP_BF16;
}

static void int8_channel(stored_weight *w) {
    make_scaled(w, "int8 channel", TENMAP_I8, "b.weight_scale", TENMAP_BF16, 40, 77, 1, 77);
    w->scheme = "int8-channel";
    w->dtype = TENMAP_BF16;
}

static void int8_group_zeros(stored_weight *w) {
    make_scaled(w, "int8 group with zero points", TENMAP_I8, "b.weight_scale", TENMAP_F32, 6, 128,
                1, 32);
    add_part(w, "b.weight_zero_point", TENMAP_I8, 2, SHAPE(6, 4));
    w->scheme = "int8-group";
    w->dtype = TENMAP_F32;
}

static void fp8_experts(stored_weight *w) {
    w->label = "fp8 block, experts together";
    w->name = "b.gate_up_proj";
    w->value = scaled_value;
    shape_it(w, 130, 257);
    w->group_rows = w->group_columns = 128;
    w->rank = 3;
    memcpy(w->shape, SHAPE(3, 130, 257), 3 * sizeof *w->shape);
    add_part(w, "b.gate_up_proj", TENMAP_F8_E4M3, 3, w->shape);
    add_scales(w, "b.gate_up_proj_scale_inv", TENMAP_F32, 3, SHAPE(3, 2, 3));
    w->scheme = "fp8-block";
    w->dtype = TENMAP_F32;
}

static void fp8_large(stored_weight *w) {
    make_scaled(w, "fp8 block, several units", TENMAP_F8_E4M3, "b.weight_scale_inv", TENMAP_F32,
                700, 6000, 128, 128);
    w->scheme = "fp8-block";
}

make_weight *const quantized_cases[] = {
    fp8_block, fp8_block_ragged, fp8_block_e8m0,   fp8_small_blocks, fp8_channel, fp8_tensor,
    mxfp8,     int8_channel,     int8_group_zeros, fp8_experts,      fp8_large,
};
const size_t quantized_case_count = COUNT(quantized_cases);

/* What must be refused. */

static void fp8_without_scales(stored_weight *w) {
    fp8_block(w);
    free(w->parts[--w->part_count].bytes);
}

static void fp8_wrong_blocks(stored_weight *w) {
    fp8_block(w);
    w->parts[1].shape[0] = 3;
    w->parts[1].shape[1] = 2;
}

static void fp8_no_blocks(stored_weight *w) {
    make_scaled(w, "", TENMAP_F8_E4M3, "b.weight_scale", TENMAP_F32, 256, 384, 128, 128);
    w->parts[1].shape[0] = 1;
    w->parts[1].shape[1] = 1;
    w->parts[1].shape[2] = 6;
    w->parts[1].rank = 3;
}

static void fp8_integer_scales(stored_weight *w) {
    make_scaled(w, "", TENMAP_F8_E4M3, "b.weight_scale", TENMAP_F32, 256, 384, 128, 128);
    w->parts[1].dtype = TENMAP_I32;
}

const broken_case broken_cases[] = {
    {fp8_without_scales, "\"b.weight_scale_inv\" is missing", true},
    {fp8_wrong_blocks, "[2, 3] scales", false},
    {fp8_no_blocks, "F32 [1, 1, 6]", false},
    {fp8_integer_scales, "floating-point", false},
};
const size_t broken_case_count = COUNT(broken_cases);
