/*
 * Writes models with the names, shapes, dtypes and configurations of published ones, without data:
 * the files are sparse, and take no more room than their headers.
 *
 *     cli_published FOLDER [NAME...]     writes FOLDER/NAME/config.json and model.safetensors
 *
 * Names and shapes are written down here a second time, from the configurations and the code of
 * their authors, so that the tool's table of architectures is tested against something else.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct header {
    char *bytes;
    size_t len, room;
    uint64_t data; /* bytes of all tensors so far */
} header;

static void grow(header *h, const char *format, ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= sizeof line)
        exit(1);
    if (h->len + (size_t)n > h->room) {
        h->room = 2 * h->room + sizeof line;
        h->bytes = realloc(h->bytes, h->room);
        if (!h->bytes)
            exit(1);
    }
    memcpy(h->bytes + h->len, line, (size_t)n);
    h->len += (size_t)n;
}

enum { MOST_AXES = 4 };
typedef struct shape {
    uint64_t axes[MOST_AXES]; /* 0 ends it */
} shape;
#define S(...) ((shape){{__VA_ARGS__}})

static uint64_t bytes_of(const char *dtype) {
    return strcmp(dtype, "F32") == 0 ? 4 : strcmp(dtype, "BF16") == 0 ? 2 : 1;
}

static void put(header *h, const char *dtype, const char *name, shape s) {
    uint64_t bytes = bytes_of(dtype);
    grow(h, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", h->len > 1 ? "," : "", name, dtype);
    for (int i = 0; i < MOST_AXES && s.axes[i]; i++) {
        grow(h, "%s%" PRIu64, i ? "," : "", s.axes[i]);
        bytes *= s.axes[i];
    }
    grow(h, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", h->data, h->data + bytes);
    h->data += bytes;
}

/* A tensor in BF16 with the name of a layer, "model.layers.3." before its own. */
static void in_layer(header *h, const char *stack, uint64_t layer, const char *name, shape s) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s.%" PRIu64 ".%s", stack, layer, name);
    put(h, "BF16", whole, s);
}

/* A weight in FP8 and its scales, one for 128 x 128 values, as DeepSeek stores them. */
static void in_fp8(header *h, uint64_t layer, const char *name, uint64_t rows, uint64_t columns) {
    char whole[256];
    snprintf(whole, sizeof whole, "model.layers.%" PRIu64 ".%s.weight", layer, name);
    put(h, "F8_E4M3", whole, S(rows, columns));
    snprintf(whole, sizeof whole, "model.layers.%" PRIu64 ".%s.weight_scale_inv", layer, name);
    put(h, "F32", whole, S((rows + 127) / 128, (columns + 127) / 128));
}

typedef struct decoder {
    uint64_t hidden, inner, layers, heads, kv, head, vocab;
    bool tied, biases, head_norms, four_norms;
} decoder;

static const char model_layers[] = "model.layers";

static void put_outer(header *h, const decoder *d) {
    put(h, "BF16", "model.embed_tokens.weight", S(d->vocab, d->hidden));
    put(h, "BF16", "model.norm.weight", S(d->hidden));
    if (!d->tied)
        put(h, "BF16", "lm_head.weight", S(d->vocab, d->hidden));
}

static void put_norms(header *h, const decoder *d, uint64_t i) {
    in_layer(h, model_layers, i, "input_layernorm.weight", S(d->hidden));
    in_layer(h, model_layers, i, "post_attention_layernorm.weight", S(d->hidden));
    if (d->four_norms) {
        in_layer(h, model_layers, i, "pre_feedforward_layernorm.weight", S(d->hidden));
        in_layer(h, model_layers, i, "post_feedforward_layernorm.weight", S(d->hidden));
    }
}

static void put_attention(header *h, const decoder *d, uint64_t i) {
    uint64_t query = d->heads * d->head, key = d->kv * d->head;
    in_layer(h, model_layers, i, "self_attn.q_proj.weight", S(query, d->hidden));
    in_layer(h, model_layers, i, "self_attn.k_proj.weight", S(key, d->hidden));
    in_layer(h, model_layers, i, "self_attn.v_proj.weight", S(key, d->hidden));
    in_layer(h, model_layers, i, "self_attn.o_proj.weight", S(d->hidden, query));
    if (d->biases) {
        in_layer(h, model_layers, i, "self_attn.q_proj.bias", S(query));
        in_layer(h, model_layers, i, "self_attn.k_proj.bias", S(key));
        in_layer(h, model_layers, i, "self_attn.v_proj.bias", S(key));
    }
    if (d->head_norms) {
        in_layer(h, model_layers, i, "self_attn.q_norm.weight", S(d->head));
        in_layer(h, model_layers, i, "self_attn.k_norm.weight", S(d->head));
    }
}

static void put_dense(header *h, const decoder *d) {
    put_outer(h, d);
    for (uint64_t i = 0; i < d->layers; i++) {
        put_norms(h, d, i);
        put_attention(h, d, i);
        in_layer(h, model_layers, i, "mlp.gate_proj.weight", S(d->inner, d->hidden));
        in_layer(h, model_layers, i, "mlp.up_proj.weight", S(d->inner, d->hidden));
        in_layer(h, model_layers, i, "mlp.down_proj.weight", S(d->hidden, d->inner));
    }
}

static void put_llama(header *h) {
    put_dense(h, &(decoder){4096, 14336, 32, 32, 8, 128, 128256, .tied = false});
}

static void put_mistral(header *h) {
    put_dense(h, &(decoder){4096, 14336, 32, 32, 8, 128, 32000, .tied = false});
}

static void put_qwen25(header *h) {
    put_dense(h, &(decoder){3584, 18944, 28, 28, 4, 128, 152064, .biases = true});
}

static void put_gemma2(header *h) {
    put_dense(h, &(decoder){3584, 14336, 42, 16, 8, 256, 256000, .tied = true, .four_norms = true});
}

static void put_experts(header *h, uint64_t layer, uint64_t count, const char *const *names,
                        shape up, shape down) {
    for (uint64_t e = 0; e < count; e++)
        for (int k = 0; k < 3; k++) {
            char name[128];
            snprintf(name, sizeof name, names[k], e);
            in_layer(h, model_layers, layer, name, k < 2 ? up : down);
        }
}

static void put_qwen3_moe(header *h) {
    static const char *const names[] = {"mlp.experts.%" PRIu64 ".gate_proj.weight",
                                        "mlp.experts.%" PRIu64 ".up_proj.weight",
                                        "mlp.experts.%" PRIu64 ".down_proj.weight"};
    const decoder d = {2048, 0, 48, 32, 4, 128, 151936, .head_norms = true};
    put_outer(h, &d);
    for (uint64_t i = 0; i < d.layers; i++) {
        put_norms(h, &d, i);
        put_attention(h, &d, i);
        in_layer(h, model_layers, i, "mlp.gate.weight", S(128, d.hidden));
        put_experts(h, i, 128, names, S(768, d.hidden), S(d.hidden, 768));
    }
}

static void put_mixtral(header *h) {
    static const char *const names[] = {"block_sparse_moe.experts.%" PRIu64 ".w1.weight",
                                        "block_sparse_moe.experts.%" PRIu64 ".w3.weight",
                                        "block_sparse_moe.experts.%" PRIu64 ".w2.weight"};
    const decoder d = {4096, 14336, 32, 32, 8, 128, 32000, .tied = false};
    put_outer(h, &d);
    for (uint64_t i = 0; i < d.layers; i++) {
        put_norms(h, &d, i);
        put_attention(h, &d, i);
        in_layer(h, model_layers, i, "block_sparse_moe.gate.weight", S(8, d.hidden));
        put_experts(h, i, 8, names, S(d.inner, d.hidden), S(d.hidden, d.inner));
    }
}

static void put_latent_attention(header *h, uint64_t i) {
    in_fp8(h, i, "self_attn.q_a_proj", 1536, 7168);
    in_layer(h, model_layers, i, "self_attn.q_a_layernorm.weight", S(1536));
    in_fp8(h, i, "self_attn.q_b_proj", 24576, 1536);
    in_fp8(h, i, "self_attn.kv_a_proj_with_mqa", 576, 7168);
    in_layer(h, model_layers, i, "self_attn.kv_a_layernorm.weight", S(512));
    in_fp8(h, i, "self_attn.kv_b_proj", 32768, 512);
    in_fp8(h, i, "self_attn.o_proj", 7168, 16384);
}

static void put_fp8_mlp(header *h, uint64_t i, const char *module, uint64_t inner) {
    char name[128];
    snprintf(name, sizeof name, "%s.gate_proj", module);
    in_fp8(h, i, name, inner, 7168);
    snprintf(name, sizeof name, "%s.up_proj", module);
    in_fp8(h, i, name, inner, 7168);
    snprintf(name, sizeof name, "%s.down_proj", module);
    in_fp8(h, i, name, 7168, inner);
}

/* Layer 61 predicts the token after the next one; config.json does not count it. */
static void put_deepseek(header *h) {
    const decoder d = {7168, 18432, 61, 128, 128, 0, 129280, .tied = false};
    put_outer(h, &d);
    for (uint64_t i = 0; i <= d.layers; i++) {
        put_norms(h, &d, i);
        put_latent_attention(h, i);
        if (i < 3) {
            put_fp8_mlp(h, i, "mlp", d.inner);
            continue;
        }
        in_layer(h, model_layers, i, "mlp.gate.weight", S(256, d.hidden));
        char bias[128];
        snprintf(bias, sizeof bias, "model.layers.%" PRIu64 ".mlp.gate.e_score_correction_bias", i);
        put(h, "F32", bias, S(256));
        put_fp8_mlp(h, i, "mlp.shared_experts", 2048);
        for (uint64_t e = 0; e < 256; e++) {
            char module[64];
            snprintf(module, sizeof module, "mlp.experts.%" PRIu64, e);
            put_fp8_mlp(h, i, module, 2048);
        }
    }
    in_layer(h, model_layers, d.layers, "embed_tokens.weight", S(d.vocab, d.hidden));
    in_layer(h, model_layers, d.layers, "enorm.weight", S(d.hidden));
    in_layer(h, model_layers, d.layers, "hnorm.weight", S(d.hidden));
    in_layer(h, model_layers, d.layers, "eh_proj.weight", S(d.hidden, 2 * d.hidden));
    in_layer(h, model_layers, d.layers, "shared_head.norm.weight", S(d.hidden));
    in_layer(h, model_layers, d.layers, "shared_head.head.weight", S(d.vocab, d.hidden));
}

static void put_mxfp4(header *h, uint64_t layer, const char *name, uint64_t rows) {
    char whole[128];
    snprintf(whole, sizeof whole, "model.layers.%" PRIu64 ".mlp.experts.%s_blocks", layer, name);
    put(h, "U8", whole, S(32, rows, 90, 16));
    snprintf(whole, sizeof whole, "model.layers.%" PRIu64 ".mlp.experts.%s_scales", layer, name);
    put(h, "U8", whole, S(32, rows, 90));
    snprintf(whole, sizeof whole, "mlp.experts.%s_bias", name);
    in_layer(h, model_layers, layer, whole, S(32, rows));
}

static void put_gpt_oss(header *h) {
    const decoder d = {2880, 2880, 24, 64, 8, 64, 201088, .biases = true};
    put_outer(h, &d);
    for (uint64_t i = 0; i < d.layers; i++) {
        put_norms(h, &d, i);
        put_attention(h, &d, i);
        in_layer(h, model_layers, i, "self_attn.o_proj.bias", S(d.hidden));
        in_layer(h, model_layers, i, "self_attn.sinks", S(d.heads));
        in_layer(h, model_layers, i, "mlp.router.weight", S(32, d.hidden));
        in_layer(h, model_layers, i, "mlp.router.bias", S(32));
        put_mxfp4(h, i, "gate_up_proj", 2 * d.inner);
        put_mxfp4(h, i, "down_proj", d.hidden);
    }
}

static void put_phi3(header *h) {
    const decoder d = {3072, 8192, 32, 32, 32, 96, 32064, .tied = false};
    put_outer(h, &d);
    for (uint64_t i = 0; i < d.layers; i++) {
        put_norms(h, &d, i);
        in_layer(h, model_layers, i, "self_attn.qkv_proj.weight", S(3 * d.hidden, d.hidden));
        in_layer(h, model_layers, i, "self_attn.o_proj.weight", S(d.hidden, d.hidden));
        in_layer(h, model_layers, i, "mlp.gate_up_proj.weight", S(2 * d.inner, d.hidden));
        in_layer(h, model_layers, i, "mlp.down_proj.weight", S(d.hidden, d.inner));
    }
}

static void put_t5_attention(header *h, const char *stack, uint64_t layer, const char *module) {
    static const char *const parts[] = {"q", "k", "v", "o"};
    for (int i = 0; i < 4; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s.%s.weight", module, parts[i]);
        in_layer(h, stack, layer, name, S(768, 768));
    }
}

static void put_t5_stack(header *h, const char *stack, bool decodes) {
    char name[128];
    for (uint64_t i = 0; i < 12; i++) {
        put_t5_attention(h, stack, i, "layer.0.SelfAttention");
        if (i == 0)
            in_layer(h, stack, i, "layer.0.SelfAttention.relative_attention_bias.weight",
                     S(32, 12));
        if (decodes)
            put_t5_attention(h, stack, i, "layer.1.EncDecAttention");
        snprintf(name, sizeof name, "layer.%d.DenseReluDense.wi.weight", decodes ? 2 : 1);
        in_layer(h, stack, i, name, S(3072, 768));
        snprintf(name, sizeof name, "layer.%d.DenseReluDense.wo.weight", decodes ? 2 : 1);
        in_layer(h, stack, i, name, S(768, 3072));
        for (int k = 0; k < (decodes ? 3 : 2); k++) {
            snprintf(name, sizeof name, "layer.%d.layer_norm.weight", k);
            in_layer(h, stack, i, name, S(768));
        }
    }
}

static void put_t5(header *h) {
    put(h, "BF16", "shared.weight", S(32128, 768));
    put_t5_stack(h, "encoder.block", false);
    put(h, "BF16", "encoder.final_layer_norm.weight", S(768));
    put_t5_stack(h, "decoder.block", true);
    put(h, "BF16", "decoder.final_layer_norm.weight", S(768));
}

/* LayerNorm or Linear with a bias. */
static void with_bias(header *h, const char *stack, uint64_t layer, const char *module, shape s) {
    char name[128];
    snprintf(name, sizeof name, "%.100s.weight", module);
    in_layer(h, stack, layer, name, s);
    snprintf(name, sizeof name, "%.100s.bias", module);
    in_layer(h, stack, layer, name, S(s.axes[0]));
}

/* Only Whisper's keys have no bias. */
static void put_projections(header *h, const char *stack, uint64_t layer, const char *module,
                            uint64_t hidden, bool key_bias) {
    static const char *const parts[] = {"q_proj", "v_proj", "out_proj", "k_proj"};
    char name[128];
    for (int i = 0; i < (key_bias ? 4 : 3); i++) {
        snprintf(name, sizeof name, "%s.%s", module, parts[i]);
        with_bias(h, stack, layer, name, S(hidden, hidden));
    }
    snprintf(name, sizeof name, "%s.k_proj.weight", module);
    if (!key_bias)
        in_layer(h, stack, layer, name, S(hidden, hidden));
}

static void put_whisper_stack(header *h, const char *stack, bool decodes) {
    for (uint64_t i = 0; i < 32; i++) {
        put_projections(h, stack, i, "self_attn", 1280, false);
        with_bias(h, stack, i, "self_attn_layer_norm", S(1280));
        if (decodes) {
            put_projections(h, stack, i, "encoder_attn", 1280, false);
            with_bias(h, stack, i, "encoder_attn_layer_norm", S(1280));
        }
        with_bias(h, stack, i, "fc1", S(5120, 1280));
        with_bias(h, stack, i, "fc2", S(1280, 5120));
        with_bias(h, stack, i, "final_layer_norm", S(1280));
    }
}

static void put_whisper(header *h) {
    put(h, "BF16", "model.encoder.conv1.weight", S(1280, 128, 3));
    put(h, "BF16", "model.encoder.conv1.bias", S(1280));
    put(h, "BF16", "model.encoder.conv2.weight", S(1280, 1280, 3));
    put(h, "BF16", "model.encoder.conv2.bias", S(1280));
    put(h, "BF16", "model.encoder.embed_positions.weight", S(1500, 1280));
    put_whisper_stack(h, "model.encoder.layers", false);
    put(h, "BF16", "model.encoder.layer_norm.weight", S(1280));
    put(h, "BF16", "model.encoder.layer_norm.bias", S(1280));
    put(h, "BF16", "model.decoder.embed_tokens.weight", S(51866, 1280));
    put(h, "BF16", "model.decoder.embed_positions.weight", S(448, 1280));
    put_whisper_stack(h, "model.decoder.layers", true);
    put(h, "BF16", "model.decoder.layer_norm.weight", S(1280));
    put(h, "BF16", "model.decoder.layer_norm.bias", S(1280));
}

static void put_clip_stack(header *h, const char *stack, uint64_t layers, uint64_t hidden) {
    for (uint64_t i = 0; i < layers; i++) {
        put_projections(h, stack, i, "self_attn", hidden, true);
        with_bias(h, stack, i, "layer_norm1", S(hidden));
        with_bias(h, stack, i, "mlp.fc1", S(4 * hidden, hidden));
        with_bias(h, stack, i, "mlp.fc2", S(hidden, 4 * hidden));
        with_bias(h, stack, i, "layer_norm2", S(hidden));
    }
}

static void put_clip(header *h) {
    put(h, "F32", "logit_scale", S(0));
    put(h, "F32", "text_model.embeddings.token_embedding.weight", S(49408, 768));
    put(h, "F32", "text_model.embeddings.position_embedding.weight", S(77, 768));
    put_clip_stack(h, "text_model.encoder.layers", 12, 768);
    put(h, "F32", "text_model.final_layer_norm.weight", S(768));
    put(h, "F32", "text_model.final_layer_norm.bias", S(768));
    put(h, "F32", "vision_model.embeddings.class_embedding", S(1024));
    put(h, "F32", "vision_model.embeddings.patch_embedding.weight", S(1024, 3, 14, 14));
    put(h, "F32", "vision_model.embeddings.position_embedding.weight", S(257, 1024));
    put_clip_stack(h, "vision_model.encoder.layers", 24, 1024);
    put(h, "F32", "vision_model.pre_layrnorm.weight", S(1024));
    put(h, "F32", "vision_model.pre_layrnorm.bias", S(1024));
    put(h, "F32", "vision_model.post_layernorm.weight", S(1024));
    put(h, "F32", "vision_model.post_layernorm.bias", S(1024));
    put(h, "F32", "text_projection.weight", S(768, 768));
    put(h, "F32", "visual_projection.weight", S(768, 1024));
}

static const struct published {
    const char *name;
    void (*put_all)(header *h);
    const char *config;
} models[] = {
    {"Llama-3-8B", put_llama,
     "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 4096,"
     " \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 8192, \"vocab_size\": 128256,"
     " \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}"},
    {"Mistral-7B-v0.1", put_mistral,
     "{\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\","
     " \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32,"
     " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"sliding_window\": 4096,"
     " \"max_position_embeddings\": 32768, \"vocab_size\": 32000, \"tie_word_embeddings\": false}"},
    {"Qwen2.5-7B", put_qwen25,
     "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", \"hidden_size\": 3584,"
     " \"intermediate_size\": 18944, \"num_hidden_layers\": 28, \"num_attention_heads\": 28,"
     " \"num_key_value_heads\": 4, \"max_position_embeddings\": 131072, \"vocab_size\": 152064,"
     " \"use_sliding_window\": false, \"sliding_window\": 131072, \"max_window_layers\": 28}"},
    {"Qwen3-30B-A3B", put_qwen3_moe,
     "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\","
     " \"hidden_size\": 2048, \"intermediate_size\": 6144, \"moe_intermediate_size\": 768,"
     " \"num_hidden_layers\": 48, \"num_attention_heads\": 32, \"num_key_value_heads\": 4,"
     " \"head_dim\": 128, \"num_experts\": 128, \"num_experts_per_tok\": 8,"
     " \"max_position_embeddings\": 40960, \"vocab_size\": 151936, \"sliding_window\": null,"
     " \"use_sliding_window\": false, \"max_window_layers\": 48, \"mlp_only_layers\": []}"},
    {"DeepSeek-V3", put_deepseek,
     "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"deepseek_v3\","
     " \"hidden_size\": 7168, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048,"
     " \"num_hidden_layers\": 61, \"num_nextn_predict_layers\": 1, \"num_attention_heads\": 128,"
     " \"num_key_value_heads\": 128, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512,"
     " \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128,"
     " \"first_k_dense_replace\": 3, \"n_routed_experts\": 256, \"n_shared_experts\": 1,"
     " \"num_experts_per_tok\": 8, \"max_position_embeddings\": 163840, \"vocab_size\": 129280,"
     " \"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e4m3\","
     " \"activation_scheme\": \"dynamic\", \"weight_block_size\": [128, 128]}}"},
    {"gpt-oss-20b", put_gpt_oss,
     "{\"architectures\": [\"GptOssForCausalLM\"], \"model_type\": \"gpt_oss\","
     " \"hidden_size\": 2880, \"intermediate_size\": 2880, \"num_hidden_layers\": 24,"
     " \"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"head_dim\": 64,"
     " \"num_local_experts\": 32, \"num_experts_per_tok\": 4, \"sliding_window\": 128,"
     " \"max_position_embeddings\": 131072, \"vocab_size\": 201088, \"layer_types\":"
     " [\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\","
     " \"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\","
     " \"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\","
     " \"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\","
     " \"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\","
     " \"sliding_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\"],"
     " \"quantization_config\": {\"quant_method\": \"mxfp4\", \"modules_to_not_convert\":"
     " [\"model.layers.*.self_attn\", \"model.layers.*.mlp.router\", \"model.embed_tokens\","
     " \"lm_head\"]}}"},
    {"Mixtral-8x7B-v0.1", put_mixtral,
     "{\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"mixtral\","
     " \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32,"
     " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"num_local_experts\": 8,"
     " \"num_experts_per_tok\": 2, \"sliding_window\": null, \"max_position_embeddings\": 32768,"
     " \"vocab_size\": 32000}"},
    {"Phi-3-mini-4k", put_phi3,
     "{\"architectures\": [\"Phi3ForCausalLM\"], \"model_type\": \"phi3\", \"hidden_size\": 3072,"
     " \"intermediate_size\": 8192, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 32, \"sliding_window\": 2047, \"max_position_embeddings\": 4096,"
     " \"vocab_size\": 32064}"},
    {"gemma-2-9b", put_gemma2,
     "{\"architectures\": [\"Gemma2ForCausalLM\"], \"model_type\": \"gemma2\","
     " \"hidden_size\": 3584, \"intermediate_size\": 14336, \"num_hidden_layers\": 42,"
     " \"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"head_dim\": 256,"
     " \"sliding_window\": 4096, \"max_position_embeddings\": 8192, \"vocab_size\": 256000}"},
    {"t5-base", put_t5,
     "{\"architectures\": [\"T5ForConditionalGeneration\"], \"model_type\": \"t5\","
     " \"d_model\": 768, \"d_ff\": 3072, \"d_kv\": 64, \"num_heads\": 12, \"num_layers\": 12,"
     " \"n_positions\": 512, \"relative_attention_num_buckets\": 32, \"vocab_size\": 32128}"},
    {"whisper-large-v3", put_whisper,
     "{\"architectures\": [\"WhisperForConditionalGeneration\"], \"model_type\": \"whisper\","
     " \"d_model\": 1280, \"encoder_layers\": 32, \"decoder_layers\": 32,"
     " \"encoder_attention_heads\": 20, \"decoder_attention_heads\": 20,"
     " \"encoder_ffn_dim\": 5120, \"decoder_ffn_dim\": 5120, \"num_mel_bins\": 128,"
     " \"max_source_positions\": 1500, \"max_target_positions\": 448, \"num_hidden_layers\": 32,"
     " \"vocab_size\": 51866}"},
    {"clip-vit-large-patch14", put_clip,
     "{\"architectures\": [\"CLIPModel\"], \"model_type\": \"clip\", \"projection_dim\": 768,"
     " \"text_config\": {\"model_type\": \"clip_text_model\", \"hidden_size\": 768,"
     " \"intermediate_size\": 3072, \"num_attention_heads\": 12, \"num_hidden_layers\": 12},"
     " \"vision_config\": {\"model_type\": \"clip_vision_model\", \"hidden_size\": 1024,"
     " \"intermediate_size\": 4096, \"num_attention_heads\": 16, \"num_hidden_layers\": 24,"
     " \"patch_size\": 14}}"},
};

static FILE *create(const char *folder, const char *name, const char *file) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    FILE *out = fopen(path, "wb");
    if (!out) {
        perror(path);
        exit(1);
    }
    return out;
}

static void write_model(const char *folder, const struct published *p) {
    header h = {0};
    grow(&h, "{\"__metadata__\":{\"format\":\"pt\"}");
    p->put_all(&h);
    grow(&h, "}");
    while (h.len % 8)
        grow(&h, " ");
    FILE *out = create(folder, p->name, "model.safetensors");
    for (int i = 0; i < 8; i++)
        fputc((int)(h.len >> (8 * i) & 255), out);
    bool good = fwrite(h.bytes, 1, h.len, out) == h.len && fflush(out) == 0 &&
                ftruncate(fileno(out), (off_t)(8 + h.len + h.data)) == 0 && fclose(out) == 0;
    free(h.bytes);
    out = create(folder, p->name, "config.json");
    if (!good || fprintf(out, "%s\n", p->config) < 0 || fclose(out) != 0) {
        perror(p->name);
        exit(1);
    }
}

int main(int argc, char **argv) {
    size_t written = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: cli_published FOLDER [NAME...]\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bool asked = argc == 2;
        for (int k = 2; k < argc; k++)
            asked = asked || strcmp(argv[k], models[i].name) == 0;
        if (asked)
            write_model(argv[1], &models[i]);
        written += asked;
    }
    return written && (argc == 2 || written == (size_t)argc - 2) ? 0 : 1;
}
