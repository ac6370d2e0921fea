/*
 * Every scheme in shapes that its other cases leave out: less than a vector, one element more than
 * a vector, groups that begin in the middle of a vector, and rows that take several runs.
 */
#include "quantized_schemes.h"

#define SHAPED(name, make, scheme_name, ...)                                                       \
    static void name(stored_weight *w) {                                                           \
        make(w, #name, __VA_ARGS__);                                                               \
        w->scheme = scheme_name;                                                                   \
        w->dtype = 0;                                                                              \
    }

#define SCALED(name, scheme_name, ...) SHAPED(name, make_scaled, scheme_name, __VA_ARGS__)
#define E4M3 TENMAP_F8_E4M3

SCALED(fp8_block_tiny, "fp8-block", E4M3, "b.weight_scale_inv", TENMAP_F32, 129, 257, 128, 128)
SCALED(fp8_block_run, "fp8-block", E4M3, "b.weight_scale_inv", TENMAP_BF16, 131, 2208, 128, 128)
SCALED(fp8_block_e5m2, "fp8-block", TENMAP_F8_E5M2, "b.weight_scale_inv", TENMAP_F32, 130, 391, 128,
       128)
SCALED(fp8_block_16, "fp8-block", E4M3, "b.weight_scale_inv", TENMAP_F32, 48, 112, 16, 16)
SCALED(fp8_channel_one, "fp8-channel", E4M3, "b.weight_scale", TENMAP_F32, 3, 31, 1, 31)
SCALED(fp8_channel_long, "fp8-channel", E4M3, "b.weight_scale", TENMAP_BF16, 2, 18001, 1, 18001)
SCALED(fp8_tensor_small, "fp8-tensor", E4M3, "b.weight_scale", TENMAP_F32, 2, 17, 2, 17)
SCALED(fp8_tensor_long, "fp8-tensor", E4M3, "b.weight_scale", TENMAP_F32, 3, 4099, 3, 4099)
SCALED(fp8_group, "fp8-group", E4M3, "b.weight_scale", TENMAP_F16, 5, 384, 1, 128)
SCALED(fp8_group_long, "fp8-group", E4M3, "b.weight_scale", TENMAP_F32, 3, 4608, 1, 64)
SCALED(fp8_group_8, "fp8-group", E4M3, "b.weight_scale", TENMAP_F32, 4, 72, 1, 8)
SCALED(mxfp8_one, "mxfp8", E4M3, "b.weight_scale", TENMAP_U8, 7, 64, 1, 32)
SCALED(mxfp8_long, "mxfp8", E4M3, "b.weight_scale", TENMAP_U8, 3, 4128, 1, 32)
SCALED(int8_channel_one, "int8-channel", TENMAP_I8, "b.weight_scale", TENMAP_F32, 5, 9, 1, 9)
SCALED(int8_channel_long, "int8-channel", TENMAP_I8, "b.weight_scale", TENMAP_F16, 2, 5001, 1, 5001)
SCALED(int8_block, "int8-block", TENMAP_I8, "b.weight_scale", TENMAP_F32, 130, 300, 128, 128)
SCALED(int8_group, "int8-group", TENMAP_I8, "b.weight_scale", TENMAP_F32, 4, 4160, 1, 32)

/* Plain numbers, which BF16 represents exactly, and scales, which it mostly does not. */
static void fp8_numbers(stored_weight *w) {
    fp8_block(w);
    for (size_t i = 0; i < w->parts[0].size; i++)
        w->parts[0].bytes[i] ^= (w->parts[0].bytes[i] & 0x7f) == 0x7f;
}
static void fp8_wild_scales(stored_weight *w) {
    static const float wild[] = {0x1p-140f, 0x1p-126f, 0x1.8p119f, 0x1p126f, 0};
    fp8_numbers(w);
    for (size_t i = 0; i * 4 < w->parts[1].size; i++)
        memcpy(w->parts[1].bytes + 4 * i, &wild[i % COUNT(wild)], 4);
}

#define PACKED(name, scheme_name, ...) SHAPED(name, make_packed, scheme_name, __VA_ARGS__)

PACKED(packed4_small, "int4-group", 4, 3, 64, 16, false, false)
PACKED(packed4_long, "int4-group", 4, 5, 16640, 32, false, false)
PACKED(packed4_odd, "int4-group", 4, 9, 77, 32, false, false)
PACKED(packed4_zeros, "int4-group", 4, 17, 4352, 128, true, false)
PACKED(packed4_channel, "int4-channel", 4, 6, 333, 333, true, false)
PACKED(packed8_group, "int8-group", 8, 7, 2304, 64, false, false)
PACKED(packed8_96, "int8-group", 8, 5, 288, 96, false, false) /* not 128, the last one ragged */
PACKED(packed8_small, "int8-group", 8, 3, 48, 16, true, false)
PACKED(packed3_long, "int3-group", 3, 33, 4224, 64, true, false)
PACKED(packed3_small, "int3-group", 3, 2, 64, 32, false, false)
PACKED(packed3_old, "int3-group", 3, 4, 2560, 64, false, true)
PACKED(packed3_old_two, "int3-group", 3, 11, 192, 32, false, true)

#define TURNED(name, scheme_name, ...) SHAPED(name, make_turned, scheme_name, __VA_ARGS__)

TURNED(gptq4_small, "int4-group", 4, 64, 8, 32, false, false)
TURNED(gptq4_wide, "int4-group", 4, 160, 1032, 32, false, false)
TURNED(gptq4_order, "int4-group", 4, 640, 328, 64, false, true)
TURNED(gptq4_one, "int4-channel", 4, 320, 72, 320, false, false)
TURNED(gptq3_wide, "int3-group", 3, 544, 352, 32, false, true)
TURNED(gptq3_small, "int3-group", 3, 64, 32, 32, false, true)
TURNED(gptq8_wide, "int8-group", 8, 288, 264, 32, false, true)
TURNED(gptq8_small, "int8-group", 8, 64, 20, 32, false, true)
TURNED(gptq2_wide, "int2-group", 2, 1088, 80, 64, false, true)
TURNED(gptq2_small, "int2-group", 2, 32, 16, 16, false, true)
TURNED(awq_small, "int4-group", 4, 64, 8, 32, true, false)
TURNED(awq_tiles, "int4-group", 4, 160, 1096, 32, true, false)
TURNED(awq_two_tiles, "int4-group", 4, 1058, 520, 46, true, false)
TURNED(gptq4_two_tiles, "int4-group", 4, 1120, 517, 32, false, false)

#define PAIRS(name, scheme_name, ...) SHAPED(name, make_pairs, scheme_name, __VA_ARGS__)
#define PACKED_U8 "b.weight_packed", TENMAP_U8, "b.weight_scale"

PAIRS(mxfp4_one, "mxfp4", 4, 3, 32, 32, PACKED_U8, TENMAP_U8)
PAIRS(mxfp4_long, "mxfp4", 4, 5, 16672, 32, PACKED_U8, TENMAP_U8)
PAIRS(mxfp6_one, "mxfp6", 6, 2, 32, 32, PACKED_U8, TENMAP_U8)
PAIRS(mxfp6_long, "mxfp6", 6, 3, 4128, 32, PACKED_U8, TENMAP_U8)
static void nvfp4_one(stored_weight *w) {
    make_pairs(w, "nvfp4 one group", 4, 5, 16, 16, PACKED_U8, E4M3);
    add_scales(w, "b.weight_global_scale", TENMAP_F32, 1, (const uint64_t[]){1});
    w->group_rows = 3;
}
static void nvfp4_long(stored_weight *w) {
    make_pairs(w, "nvfp4 long", 4, 3, 4208, 16, "b.weight", TENMAP_U8, "b.weight_scale", E4M3);
    add_scales(w, "b.weight_scale_2", TENMAP_F32, 1, (const uint64_t[]){1});
}
static void gpt_oss_one(stored_weight *w) {
    make_gpt_oss(w, "gpt-oss, one group", 3, 5, 1);
}
static void gpt_oss_tiles(stored_weight *w) {
    make_gpt_oss(w, "gpt-oss, tiles", 2, 613, 5);
}
static void gpt_oss_two_tiles(stored_weight *w) {
    make_gpt_oss(w, "gpt-oss, two tiles", 1, 1061, 17);
}
/* Powers of two that are too large or too small for narrower dtypes. */
static void gpt_oss_wild(stored_weight *w) {
    make_gpt_oss(w, "gpt-oss, wild scales", 1, 75, 3);
    for (size_t i = 0; i < w->parts[1].size; i += 7)
        w->parts[1].bytes[i] = (unsigned char)(i % 2 ? i % 3 : 252 + i % 3);
}

#define AFFINE(name, ...)                                                                          \
    static void name(stored_weight *w) {                                                           \
        make_affine(w, #name, __VA_ARGS__);                                                        \
    }

AFFINE(mlx4_one, 4, 3, 64, 64, "int4-affine", NULL)
AFFINE(mlx4_long, 4, 5, 16640, 128, "int4-affine",
       "{\"quantization\": {\"group_size\": 128, \"bits\": 4}}")
AFFINE(mlx4_32, 4, 9, 96, 32, "int4-affine",
       "{\"quantization\": {\"group_size\": 32, \"bits\": 4}}")
AFFINE(mlx2_one, 2, 3, 64, 64, "int2-affine",
       "{\"quantization\": {\"group_size\": 64, \"bits\": 2}}")
AFFINE(mlx2_long, 2, 4, 4160, 64, "int2-affine",
       "{\"quantization\": {\"group_size\": 64, \"bits\": 2}}")
AFFINE(mlx2_32, 2, 7, 96, 32, "int2-affine",
       "{\"quantization\": {\"group_size\": 32, \"bits\": 2}}")
AFFINE(mlx3_one, 3, 6, 64, 64, "int3-affine",
       "{\"quantization\": {\"group_size\": 64, \"bits\": 3}}")
AFFINE(mlx3_32, 3, 5, 160, 32, "int3-affine",
       "{\"quantization\": {\"group_size\": 32, \"bits\": 3}}")
AFFINE(mlx5_one, 5, 6, 64, 64, "int5-affine",
       "{\"quantization\": {\"group_size\": 64, \"bits\": 5}}")
AFFINE(mlx5_long, 5, 3, 4224, 64, "int5-affine",
       "{\"quantization\": {\"group_size\": 64, \"bits\": 5}}")
AFFINE(mlx5_32, 5, 4, 160, 32, "int5-affine",
       "{\"quantization\": {\"group_size\": 32, \"bits\": 5}}")
AFFINE(mlx6_long, 6, 3, 4224, 64, "int6-affine",
       "{\"quantization\": {\"group_size\": 64, \"bits\": 6}}")
AFFINE(mlx6_one, 6, 2, 64, 64, "int6-affine",
       "{\"quantization\": {\"group_size\": 64, \"bits\": 6}}")
AFFINE(mlx8_long, 8, 3, 4224, 64, "int8-affine",
       "{\"quantization\": {\"group_size\": 64, \"bits\": 8}}")
AFFINE(mlx8_32, 8, 7, 96, 32, "int8-affine",
       "{\"quantization\": {\"group_size\": 32, \"bits\": 8}}")

#define BNB4(name, ...)                                                                            \
    static void name(stored_weight *w) {                                                           \
        make_bnb4(w, #name, __VA_ARGS__);                                                          \
    }

BNB4(nf4_small, 3, 5, 64, false, false)
BNB4(nf4_long, 7, 4099, 128, false, false)
BNB4(nf4_nested_long, 9, 4001, 64, true, false)
BNB4(nf4_nested_small, 2, 9, 64, true, false)
BNB4(fp4_small, 3, 7, 64, false, true)
BNB4(fp4_long, 5, 4100, 64, false, true)
BNB4(fp4_nested, 31, 129, 64, true, true)

make_weight *const quantized_shapes[] = {
    fp8_numbers,      fp8_wild_scales,   fp8_block_tiny,   fp8_block_run,     fp8_block_e5m2,
    fp8_block_16,     fp8_channel_one,   fp8_channel_long, fp8_tensor_small,  fp8_tensor_long,
    fp8_group,        fp8_group_long,    fp8_group_8,      mxfp8_one,         mxfp8_long,
    int8_channel_one, int8_channel_long, int8_block,       int8_group,        packed4_small,
    packed4_long,     packed4_odd,       packed4_zeros,    packed4_channel,   packed8_group,
    packed8_96,       packed8_small,     packed3_long,     packed3_small,     packed3_old,
    packed3_old_two,  gptq4_small,       gptq4_wide,       gptq4_order,       gptq4_one,
    gptq3_wide,       gptq3_small,       gptq8_wide,       gptq8_small,       gptq2_wide,
    gptq2_small,      awq_small,         awq_tiles,        awq_two_tiles,     gptq4_two_tiles,
    mxfp4_one,        mxfp4_long,        mxfp6_one,        mxfp6_long,        nvfp4_one,
    nvfp4_long,       gpt_oss_one,       gpt_oss_tiles,    gpt_oss_two_tiles, gpt_oss_wild,
    mlx4_one,         mlx4_long,         mlx4_32,          mlx2_one,          mlx2_long,
    mlx2_32,          mlx3_one,          mlx3_32,          mlx5_one,          mlx5_long,
    mlx5_32,          mlx6_long,         mlx6_one,         mlx8_long,         mlx8_32,
    nf4_small,        nf4_long,          nf4_nested_long,  nf4_nested_small,  fp4_small,
    fp4_long,         fp4_nested,
};
const size_t quantized_shape_count = COUNT(quantized_shapes);
