/* Tensors of encoders, and of encoders with a decoder: BERT, T5, CLIP, Whisper. */
#include "architectures/rules.h"

static const tensor_rule bert_layers[] = {
    {"embeddings.word_embeddings.weight", ROLE_EMBEDDING, "vocab, hidden"},
    {"embeddings.position_embeddings.weight", ROLE_POSITIONS, "positions, hidden"},
    {"encoder.layer.#.attention.self.query.weight", ROLE_QUERY, "hidden, hidden"},
    {"encoder.layer.#.attention.self.key.weight", ROLE_KEY, "hidden, hidden"},
    {"encoder.layer.#.attention.self.value.weight", ROLE_VALUE, "hidden, hidden"},
    {"encoder.layer.#.attention.output.dense.weight", ROLE_ATTENTION_OUT, "hidden, hidden"},
    {"encoder.layer.#.intermediate.dense.weight", ROLE_UP, "inner, hidden"},
    {"encoder.layer.#.output.dense.weight", ROLE_DOWN, "hidden, inner"},
    END_OF_RULES,
};

/* The encoder's layers are numbered like the decoder's. In those, 1 is the cross attention. */
static const tensor_rule t5_layers[] = {
    {"shared.weight", ROLE_EMBEDDING, "vocab, hidden"},
    {"embed_tokens.weight", ROLE_EMBEDDING, "vocab, hidden"},
    {"lm_head.weight", ROLE_HEAD, "vocab, hidden"},
    {"final_layer_norm.weight", ROLE_NORM, "hidden"},
    {"block.#.layer.0.SelfAttention.q.weight", ROLE_QUERY, "heads*head, hidden"},
    {"block.#.layer.0.SelfAttention.k.weight", ROLE_KEY, "heads*head, hidden"},
    {"block.#.layer.0.SelfAttention.v.weight", ROLE_VALUE, "heads*head, hidden"},
    {"block.#.layer.0.SelfAttention.o.weight", ROLE_ATTENTION_OUT, "hidden, heads*head"},
    {"block.#.layer.0.SelfAttention.relative_attention_bias.weight", ROLE_OTHER, "buckets, heads"},
    {"block.#.layer.1.EncDecAttention.q.weight", ROLE_QUERY, "heads*head, hidden"},
    {"block.#.layer.1.EncDecAttention.k.weight", ROLE_KEY, "heads*head, hidden"},
    {"block.#.layer.1.EncDecAttention.v.weight", ROLE_VALUE, "heads*head, hidden"},
    {"block.#.layer.1.EncDecAttention.o.weight", ROLE_ATTENTION_OUT, "hidden, heads*head"},
    {"block.#.layer.#.DenseReluDense.wi.weight", ROLE_UP, "inner, hidden"},
    {"block.#.layer.#.DenseReluDense.wi_0.weight", ROLE_GATE, "inner, hidden"},
    {"block.#.layer.#.DenseReluDense.wi_1.weight", ROLE_UP, "inner, hidden"},
    {"block.#.layer.#.DenseReluDense.wo.weight", ROLE_DOWN, "hidden, inner"},
    {"block.#.layer.#.layer_norm.weight", ROLE_NORM, "hidden"},
    END_OF_RULES,
};

static const tensor_rule clip_both[] = {
    {"text_model.embeddings.token_embedding.weight", ROLE_EMBEDDING, "vocab, hidden"},
    {"text_model.embeddings.position_embedding.weight", ROLE_POSITIONS, "positions, hidden"},
    {"text_model.encoder.layers.#.self_attn.q_proj.weight", ROLE_QUERY, "hidden, hidden"},
    {"text_model.encoder.layers.#.self_attn.k_proj.weight", ROLE_KEY, "hidden, hidden"},
    {"text_model.encoder.layers.#.self_attn.v_proj.weight", ROLE_VALUE, "hidden, hidden"},
    {"text_model.encoder.layers.#.self_attn.out_proj.weight", ROLE_ATTENTION_OUT, "hidden, hidden"},
    {"text_model.encoder.layers.#.mlp.fc1.weight", ROLE_UP, "inner, hidden"},
    {"text_model.encoder.layers.#.mlp.fc2.weight", ROLE_DOWN, "hidden, inner"},
    {"vision_model.embeddings.class_embedding", ROLE_OTHER, "vision_hidden"},
    {"vision_model.embeddings.patch_embedding.weight", ROLE_OTHER,
     "vision_hidden, channels, patch, patch"},
    {"vision_model.embeddings.position_embedding.weight", ROLE_POSITIONS,
     "(image/patch)*(image/patch) + 1, vision_hidden"},
    {"vision_model.encoder.layers.#.self_attn.q_proj.weight", ROLE_QUERY,
     "vision_hidden, vision_hidden"},
    {"vision_model.encoder.layers.#.self_attn.k_proj.weight", ROLE_KEY,
     "vision_hidden, vision_hidden"},
    {"vision_model.encoder.layers.#.self_attn.v_proj.weight", ROLE_VALUE,
     "vision_hidden, vision_hidden"},
    {"vision_model.encoder.layers.#.self_attn.out_proj.weight", ROLE_ATTENTION_OUT,
     "vision_hidden, vision_hidden"},
    {"vision_model.encoder.layers.#.mlp.fc1.weight", ROLE_UP, "vision_inner, vision_hidden"},
    {"vision_model.encoder.layers.#.mlp.fc2.weight", ROLE_DOWN, "vision_hidden, vision_inner"},
    {"text_projection.weight", ROLE_OTHER, "projection, hidden"},
    {"visual_projection.weight", ROLE_OTHER, "projection, vision_hidden"},
    END_OF_RULES,
};

/* One of the two alone, with or without "text_model." or "vision_model." before its names. */
static const tensor_rule clip_layers[] = {
    {"encoder.layers.#.self_attn.q_proj.weight", ROLE_QUERY, "hidden, hidden"},
    {"encoder.layers.#.self_attn.k_proj.weight", ROLE_KEY, "hidden, hidden"},
    {"encoder.layers.#.self_attn.v_proj.weight", ROLE_VALUE, "hidden, hidden"},
    {"encoder.layers.#.self_attn.out_proj.weight", ROLE_ATTENTION_OUT, "hidden, hidden"},
    {"encoder.layers.#.mlp.fc1.weight", ROLE_UP, "inner, hidden"},
    {"encoder.layers.#.mlp.fc2.weight", ROLE_DOWN, "hidden, inner"},
    END_OF_RULES,
};

static const tensor_rule clip_text[] = {
    {"embeddings.token_embedding.weight", ROLE_EMBEDDING, "vocab, hidden"},
    {"embeddings.position_embedding.weight", ROLE_POSITIONS, "positions, hidden"},
    {"text_projection.weight", ROLE_OTHER, "projection, hidden"},
    END_OF_RULES,
};

static const tensor_rule clip_vision[] = {
    {"embeddings.class_embedding", ROLE_OTHER, "hidden"},
    {"embeddings.patch_embedding.weight", ROLE_OTHER, "hidden, channels, patch, patch"},
    {"embeddings.position_embedding.weight", ROLE_POSITIONS,
     "(image/patch)*(image/patch) + 1, hidden"},
    {"visual_projection.weight", ROLE_OTHER, "projection, hidden"},
    END_OF_RULES,
};

static const tensor_rule whisper_layers[] = {
    {"decoder.embed_tokens.weight", ROLE_EMBEDDING, "vocab, hidden"},
    {"decoder.embed_positions.weight", ROLE_POSITIONS, "positions, hidden"},
    {"encoder.embed_positions.weight", ROLE_POSITIONS, "encoder_positions, hidden"},
    {"proj_out.weight", ROLE_HEAD, "vocab, hidden"},
    {"encoder.conv1.weight", ROLE_OTHER, "hidden, mels, 3"},
    {"encoder.conv2.weight", ROLE_OTHER, "hidden, hidden, 3"},
    {"encoder.layers.#.fc1.weight", ROLE_UP, "encoder_inner, hidden"},
    {"encoder.layers.#.fc2.weight", ROLE_DOWN, "hidden, encoder_inner"},
    {"decoder.layers.#.fc1.weight", ROLE_UP, "inner, hidden"},
    {"decoder.layers.#.fc2.weight", ROLE_DOWN, "hidden, inner"},
    {"layers.#.self_attn.q_proj.weight", ROLE_QUERY, "hidden, hidden"},
    {"layers.#.self_attn.k_proj.weight", ROLE_KEY, "hidden, hidden"},
    {"layers.#.self_attn.v_proj.weight", ROLE_VALUE, "hidden, hidden"},
    {"layers.#.self_attn.out_proj.weight", ROLE_ATTENTION_OUT, "hidden, hidden"},
    {"layers.#.encoder_attn.q_proj.weight", ROLE_QUERY, "hidden, hidden"},
    {"layers.#.encoder_attn.k_proj.weight", ROLE_KEY, "hidden, hidden"},
    {"layers.#.encoder_attn.v_proj.weight", ROLE_VALUE, "hidden, hidden"},
    {"layers.#.encoder_attn.out_proj.weight", ROLE_ATTENTION_OUT, "hidden, hidden"},
    {"layers.#.self_attn_layer_norm.weight", ROLE_NORM, "hidden"},
    {"layers.#.final_layer_norm.weight", ROLE_NORM, "hidden"},
    END_OF_RULES,
};

const tensor_rule *const bert_rules[] = {bert_layers, NULL};
const tensor_rule *const t5_rules[] = {t5_layers, NULL};
const tensor_rule *const clip_rules[] = {clip_both, NULL};
const tensor_rule *const clip_text_rules[] = {clip_layers, clip_text, NULL};
const tensor_rule *const clip_vision_rules[] = {clip_layers, clip_vision, NULL};
const tensor_rule *const whisper_rules[] = {whisper_layers, NULL};
