/* The table of architectures. Values of `otherwise` are the defaults of transformers. */
#include "architectures/rules.h"

static const dimension qwen3_own[] = {
    {"head", "head_dim", "attention.key_length", "128"},
    END_OF_DIMENSIONS,
};

static const dimension olmo3_own[] = {
    {"full_every", NULL, "attention.sliding_window_pattern", "4"},
    END_OF_DIMENSIONS,
};

static const dimension gemma_own[] = {
    {"head", "head_dim", "attention.key_length", "256"},
    END_OF_DIMENSIONS,
};

static const dimension gemma2_own[] = {
    {"head", "head_dim", "attention.key_length", "256"},
    {"window", "sliding_window", "attention.sliding_window", "4096"},
    {"full_every", NULL, "attention.sliding_window_pattern", "2"},
    END_OF_DIMENSIONS,
};

/* The configurations of multimodal models leave out what is as usual. */
static const dimension gemma3_own[] = {
    {"vocab", "vocab_size", "vocab_size", "262208"},
    {"positions", "max_position_embeddings", "context_length", "131072"},
    {"heads", "num_attention_heads", "attention.head_count", "8"},
    {"kv", "num_key_value_heads", "attention.head_count_kv", "4"},
    {"head", "head_dim", "attention.key_length", "256"},
    {"window", "sliding_window", "attention.sliding_window", "4096"},
    {"full_every", "sliding_window_pattern|_sliding_window_pattern",
     "attention.sliding_window_pattern", "6"},
    END_OF_DIMENSIONS,
};

static const dimension gpt_oss_own[] = {
    {"head", "head_dim", "attention.key_length", "64"},
    {"window", "sliding_window", "attention.sliding_window", "128"},
    {"full_every", NULL, "attention.sliding_window_pattern", "2"},
    END_OF_DIMENSIONS,
};

static const dimension gpt2_own[] = {
    {"inner", "n_inner", "feed_forward_length", "4*hidden"},
    END_OF_DIMENSIONS,
};

static const dimension t5_own[] = {
    {"layers", "num_decoder_layers|num_layers", "block_count", NULL},
    {"encoder_layers", "num_layers", "block_count", NULL},
    {"head", "d_kv", "attention.key_length", "64"},
    {"buckets", "relative_attention_num_buckets", NULL, "32"},
    END_OF_DIMENSIONS,
};

static const dimension whisper_own[] = {
    {"layers", "decoder_layers", NULL, NULL},
    {"positions", "max_target_positions", NULL, "448"},
    {"inner", "decoder_ffn_dim", NULL, NULL},
    {"heads", "decoder_attention_heads", NULL, NULL},
    {"encoder_positions", "max_source_positions", NULL, "1500"},
    END_OF_DIMENSIONS,
};

/* A configuration of both models leaves out what is as usual. */
static const dimension clip_own[] = {
    {"hidden", "text_config.hidden_size", NULL, "512"},
    {"layers", "text_config.num_hidden_layers", NULL, "12"},
    {"vocab", "text_config.vocab_size", NULL, "49408"},
    {"positions", "text_config.max_position_embeddings", NULL, "77"},
    {"inner", "text_config.intermediate_size", NULL, "2048"},
    {"projection", "projection_dim", NULL, "512"},
    {"vision_hidden", "vision_config.hidden_size", NULL, "768"},
    {"vision_inner", "vision_config.intermediate_size", NULL, "3072"},
    {"vision_layers", "vision_config.num_hidden_layers", NULL, "12"},
    {"patch", "vision_config.patch_size", NULL, "32"},
    {"image", "vision_config.image_size", NULL, "224"},
    END_OF_DIMENSIONS,
};

#define LAYERS                                                                                     \
    {                                                                                              \
        {"layers", "layers"}, {                                                                    \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

const architecture architectures[] = {
    {" llama granite olmo smollm3 ", " llama granite olmo smollm3 ", llama_rules, LAYERS, NULL,
     WINDOW_NONE, CACHE_KEY_VALUE},
    {" mistral ", NULL, llama_rules, LAYERS, NULL, WINDOW_ALL, CACHE_KEY_VALUE},
    {" qwen2 ", " qwen2 ", llama_rules, LAYERS, NULL, WINDOW_ON_DEMAND, CACHE_KEY_VALUE},
    {" qwen3 ", " qwen3 ", llama_rules, LAYERS, qwen3_own, WINDOW_ON_DEMAND, CACHE_KEY_VALUE},
    {" olmo2 ", NULL, olmo2_rules, LAYERS, NULL, WINDOW_NONE, CACHE_KEY_VALUE},
    {" olmo3 ", " olmo2 ", olmo2_rules, LAYERS, olmo3_own, WINDOW_MOST, CACHE_KEY_VALUE},
    {" gemma ", " gemma ", llama_rules, LAYERS, gemma_own, WINDOW_NONE, CACHE_KEY_VALUE},
    {" gemma2 ", " gemma2 ", llama_rules, LAYERS, gemma2_own, WINDOW_MOST, CACHE_KEY_VALUE},
    {" gemma3_text ", " gemma3 ", llama_rules, LAYERS, gemma3_own, WINDOW_MOST, CACHE_KEY_VALUE},
    {" qwen2_moe qwen3_moe ", " qwen2moe qwen3moe ", moe_rules, LAYERS, NULL, WINDOW_ON_DEMAND,
     CACHE_KEY_VALUE},
    {" mixtral ", NULL, mixtral_rules, LAYERS, NULL, WINDOW_ALL, CACHE_KEY_VALUE},
    {" deepseek_v2 deepseek_v3 ", " deepseek2 ", deepseek_rules, LAYERS, NULL, WINDOW_NONE,
     CACHE_LATENT},
    {" gpt_oss ", " gpt-oss ", gpt_oss_rules, LAYERS, gpt_oss_own, WINDOW_MOST, CACHE_KEY_VALUE},
    {" phi3 ", " phi3 ", phi3_rules, LAYERS, NULL, WINDOW_ALL, CACHE_KEY_VALUE},
    {" gpt2 ", " gpt2 ", gpt2_rules, {{"h", "layers"}}, gpt2_own, WINDOW_NONE, CACHE_KEY_VALUE},
    {" bert roberta xlm-roberta ",
     " bert ",
     bert_rules,
     {{"encoder.layer", "layers"}},
     NULL,
     WINDOW_NONE,
     CACHE_NONE},
    {" t5 mt5 umt5 ",
     " t5 ",
     t5_rules,
     {{"encoder.block", "encoder_layers"}, {"decoder.block", "layers"}},
     t5_own,
     WINDOW_NONE,
     CACHE_CROSS},
    {" clip ",
     NULL,
     clip_rules,
     {{"text_model.encoder.layers", "layers"}, {"vision_model.encoder.layers", "vision_layers"}},
     clip_own,
     WINDOW_NONE,
     CACHE_NONE},
    {" clip_text_model ",
     NULL,
     clip_text_rules,
     {{"encoder.layers", "layers"}},
     NULL,
     WINDOW_NONE,
     CACHE_NONE},
    {" clip_vision_model ",
     NULL,
     clip_vision_rules,
     {{"encoder.layers", "layers"}},
     NULL,
     WINDOW_NONE,
     CACHE_NONE},
    {" whisper ",
     NULL,
     whisper_rules,
     {{"encoder.layers", "encoder_layers"}, {"decoder.layers", "layers"}},
     whisper_own,
     WINDOW_NONE,
     CACHE_CROSS},
    {NULL, NULL, NULL, {{NULL, NULL}}, NULL, WINDOW_NONE, CACHE_NONE},
};
