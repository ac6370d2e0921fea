/*
 * Writes a language model with random weights in the form that hubs use: config.json and
 * model.safetensors, BF16, the architecture Qwen2 with a tied head. For trying examples/llama, and
 * for timing engines. The folder must exist.
 *
 *     random FOLDER [LAYERS WIDTH INNER HEADS KV_HEADS VOCABULARY]
 *
 * 28 1536 8960 12 2 151936 are the sizes of Qwen2.5-1.5B, 3.1 GB.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenmap.h>

enum { LAYERS, WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY, SIZES };

/* A weight's name and shape: w is the width, i the inner layer's, k the keys', v the vocabulary. */
typedef struct row {
    const char *name, *shape;
} row;

static const row outside[] = {{"model.embed_tokens.weight", "vw"}, {"model.norm.weight", "w"}};
static const row parts[] = {
    {"input_layernorm.weight", "w"},   {"post_attention_layernorm.weight", "w"},
    {"self_attn.q_proj.weight", "ww"}, {"self_attn.q_proj.bias", "w"},
    {"self_attn.k_proj.weight", "kw"}, {"self_attn.k_proj.bias", "k"},
    {"self_attn.v_proj.weight", "kw"}, {"self_attn.v_proj.bias", "k"},
    {"self_attn.o_proj.weight", "ww"}, {"mlp.gate_proj.weight", "iw"},
    {"mlp.up_proj.weight", "iw"},      {"mlp.down_proj.weight", "wi"}};
enum { OUTSIDE = sizeof outside / sizeof outside[0], PARTS = sizeof parts / sizeof parts[0] };

static int write_config(const char *path, const uint64_t *sizes) {
    FILE *out = fopen(path, "w");
    if (!out)
        return 0;
    fprintf(
        out,
        "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", \"torch_dtype\": "
        "\"bfloat16\",\n\"num_hidden_layers\": %" PRIu64 ", \"hidden_size\": %" PRIu64
        ", \"intermediate_size\": %" PRIu64 ",\n\"num_attention_heads\": %" PRIu64
        ", \"num_key_value_heads\": %" PRIu64 ", \"vocab_size\": %" PRIu64
        ",\n\"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, "
        "\"max_position_embeddings\": 32768,\n\"tie_word_embeddings\": true}\n",
        sizes[LAYERS], sizes[WIDTH], sizes[INNER], sizes[HEADS], sizes[KV_HEADS],
        sizes[VOCABULARY]);
    return fclose(out) == 0;
}

static const row *row_of(size_t i) {
    return i < OUTSIDE ? &outside[i] : &parts[(i - OUTSIDE) % PARTS];
}

static uint32_t shape_of(size_t i, const uint64_t *sizes, uint64_t shape[2]) {
    uint32_t rank = 0;
    shape[1] = 1;
    for (const char *s = row_of(i)->shape; *s; s++)
        shape[rank++] = *s == 'w'   ? sizes[WIDTH]
                        : *s == 'i' ? sizes[INNER]
                        : *s == 'k' ? sizes[WIDTH] / sizes[HEADS] * sizes[KV_HEADS]
                                    : sizes[VOCABULARY];
    return rank;
}

/* Declares weight i: first those outside of the layers, then those of each layer. */
static tenmap_status add(tenmap_writer *writer, size_t i, const uint64_t *sizes,
                         tenmap_error *error) {
    uint64_t shape[2];
    char name[96];
    if (i < OUTSIDE)
        snprintf(name, sizeof name, "%s", row_of(i)->name);
    else
        snprintf(name, sizeof name, "model.layers.%zu.%s", (i - OUTSIDE) / PARTS, row_of(i)->name);
    uint32_t rank = shape_of(i, sizes, shape);
    return tenmap_writer_add(writer, name, TENMAP_CSTR, TENMAP_BF16, shape, rank, NULL, error);
}

/* The upper half of an F32 is a BF16; the file is little-endian. */
static void put_bf16(unsigned char *to, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    to[0] = (unsigned char)(bits >> 16);
    to[1] = (unsigned char)(bits >> 24);
}

/*
 * Uniform around 0 for a matrix, scaled so that the product of a row with its input is about as
 * large as the input; around 1 for a norm, around 0 for a bias.
 */
static tenmap_status fill(tenmap_writer *writer, size_t i, const uint64_t *sizes, uint64_t *state,
                          tenmap_error *error) {
    enum { PIECE = 1 << 16 };
    static unsigned char bytes[2 * PIECE];
    uint64_t shape[2], done = 0;
    float range = 1, middle = strstr(row_of(i)->name, "norm") ? 1 : 0;
    tenmap_status status = TENMAP_OK;
    int vector = shape_of(i, sizes, shape) == 1;
    while (range * range * (float)shape[1] > 3 || (vector && range > 0.1f))
        range /= 2;
    for (uint64_t count = shape[0] * shape[1]; done < count && status == TENMAP_OK;) {
        size_t n = count - done < PIECE ? (size_t)(count - done) : PIECE;
        for (size_t k = 0; k < n; k++) {
            *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            put_bf16(bytes + 2 * k, middle + range * ((float)(*state >> 40) * 0x1p-23f - 1));
        }
        status = tenmap_writer_write(writer, i, done * 2, bytes, n * 2, error);
        done += n;
    }
    return status;
}

static int write_weights(const char *path, const uint64_t *sizes, tenmap_error *error) {
    tenmap_writer *writer = NULL;
    uint64_t state = 1;
    size_t count = OUTSIDE + (size_t)sizes[LAYERS] * PARTS;
    tenmap_status status = tenmap_writer_create(path, NULL, &writer, error);
    if (status == TENMAP_OK)
        status = tenmap_writer_metadata(writer, "format", TENMAP_CSTR, "pt", TENMAP_CSTR, error);
    for (size_t i = 0; i < count && status == TENMAP_OK; i++)
        status = add(writer, i, sizes, error);
    for (size_t i = 0; i < count && status == TENMAP_OK; i++)
        status = fill(writer, i, sizes, &state, error);
    if (status == TENMAP_OK)
        return tenmap_writer_commit(writer, error) == TENMAP_OK;
    tenmap_writer_abort(writer);
    return 0;
}

int main(int argc, char **argv) {
    uint64_t sizes[SIZES] = {2, 64, 128, 4, 2, 256};
    tenmap_error error = {.message = "the path is too long, or config.json could not be written"};
    char path[4096];
    int good = argc == 2 || argc == 2 + SIZES;
    for (int i = 0; good && argc > 2 && i < SIZES; i++) {
        sizes[i] = strtoul(argv[2 + i], NULL, 10);
        good = sizes[i] >= 1 && sizes[i] <= 1 << 24;
    }
    if (!good || sizes[WIDTH] % sizes[HEADS] != 0) {
        fprintf(stderr, "usage: random FOLDER [LAYERS WIDTH INNER HEADS KV_HEADS VOCABULARY]\n");
        return 2;
    }
    good = snprintf(path, sizeof path, "%s/config.json", argv[1]) < (int)sizeof path - 16 &&
           write_config(path, sizes);
    if (good)
        snprintf(path, sizeof path, "%s/model.safetensors", argv[1]);
    if (!good || !write_weights(path, sizes, &error)) {
        fprintf(stderr, "random: %s\n", error.message);
        return 1;
    }
    return 0;
}
