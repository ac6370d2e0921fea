/* Every scheme with the plainest formula for its values. */
#include "quantized_schemes.h"

static uint64_t ceil_div(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

static void shape_it(stored_weight *w, uint64_t rows, uint64_t columns) {
    w->rank = 2;
    w->shape[0] = w->rows = rows;
    w->shape[1] = w->columns = columns;
}

/* FP8 and INT8 with a scale for each block, row or tensor. */

static float scaled_value(const stored_weight *w, uint64_t m, uint64_t r, uint64_t c) {
    const stored_part *values = &w->parts[0], *scales = &w->parts[1];
    uint64_t scale_columns = ceil_div(w->columns, w->group_columns);
    uint64_t scale_rows = ceil_div(w->rows, w->group_rows);
    uint64_t g = (m * scale_rows + r / w->group_rows) * scale_columns + c / w->group_columns;
    tenmap_dtype as = scales->dtype == TENMAP_U8 ? TENMAP_F8_E8M0 : scales->dtype;
    float code = part_float(values, values->dtype, (m * w->rows + r) * w->columns + c);
    if (w->part_count == 3 && w->parts[2].dtype == TENMAP_I8)
        code -= part_float(&w->parts[2], w->parts[2].dtype, g);
    return code * part_float(scales, as, g);
}

void make_scaled(stored_weight *w, const char *label, tenmap_dtype values, const char *scale_name,
                 tenmap_dtype scale, uint64_t rows, uint64_t columns, uint64_t group_rows,
                 uint64_t group_columns) {
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

void fp8_block(stored_weight *w) {
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

/* compressed-tensors' packed integers. */

void store_word(stored_part *p, uint64_t i, uint32_t word) {
    for (unsigned b = 0; b < 4; b++)
        p->bytes[4 * i + b] = (unsigned char)(word >> 8 * b);
}

static float packed_value(const stored_weight *w, uint64_t m, uint64_t r, uint64_t c) {
    const stored_part *values = &w->parts[0], *scales = &w->parts[1];
    const stored_part *zeros = w->part_count > 3 ? &w->parts[3] : NULL;
    uint64_t groups = ceil_div(w->columns, w->group_columns);
    uint64_t group = c / w->group_columns, row_words = values->shape[values->rank - 1];
    unsigned each = 32 / w->bits;
    int code = w->group_rows == 2 /* words that are not filled */
                   ? (int)(part_word(values, r * row_words + c / each) >> c % each * w->bits &
                           ((1u << w->bits) - 1))
                   : (int)part_field(values, (m * w->rows + r) * row_words * 4, c, w->bits);
    int zero = 1 << (w->bits - 1);
    if (w->group_rows == 3) { /* the groups of columns are listed */
        group = part_word(zeros, c);
    } else if (zeros) {
        uint64_t bit = r * w->bits;
        uint64_t two = part_word(zeros, bit / 32 * groups + group);
        if (bit % 32 + w->bits > 32)
            two |= (uint64_t)part_word(zeros, (bit / 32 + 1) * groups + group) << 32;
        zero = (int)(two >> bit % 32 & ((1u << w->bits) - 1));
    }
    return (float)(code - zero) *
           part_float(scales, scales->dtype, (m * w->rows + r) * groups + group);
}

void make_packed(stored_weight *w, const char *label, unsigned bits, uint64_t rows,
                 uint64_t columns, uint64_t group, bool zeros, bool old) {
    w->label = label;
    w->name = "b.weight";
    w->value = packed_value;
    w->bits = bits;
    shape_it(w, rows, columns);
    w->group_columns = group;
    w->group_rows = old ? 2 : 1;
    add_part(w, "b.weight_packed", TENMAP_I32, 2,
             SHAPE(rows, old ? ceil_div(columns, 32 / bits) : ceil_div(columns * bits, 32)));
    add_scales(w, "b.weight_scale", TENMAP_BF16, 2, SHAPE(rows, ceil_div(columns, group)));
    stored_part *shape = add_part(w, "b.weight_shape", TENMAP_I64, 1, SHAPE(2));
    memset(shape->bytes, 0, shape->size);
    store_word(shape, 0, (uint32_t)rows);
    store_word(shape, 2, (uint32_t)columns);
    if (zeros)
        add_part(w, "b.weight_zero_point", TENMAP_I32, 2,
                 SHAPE(ceil_div(rows * bits, 32), ceil_div(columns, group)));
    w->scheme = bits == 4 ? "int4-group" : bits == 8 ? "int8-group" : "int3-group";
    w->dtype = TENMAP_BF16;
}

void packed_int4(stored_weight *w) {
    make_packed(w, "packed int4", 4, 65, 256, 32, false, false);
    w->config =
        "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
        "{\"group_0\": {\"weights\": {\"num_bits\": 4, \"group_size\": 32}, \"targets\": "
        "[\"Linear\"]}}}}";
}
static void packed_int4_ragged(stored_weight *w) {
    make_packed(w, "packed int4, ragged, zero points", 4, 37, 2500, 128, true, false);
}
static void packed_one_row(stored_weight *w) {
    make_packed(w, "packed int4, one row, zero point", 4, 1, 64, 64, true, false);
    w->scheme = "int4-tensor";
}
static void packed_int8(stored_weight *w) {
    make_packed(w, "packed int8", 8, 9, 130, 130, true, false);
    w->scheme = "int8-channel";
}
static void packed_int3(stored_weight *w) {
    make_packed(w, "packed int3 across words", 3, 35, 130, 64, true, false);
    w->config =
        "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
        "{\"g\": {\"weights\": {\"num_bits\": 3, \"group_size\": 64}}}}}";
}
static void packed_int3_old(stored_weight *w) {
    make_packed(w, "packed int3, ten in a word", 3, 35, 128, 64, false, true);
}
static void mixed_precision(stored_weight *w) {
    make_packed(w, "mixed precision", 8, 9, 288, 96, false, false);
    w->config =
        "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
        "\"mixed-precision\", \"config_groups\": {\"a\": {\"weights\": {\"num_bits\": 4, "
        "\"group_size\": 32}}, \"b\": {\"weights\": {\"num_bits\": 8, \"group_size\": 96}}}}}";
}
static void packed_listed(stored_weight *w) {
    make_packed(w, "packed int4 with g_idx", 4, 20, 128, 32, false, false);
    stored_part *groups = add_part(w, "b.weight_g_idx", TENMAP_I32, 1, SHAPE(128));
    for (uint64_t i = 0; i < 128; i++)
        store_word(groups, i, next_random() % 4);
    w->group_rows = 3;
}

/* GPTQ and AWQ, which are stored transposed. */

static float turned_value(const stored_weight *w, uint64_t m, uint64_t r, uint64_t c) {
    const stored_part *values = &w->parts[0], *scales = &w->parts[1], *zeros = &w->parts[2];
    static const unsigned order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    bool awq = w->group_rows == 8, listed = w->part_count == 4;
    uint64_t out = w->rows, group = listed ? part_word(&w->parts[3], c) : c / w->group_columns;
    unsigned mask = (1u << w->bits) - 1, code, zero;
    (void)m;
    if (awq) {
        code = part_word(values, c * (out / 8) + r / 8) >> 4 * order[r % 8] & 15;
        zero = part_word(zeros, group * (out / 8) + r / 8) >> 4 * order[r % 8] & 15;
    } else {
        uint64_t bit = c * w->bits, two = part_word(values, bit / 32 * out + r);
        if (bit % 32 + w->bits > 32)
            two |= (uint64_t)part_word(values, (bit / 32 + 1) * out + r) << 32;
        code = (unsigned)(two >> bit % 32) & mask;
        zero = part_field(zeros, group * zeros->shape[1] * 4, r, w->bits);
        if (w->group_rows == 1)
            zero = (zero + 1) & mask;
    }
    return (float)((int)code - (int)zero) * part_float(scales, scales->dtype, group * out + r);
}

void make_turned(stored_weight *w, const char *label, unsigned bits, uint64_t in, uint64_t out,
                 uint64_t group, bool awq, bool listed) {
    uint64_t groups = ceil_div(in, group);
    w->label = label;
    w->name = "b.weight";
    w->value = turned_value;
    w->bits = bits;
    shape_it(w, out, in);
    w->group_columns = group;
    w->group_rows = awq ? 8 : 1;
    if (awq)
        add_part(w, "b.qweight", TENMAP_I32, 2, SHAPE(in, out / 8));
    else
        add_part(w, "b.qweight", TENMAP_I32, 2, SHAPE(in * bits / 32, out));
    add_scales(w, "b.scales", TENMAP_F16, 2, SHAPE(groups, out));
    add_part(w, "b.qzeros", TENMAP_I32, 2, SHAPE(groups, ceil_div(out * bits, 32)));
    if (listed) {
        stored_part *g = add_part(w, "b.g_idx", TENMAP_I32, 1, SHAPE(in));
        for (uint64_t i = 0; i < in; i++)
            store_word(g, i, next_random() % (uint32_t)groups);
    }
    w->scheme = bits == 4   ? "int4-group"
                : bits == 8 ? "int8-group"
                : bits == 3 ? "int3-group"
                            : "int2-group";
    w->dtype = TENMAP_F16;
}

void gptq_int4(stored_weight *w) {
    make_turned(w, "GPTQ 4 bits", 4, 256, 136, 128, false, true);
}
void gptq_v2(stored_weight *w) {
    make_turned(w, "GPTQ v2", 4, 160, 72, 32, false, false);
    w->group_rows = 4;
    w->config = "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, "
                "\"checkpoint_format\": \"gptq_v2\", \"group_size\": 32}}";
}
static void gptq_int3(stored_weight *w) {
    make_turned(w, "GPTQ 3 bits", 3, 96, 64, 32, false, true);
}
static void gptq_int8(stored_weight *w) {
    make_turned(w, "GPTQ 8 bits", 8, 2080, 100, 416, false, true);
}
static void gptq_int2(stored_weight *w) {
    make_turned(w, "GPTQ 2 bits", 2, 64, 48, 16, false, false);
    w->config = "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 2}}";
}
/* Layers with their own rules, which the shapes show. */
static void gptq_dynamic(stored_weight *w) {
    make_turned(w, "GPTQ, dynamic", 8, 96, 20, 32, false, true);
    w->config =
        "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": "
        "128, \"dynamic\": {\"+:.*b\": {\"bits\": 8, \"group_size\": 32}}}}";
}
void awq_int4(stored_weight *w) {
    make_turned(w, "AWQ", 4, 384, 2104, 128, true, false);
}

/* FP4 and FP6. */

static float pairs_value(const stored_weight *w, uint64_t m, uint64_t r, uint64_t c) {
    const stored_part *values = &w->parts[0], *scales = &w->parts[1];
    bool turned = w->group_rows == 2;
    uint64_t row = turned ? c : r, column = turned ? r : c;
    uint64_t rows = turned ? w->columns : w->rows, columns = turned ? w->rows : w->columns;
    uint64_t at = (m * rows + row) * columns + column;
    uint64_t group = (m * rows + row) * (columns / w->group_columns) + column / w->group_columns;
    tenmap_dtype as = w->group_columns == 16 ? TENMAP_F8_E4M3 : TENMAP_F8_E8M0;
    float scale = part_float(scales, as, group);
    if (w->part_count == 3 && w->group_rows == 3)
        scale = scale / part_float(&w->parts[2], TENMAP_F32, 0);
    else if (w->part_count == 3)
        scale = scale * part_float(&w->parts[2], TENMAP_F32, 0);
    return part_float(values,
                      w->bits == 6   ? TENMAP_F6_E2M3
                      : w->bits == 8 ? TENMAP_F8_E4M3
                                     : TENMAP_F4,
                      at) *
           scale;
}

void make_pairs(stored_weight *w, const char *label, unsigned bits, uint64_t rows, uint64_t columns,
                uint64_t group, const char *values, tenmap_dtype dtype, const char *scale,
                tenmap_dtype scale_dtype) {
    w->label = label;
    w->name = "b.weight";
    w->value = pairs_value;
    w->bits = bits;
    shape_it(w, rows, columns);
    w->group_rows = 1;
    w->group_columns = group;
    add_part(w, values, dtype, 2, SHAPE(rows, columns * bits / tenmap_dtype_bits(dtype)));
    add_scales(w, scale, scale_dtype, 2, SHAPE(rows, columns / group));
    w->scheme = group == 16 ? "nvfp4" : bits == 6 ? "mxfp6" : bits == 8 ? "mxfp8" : "mxfp4";
    w->dtype = TENMAP_BF16;
}

static void mxfp4_packed(stored_weight *w) {
    make_pairs(w, "MXFP4, packed", 4, 21, 160, 32, "b.weight_packed", TENMAP_U8, "b.weight_scale",
               TENMAP_U8);
}
static void mxfp6_packed(stored_weight *w) {
    make_pairs(w, "MXFP6, packed", 6, 19, 96, 32, "b.weight_packed", TENMAP_U8, "b.weight_scale",
               TENMAP_U8);
}
static void mxfp4_deepseek(stored_weight *w) {
    make_pairs(w, "MXFP4 in I8", 4, 13, 4160, 32, "b.weight", TENMAP_I8, "b.scale", TENMAP_F8_E8M0);
}
static void nvfp4_packed(stored_weight *w) {
    make_pairs(w, "NVFP4, packed", 4, 18, 112, 16, "b.weight_packed", TENMAP_U8, "b.weight_scale",
               TENMAP_F8_E4M3);
    add_scales(w, "b.weight_global_scale", TENMAP_F32, 1, SHAPE(1));
    w->group_rows = 3;
}
void nvfp4_modelopt(stored_weight *w) {
    make_pairs(w, "NVFP4, ModelOpt", 4, 7, 48, 16, "b.weight", TENMAP_U8, "b.weight_scale",
               TENMAP_F8_E4M3);
    add_scales(w, "b.weight_scale_2", TENMAP_F32, 1, SHAPE(1));
}
void make_gpt_oss(stored_weight *w, const char *label, uint64_t experts, uint64_t rows,
                  uint64_t groups) {
    w->label = label;
    w->name = "b.gate_up_proj";
    w->value = pairs_value;
    w->bits = 4;
    shape_it(w, groups * 32, rows);
    w->rank = 3;
    memcpy(w->shape, SHAPE(experts, groups * 32, rows), 3 * sizeof *w->shape);
    w->group_rows = 2;
    w->group_columns = 32;
    add_part(w, "b.gate_up_proj_blocks", TENMAP_U8, 4, SHAPE(experts, rows, groups, 16));
    add_scales(w, "b.gate_up_proj_scales", TENMAP_U8, 3, SHAPE(experts, rows, groups));
    w->scheme = "mxfp4";
    w->dtype = TENMAP_BF16;
}
void gpt_oss(stored_weight *w) {
    make_gpt_oss(w, "gpt-oss", 2, 70, 3);
}

/* MLX. */

static float affine_value(const stored_weight *w, uint64_t m, uint64_t r, uint64_t c) {
    const stored_part *values = &w->parts[0], *scales = &w->parts[1], *biases = &w->parts[2];
    uint64_t group = r * (w->columns / w->group_columns) + c / w->group_columns;
    unsigned code = part_field(values, r * values->shape[1] * 4, c, w->bits);
    volatile float product = (float)code * part_float(scales, scales->dtype, group);
    (void)m;
    return product + part_float(biases, biases->dtype, group);
}

void make_affine(stored_weight *w, const char *label, unsigned bits, uint64_t rows,
                 uint64_t columns, uint64_t group, const char *scheme, const char *config) {
    w->label = label;
    w->name = "b.weight";
    w->value = affine_value;
    w->bits = bits;
    shape_it(w, rows, columns);
    w->group_columns = group;
    add_part(w, "b.weight", TENMAP_U32, 2, SHAPE(rows, columns * bits / 32));
    add_scales(w, "b.scales", TENMAP_BF16, 2, SHAPE(rows, columns / group));
    add_scales(w, "b.biases", TENMAP_BF16, 2, SHAPE(rows, columns / group));
    w->scheme = scheme;
    w->config = config;
    w->dtype = TENMAP_BF16;
}

void mlx_4(stored_weight *w) {
    make_affine(w, "MLX 4 bits", 4, 33, 192, 64, "int4-affine",
                "{\"quantization\": {\"group_size\": 64, \"bits\": 4}}");
}
static void mlx_3(stored_weight *w) {
    make_affine(w, "MLX 3 bits", 3, 10, 2176, 128, "int3-affine",
                "{\"quantization\": {\"group_size\": 128, \"bits\": 3, \"b\": {\"bits\": 8}}}");
}
static void mlx_6(stored_weight *w) {
    make_affine(w, "MLX 6 bits", 6, 5, 96, 32, "int6-affine",
                "{\"quantization\": {\"group_size\": 32, \"bits\": 4}}");
}
static void mlx_8(stored_weight *w) {
    make_affine(w, "MLX 8 bits", 8, 5, 128, 64, "int8-affine", NULL);
}
static void mlx_mxfp4(stored_weight *w) {
    make_pairs(w, "MLX mxfp4", 4, 6, 128, 32, "b.weight", TENMAP_U32, "b.scales", TENMAP_U8);
}
static void mlx_mxfp8(stored_weight *w) {
    make_pairs(w, "MLX mxfp8", 8, 6, 128, 32, "b.weight", TENMAP_U32, "b.scales", TENMAP_U8);
}
static void mlx_nvfp4(stored_weight *w) {
    make_pairs(w, "MLX nvfp4", 4, 6, 128, 16, "b.weight", TENMAP_U32, "b.scales", TENMAP_U8);
    for (size_t i = 0; i < w->parts[1].size; i++)
        w->parts[1].bytes[i] = (unsigned char)(next_random() % 0x7e);
}

/* bitsandbytes. */

static float bnb4_value(const stored_weight *w, uint64_t m, uint64_t r, uint64_t c) {
    const stored_part *values = &w->parts[0], *absmax = &w->parts[1], *map = &w->parts[2];
    uint64_t i = r * w->columns + c, block = i / w->group_columns;
    unsigned code = i % 2 ? values->bytes[i / 2] & 15 : values->bytes[i / 2] >> 4;
    float scale;
    (void)m;
    if (w->part_count == 6) {
        volatile float product = part_float(&w->parts[4], TENMAP_F32, absmax->bytes[block]) *
                                 part_float(&w->parts[3], TENMAP_F32, block / 4);
        scale = product + 0.15625f;
    } else {
        scale = part_float(absmax, TENMAP_F32, block);
    }
    return part_float(map, TENMAP_F32, code) * scale;
}

void make_bnb4(stored_weight *w, const char *label, uint64_t rows, uint64_t columns, uint64_t block,
               bool nested, bool fp4) {
    char text[300];
    uint64_t n = rows * columns, blocks = ceil_div(n, block);
    w->label = label;
    w->name = "b.weight";
    w->value = bnb4_value;
    w->bits = 4;
    shape_it(w, rows, columns);
    w->group_columns = block;
    add_part(w, "b.weight", TENMAP_U8, 2, SHAPE(ceil_div(n, 2), 1));
    if (nested)
        add_part(w, "b.weight.absmax", TENMAP_U8, 1, SHAPE(blocks));
    else
        add_scales(w, "b.weight.absmax", TENMAP_F32, 1, SHAPE(blocks));
    add_scales(w, "b.weight.quant_map", TENMAP_F32, 1, SHAPE(16));
    if (nested) {
        add_scales(w, "b.weight.nested_absmax", TENMAP_F32, 1, SHAPE(ceil_div(blocks, 4)));
        add_scales(w, "b.weight.nested_quant_map", TENMAP_F32, 1, SHAPE(256));
    }
    snprintf(
        text, sizeof text,
        "{\"quant_type\": \"%s\", \"blocksize\": %u, \"dtype\": \"float16\", \"shape\": [%u, %u], "
        "\"nested_blocksize\": 4, \"nested_dtype\": \"float32\", \"nested_offset\": 1.5625e-1}",
        fp4 ? "fp4" : "nf4", (unsigned)block, (unsigned)rows, (unsigned)columns);
    stored_part *note = add_part(w,
                                 fp4 ? "b.weight.quant_state.bitsandbytes__fp4"
                                     : "b.weight.quant_state.bitsandbytes__nf4",
                                 TENMAP_U8, 1, SHAPE(strlen(text)));
    memcpy(note->bytes, text, strlen(text));
    w->scheme = fp4 ? "fp4" : "nf4";
    w->dtype = TENMAP_F16;
}

void bnb_nf4(stored_weight *w) {
    make_bnb4(w, "NF4", 50, 130, 64, false, false);
}
static void bnb_nested(stored_weight *w) {
    make_bnb4(w, "NF4, nested", 33, 65, 64, true, false);
}

static float scb_value(const stored_weight *w, uint64_t m, uint64_t r, uint64_t c) {
    volatile float scale = part_float(&w->parts[1], TENMAP_F32, r) * (1.0f / 127.0f);
    (void)m;
    return part_float(&w->parts[0], TENMAP_I8, r * w->columns + c) * scale;
}

static void bnb_int8(stored_weight *w) {
    make_scaled(w, "bitsandbytes int8", TENMAP_I8, "b.SCB", TENMAP_F32, 31, 65, 1, 65);
    w->parts[1].rank = 1;
    *add_part(w, "b.weight_format", TENMAP_U8, 0, NULL)->bytes = 0;
    w->value = scb_value;
    w->scheme = "int8-channel";
}

static void torchao_int8(stored_weight *w) {
    make_scaled(w, "torchao int8", TENMAP_I8, "b._weight_scale", TENMAP_BF16, 12, 64, 1, 32);
    w->parts[0].name = "b._weight_qdata";
    add_part(w, "b._weight_zero_point", TENMAP_I8, 2, SHAPE(12, 2));
    w->scheme = "int8-group";
}

/*
 * 200 rows of 300 columns with [2, 3] scales could also be blocks of 128x128: the metadata decides.
 */
void torchao_blocks(stored_weight *w) {
    make_scaled(w, "torchao with metadata", TENMAP_F8_E4M3, "b._weight_scale", TENMAP_F32, 200, 300,
                100, 100);
    w->parts[0].name = "b._weight_qdata";
    w->metadata =
        "{\"_type\": \"Float8Tensor\", \"_data\": {\"block_size\": [100, 100], \"dtype\": "
        "{\"_type\": \"torch.dtype\", \"_data\": \"float16\"}}, "
        "\"_tensor_data_names\": [\"qdata\", \"scale\"]}";
    w->scheme = "fp8-block";
    w->dtype = TENMAP_F16;
}

void comfy_fp8(stored_weight *w) {
    make_scaled(w, "ComfyUI fp8", TENMAP_F8_E4M3, "b.weight_scale", TENMAP_F32, 9, 40, 9, 40);
    w->parts[1].rank = 0;
    add_part(w, "b.comfy_quant", TENMAP_U8, 1, SHAPE(27));
    memcpy(w->parts[2].bytes, "{\"format\": \"float8_e4m3fn\"}", 27);
    w->scheme = "fp8-tensor";
}

make_weight *const quantized_cases[] = {
    fp8_block,
    fp8_block_ragged,
    fp8_block_e8m0,
    fp8_small_blocks,
    fp8_channel,
    fp8_tensor,
    mxfp8,
    int8_channel,
    int8_group_zeros,
    fp8_experts,
    fp8_large,
    packed_int4,
    packed_int4_ragged,
    packed_one_row,
    packed_int8,
    packed_int3,
    packed_int3_old,
    packed_listed,
    gptq_int4,
    gptq_v2,
    gptq_int3,
    gptq_int8,
    gptq_int2,
    awq_int4,
    mxfp4_packed,
    mxfp6_packed,
    mxfp4_deepseek,
    nvfp4_packed,
    nvfp4_modelopt,
    gpt_oss,
    mlx_4,
    mlx_3,
    mlx_6,
    mlx_8,
    mlx_mxfp4,
    mlx_mxfp8,
    mlx_nvfp4,
    bnb_nf4,
    bnb_nested,
    bnb_int8,
    torchao_int8,
    torchao_blocks,
    comfy_fp8,
    gptq_dynamic,
    mixed_precision,
};
const size_t quantized_case_count = COUNT(quantized_cases);
