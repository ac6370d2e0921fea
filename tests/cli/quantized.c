/*
 * Models for the tests of --dequantize and --quantize, with values that are the same on every
 * system:
 *
 *     plain/       a small Llama in BF16, with config.json and generation_config.json
 *     fp8/         one of its weights in FP8 with scales for blocks of 128x128, like DeepSeek's, in
 *                  two shards that separate a weight from its scales; an activation's scale;
 *                  hf_quant_config.json
 *     gptq/        a weight of 64x32 in 4 bits, as GPTQ packs it
 *     mixed.safetensors    FP8 and packed integers of compressed-tensors in a file; no config.json
 *     looks.safetensors    packed words without their scales
 *     unsure.safetensors   FP8 with scales of a shape that fits no block
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenmap.h>
#include <unistd.h>

static tenmap_error error;

static void must(tenmap_status status) {
    if (status != TENMAP_OK) {
        fprintf(stderr, "quantized: %s\n", error.message);
        exit(1);
    }
}

static void put_text(const char *path, const char *text) {
    FILE *out = fopen(path, "wb");
    if (!out || fputs(text, out) < 0 || fclose(out) != 0) {
        perror(path);
        exit(1);
    }
}

static void make_folder(const char *path) {
    if (mkdir(path, 0777) != 0) {
        perror(path);
        exit(1);
    }
}

/* What a tensor is filled with: numbers around 0, integers from 0 on, or one value. */
typedef enum fill { NUMBERS, BITS, CONSTANT, COUNTING /* I32 below 256 */, SHAPE } fill;

typedef struct part {
    const char *name;
    tenmap_dtype dtype;
    uint64_t rows, columns; /* columns 0: one dimension */
    fill how;
    /* Of NUMBERS; the value of a CONSTANT; elements per number of COUNTING; columns of a SHAPE. */
    float scale;
} part;

static uint32_t random_state;

static uint32_t random_bits(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8; /* 24 bits */
}

/* The sum of four random numbers: roughly normal around 0, from -2 to 2 times the scale. */
static float number(float scale) {
    int32_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (int32_t)(random_bits() & 0xffff) - 0x8000;
    return scale * (float)sum / 65536;
}

static size_t part_count(const part *p) {
    return (size_t)(p->rows * (p->columns ? p->columns : 1));
}

static void *part_bytes(const part *p, size_t *bytes) {
    size_t count = part_count(p);
    unsigned char *out = calloc(count, 8);
    float *values = malloc(count * sizeof *values);
    if (!out || !values)
        exit(1);
    *bytes = count * tenmap_dtype_bits(p->dtype) / 8;
    for (size_t i = 0; i < count; i++)
        values[i] = p->how == CONSTANT ? p->scale : number(p->scale);
    if (p->how == BITS)
        for (size_t i = 0; i < *bytes; i++)
            out[i] = (unsigned char)random_bits();
    else if (p->how == COUNTING)
        for (size_t i = 0; i < count; i++)
            out[4 * i] = (unsigned char)((float)i / p->scale);
    else if (p->how == SHAPE) { /* of 4 rows, as I64 */
        out[0] = 4;
        out[8] = (unsigned char)p->scale;
    } else
        must(tenmap_convert(p->dtype, out, count * 8, TENMAP_F32, values, count, 0, &error));
    free(values);
    return out;
}

static tenmap_source source_of(const part *p, uint64_t *shape) {
    size_t bytes;
    shape[0] = p->rows;
    shape[1] = p->columns;
    return (tenmap_source){.name = p->name,
                           .name_len = TENMAP_CSTR,
                           .shape = shape,
                           .rank = p->columns ? 2 : 1,
                           .dtype = p->dtype,
                           .data = part_bytes(p, &bytes)};
}

static void write_file(const char *path, const part *parts, size_t count) {
    tenmap_writer *writer;
    tenmap_source sources[16] = {{.name = NULL}};
    uint64_t shapes[16][2];
    must(tenmap_writer_create(path, NULL, &writer, &error));
    for (size_t i = 0; i < count; i++) {
        sources[i] = source_of(&parts[i], shapes[i]);
        must(tenmap_writer_add(writer, sources[i].name, TENMAP_CSTR, sources[i].dtype, shapes[i],
                               sources[i].rank, NULL, &error));
    }
    must(tenmap_writer_copy_list(writer, sources, count, NULL, &error));
    must(tenmap_writer_commit(writer, &error));
    for (size_t i = 0; i < count; i++)
        free((void *)sources[i].data);
}

static void write_folder(const char *path, const part *parts, size_t count, uint64_t shard) {
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_source sources[16] = {{.name = NULL}};
    uint64_t shapes[16][2];
    for (size_t i = 0; i < count; i++)
        sources[i] = source_of(&parts[i], shapes[i]);
    options.max_shard_bytes = shard;
    must(tenmap_save_sharded(path, sources, count, &options, &error));
    for (size_t i = 0; i < count; i++)
        free((void *)sources[i].data);
}

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static void write_plain(void) {
    static const part parts[] = {
        {"model.embed_tokens.weight", TENMAP_BF16, 64, 160, NUMBERS, 1},
        {"model.layers.0.input_layernorm.weight", TENMAP_BF16, 160, 0, CONSTANT, 1},
        {"model.layers.0.mlp.down_proj.weight", TENMAP_BF16, 160, 200, NUMBERS, 0.5F},
        {"model.layers.0.mlp.up_proj.weight", TENMAP_BF16, 200, 160, NUMBERS, 0.25F},
        {"model.layers.0.self_attn.q_proj.bias", TENMAP_BF16, 160, 0, NUMBERS, 1},
        {"model.layers.0.self_attn.q_proj.weight", TENMAP_BF16, 160, 160, NUMBERS, 1},
        {"model.layers.1.mlp.down_proj.weight", TENMAP_BF16, 160, 200, NUMBERS, 2},
        {"model.layers.1.mlp.gate.weight", TENMAP_BF16, 8, 160, NUMBERS, 1},
        {"model.layers.1.mlp.up_proj.weight", TENMAP_BF16, 200, 160, NUMBERS, 1},
        {"lm_head.weight", TENMAP_BF16, 64, 160, NUMBERS, 1},
    };
    random_state = 1;
    make_folder("plain");
    write_file("plain/model.safetensors", parts, COUNT(parts));
    put_text("plain/config.json", "{\n"
                                  "  \"architectures\": [\"LlamaForCausalLM\"],\n"
                                  "  \"hidden_size\": 160,\n"
                                  "  \"torch_dtype\": \"bfloat16\"\n"
                                  "}\n");
    put_text("plain/generation_config.json", "{}\n");
}

static void write_fp8(void) {
    static const part parts[] = {
        {"model.embed_tokens.weight", TENMAP_BF16, 16, 200, NUMBERS, 1},
        {"model.layers.0.mlp.up_proj.weight", TENMAP_F8_E4M3, 130, 200, NUMBERS, 100},
        {"model.layers.0.mlp.up_proj.weight_scale_inv", TENMAP_F32, 2, 2, NUMBERS, 0.01F},
        {"model.layers.0.mlp.up_proj.input_scale", TENMAP_F32, 1, 0, CONSTANT, 0.5F},
        {"model.norm.weight", TENMAP_BF16, 200, 0, CONSTANT, 1},
    };
    random_state = 2;
    make_folder("fp8");
    write_folder("fp8", parts, COUNT(parts), 26000);
    put_text("fp8/config.json", "{\n"
                                "  \"architectures\": [\"LlamaForCausalLM\"],\n"
                                "  \"quantization_config\": {\n"
                                "    \"activation_scheme\": \"dynamic\",\n"
                                "    \"quant_method\": \"fp8\",\n"
                                "    \"weight_block_size\": [128, 128]\n"
                                "  },\n"
                                "  \"torch_dtype\": \"float16\",\n"
                                "  \"vocab_size\": 16\n"
                                "}\n");
    put_text("fp8/hf_quant_config.json", "{}\n");
    put_text("fp8/tokenizer.json", "{}\n");
}

static void write_gptq(void) {
    static const part parts[] = {
        {"model.layers.0.q_proj.qweight", TENMAP_I32, 8, 32, BITS, 0},
        {"model.layers.0.q_proj.qzeros", TENMAP_I32, 2, 4, BITS, 0},
        {"model.layers.0.q_proj.scales", TENMAP_F16, 2, 32, CONSTANT, 0.125F},
        {"model.layers.0.q_proj.g_idx", TENMAP_I32, 64, 0, COUNTING, 32},
        {"model.norm.weight", TENMAP_F16, 64, 0, CONSTANT, 1},
    };
    random_state = 3;
    make_folder("gptq");
    write_file("gptq/model.safetensors", parts, COUNT(parts));
    put_text("gptq/config.json",
             "{\"model_type\": \"llama\", \"text_config\": {\"dtype\": \"float16\"}, "
             "\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, "
             "\"group_size\": 32}}\n");
}

static void write_files(void) {
    static const part mixed[] = {
        {"a.weight", TENMAP_F8_E4M3, 4, 16, NUMBERS, 10},
        {"a.weight_scale", TENMAP_BF16, 4, 1, CONSTANT, 0.5F},
        {"b.weight_packed", TENMAP_I32, 4, 8, BITS, 0},
        {"b.weight_scale", TENMAP_BF16, 4, 2, CONSTANT, 0.25F},
        {"b.weight_shape", TENMAP_I64, 2, 0, SHAPE, 64},
        {"c.weight", TENMAP_BF16, 4, 4, NUMBERS, 1},
    };
    static const part looks[] = {
        {"m.qweight", TENMAP_I32, 8, 32, BITS, 0},
        {"m.qzeros", TENMAP_I32, 2, 4, BITS, 0},
        {"n.weight", TENMAP_BF16, 4, 4, NUMBERS, 1},
    };
    static const part unsure[] = {
        {"m.weight", TENMAP_F8_E4M3, 8, 8, NUMBERS, 10},
        {"m.weight_scale_inv", TENMAP_F32, 3, 8, CONSTANT, 1},
    };
    random_state = 4;
    write_file("mixed.safetensors", mixed, COUNT(mixed));
    write_file("looks.safetensors", looks, COUNT(looks));
    write_file("unsure.safetensors", unsure, COUNT(unsure));
}

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: cli_quantized FOLDER\n");
        return 2;
    }
    write_plain();
    write_fp8();
    write_gptq();
    write_files();
    return 0;
}
