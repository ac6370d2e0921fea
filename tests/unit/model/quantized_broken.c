/* The ways in which the parts of a quantized weight can be wrong, with what the error must say. */
#include "quantized_schemes.h"

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

static void drop_part(stored_weight *w, size_t i) {
    free(w->parts[i].bytes);
    memmove(&w->parts[i], &w->parts[i + 1], (--w->part_count - i) * sizeof *w->parts);
}

static void gptq_without_zeros(stored_weight *w) {
    gptq_v2(w);
    drop_part(w, 2);
}
static void gptq_other_bits(stored_weight *w) {
    gptq_v2(w);
    w->config = "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8}}";
}
static void packed_without_shape(stored_weight *w) {
    packed_int4(w);
    drop_part(w, 2);
}
static void packed_wrong_shape(stored_weight *w) {
    packed_int4(w);
    store_word(&w->parts[2], 2, 900);
}
static void mlx_without_biases(stored_weight *w) {
    mlx_4(w);
    drop_part(w, 2);
}
static void blocks_without_scales(stored_weight *w) {
    gpt_oss(w);
    drop_part(w, 1);
}
static void nvfp4_without_second(stored_weight *w) {
    nvfp4_modelopt(w);
    drop_part(w, 2);
}
static void bnb_short_absmax(stored_weight *w) {
    bnb_nf4(w);
    w->parts[1].shape[0]--;
    w->parts[1].size -= 4;
}
static void bnb_not_json(stored_weight *w) {
    bnb_nf4(w);
    w->parts[3].bytes[0] = '[';
}

static void bnb_more_json(stored_weight *w) {
    bnb_nf4(w);
    w->parts[3].bytes[w->parts[3].size - 1] = ' '; /* the object does not end */
}
static void bnb_other_kind(stored_weight *w) {
    make_bnb4(w, "", 50, 130, 64, false, false);
    memcpy(strstr((char *)w->parts[3].bytes, "nf4"), "fp4", 3);
}
/* The end of its note, where nested_offset is. */
static void bnb_other_end(stored_weight *w, const char *text) {
    static const char usual[] = "\"nested_dtype\": \"float32\", \"nested_offset\": 1.5625e-1}";
    char end[sizeof usual];
    make_bnb4(w, "", 50, 130, 64, true, false);
    stored_part *note = &w->parts[w->part_count - 1];
    snprintf(end, sizeof end, "%-*s}", (int)sizeof usual - 2, text);
    memcpy(note->bytes + note->size - strlen(end), end, strlen(end));
}
static void bnb_word_as_offset(stored_weight *w) {
    bnb_other_end(w, "\"nested_offset\": null");
}
static void bnb_text_as_offset(stored_weight *w) {
    bnb_other_end(w, "\"nested_offset\": \"1e                    \"");
}
/* Numbers that lack a digit somewhere, in the text of a string: the JSON itself is valid. */
static void bnb_point_as_offset(stored_weight *w) {
    bnb_other_end(w, "\"nested_offset\": \".\"");
}
static void bnb_exponent_as_offset(stored_weight *w) {
    bnb_other_end(w, "\"nested_offset\": \"e5\"");
}
static void bnb_no_exponent_as_offset(stored_weight *w) {
    bnb_other_end(w, "\"nested_offset\": \"1e\"");
}
static void bnb_no_fraction_as_offset(stored_weight *w) {
    bnb_other_end(w, "\"nested_offset\": \"1.\"");
}
static void bnb_two_signs_as_offset(stored_weight *w) {
    bnb_other_end(w, "\"nested_offset\": \"1e+-5\"");
}
static void scb_other_order(stored_weight *w) {
    make_scaled(w, "", TENMAP_I8, "b.SCB", TENMAP_F32, 31, 65, 1, 65);
    w->parts[1].rank = 1;
    *add_part(w, "b.weight_format", TENMAP_U8, 0, NULL)->bytes = 2;
}
static void scb_several_orders(stored_weight *w) {
    make_scaled(w, "", TENMAP_I8, "b.SCB", TENMAP_F32, 31, 65, 1, 65);
    w->parts[1].rank = 1;
    add_part(w, "b.weight_format", TENMAP_U8, 1, SHAPE(2));
}
static void packed_other_group(stored_weight *w) {
    packed_int4(w);
    w->config =
        "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
        "{\"group_0\": {\"weights\": {\"num_bits\": 4, \"group_size\": 128}}}}}";
}
static void gptq_other_group(stored_weight *w) {
    gptq_v2(w);
    w->config = "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, "
                "\"group_size\": 128}}";
}
static void gptq_planar(stored_weight *w) {
    gptq_v2(w);
    w->config = "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, "
                "\"checkpoint_format\": \"gptq_p\"}}";
}
static void torchao_other_blocks(stored_weight *w) {
    torchao_blocks(w);
    w->metadata = "{\"_type\": \"Float8Tensor\", \"_data\": {\"block_size\": [1, 300]}}";
}
static void torchao_not_json(stored_weight *w) {
    torchao_blocks(w);
    w->metadata = "{\"_type\": \"Float8Tensor\"} and more";
}
/* A note of the same length as the right one. */
static void comfy_other(stored_weight *w, const char *note) {
    comfy_fp8(w);
    memcpy(w->parts[2].bytes, note, 27);
}
static void comfy_other_format(stored_weight *w) {
    comfy_other(w, "{\"format\": \"float8_e5m2\"}  ");
}
static void comfy_not_json(stored_weight *w) {
    comfy_other(w, "{\"format\": \"float8_e4m3fn\",");
}
static void comfy_rotated(stored_weight *w) {
    make_scaled(w, "", TENMAP_I8, "b.weight_scale", TENMAP_F32, 9, 40, 9, 40);
    w->parts[1].rank = 0;
    const char *note = "{\"format\": \"int8_tensorwise\", \"convrot\": true}";
    add_part(w, "b.comfy_quant", TENMAP_U8, 1, SHAPE(strlen(note)));
    memcpy(w->parts[2].bytes, note, strlen(note));
}

const broken_case broken_cases[] = {
    {bnb_more_json, "expected JSON with blocksize and shape", false},
    {bnb_other_kind, "it says \"fp4\"", false},
    {bnb_word_as_offset, "expected a number as its nested_offset", false},
    {bnb_text_as_offset, "expected a number as its nested_offset", false},
    {bnb_point_as_offset, "expected a number as its nested_offset", false},
    {bnb_exponent_as_offset, "expected a number as its nested_offset", false},
    {bnb_no_exponent_as_offset, "expected a number as its nested_offset", false},
    {bnb_no_fraction_as_offset, "expected a number as its nested_offset", false},
    {bnb_two_signs_as_offset, "expected a number as its nested_offset", false},
    {scb_other_order, "it says order 2; expected 0", false},
    {scb_several_orders, "\"b.weight_format\" is U8 [2]; expected one number", false},
    {packed_other_group, "config.json says groups of 128 columns, which gives 2 scales", false},
    {gptq_other_group, "config.json says groups of 128, which gives 2 groups for 160 inputs",
     false},
    {gptq_planar, "\"gptq_p\"", false},
    {torchao_other_blocks, "the metadata says blocks of 1x300", false},
    {torchao_not_json, "expected JSON with a _type in its metadata", false},
    {comfy_other_format, "it says format \"float8_e5m2\"", false},
    {comfy_not_json, "expected JSON with a format", false},
    {comfy_rotated, "rotated", false},
    {gptq_without_zeros, "\"b.qzeros\" is missing", true},
    {gptq_other_bits, "config.json says 8", false},
    {packed_without_shape, "\"b.weight_shape\" is missing", true},
    {packed_wrong_shape, "do not fill a row", false},
    {mlx_without_biases, "\"b.biases\" is missing", true},
    {blocks_without_scales, "\"b.gate_up_proj_scales\" is missing", true},
    {nvfp4_without_second, "\"b.weight_scale_2\" is missing", true},
    {bnb_short_absmax, "one for each of 102 blocks", false},
    {bnb_not_json, "expected JSON with blocksize and shape", false},
    {fp8_without_scales, "\"b.weight_scale_inv\" is missing", true},
    {fp8_wrong_blocks, "[2, 3] scales", false},
    {fp8_no_blocks, "F32 [1, 1, 6]", false},
    {fp8_integer_scales, "floating-point", false},
};
const size_t broken_case_count = COUNT(broken_cases);

static void gptq_bad_group(stored_weight *w) {
    gptq_int4(w);
    store_word(&w->parts[3], 200, 2);
}
static void gptq_negative_group(stored_weight *w) {
    gptq_int4(w);
    store_word(&w->parts[3], 255, UINT32_MAX);
}
static void packed_other_rows(stored_weight *w) {
    packed_int4(w);
    store_word(&w->parts[2], 0, 64);
}

const broken_case late_cases[] = {
    {gptq_bad_group, "\"b.weight\": element 200 of its part \"b.g_idx\" is 2", false},
    {gptq_negative_group, "\"b.weight\": element 255 of its part \"b.g_idx\" is -1", false},
    {packed_other_rows, "says 64 in dimension 0", false},
};
const size_t late_case_count = COUNT(late_cases);
