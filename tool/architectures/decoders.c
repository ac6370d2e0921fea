/* Tensors of decoders: language models that write one token after the other. */
#include "architectures/rules.h"

/* What most decoders since Llama share, outside and inside of their layers. */
static const tensor_rule outer[] = {
    {"embed_tokens.weight", ROLE_EMBEDDING, "vocab, hidden"},
    {"lm_head.weight", ROLE_HEAD, "vocab, hidden"},
    {"norm.weight", ROLE_NORM, "hidden"},
    {"layers.#.input_layernorm.weight", ROLE_NORM, "hidden"},
    {"layers.#.post_attention_layernorm.weight", ROLE_NORM, "hidden"},
    {"layers.#.pre_feedforward_layernorm.weight", ROLE_NORM, "hidden"},
    {"layers.#.post_feedforward_layernorm.weight", ROLE_NORM, "hidden"},
    END_OF_RULES,
};

static const tensor_rule attention[] = {
    {"layers.#.self_attn.q_proj.weight", ROLE_QUERY, "heads*head, hidden"},
    {"layers.#.self_attn.k_proj.weight", ROLE_KEY, "kv*head, hidden"},
    {"layers.#.self_attn.v_proj.weight", ROLE_VALUE, "kv*head, hidden"},
    {"layers.#.self_attn.o_proj.weight", ROLE_ATTENTION_OUT, "hidden, heads*head"},
    {"layers.#.self_attn.q_proj.bias", ROLE_BIAS, "heads*head"},
    {"layers.#.self_attn.k_proj.bias", ROLE_BIAS, "kv*head"},
    {"layers.#.self_attn.v_proj.bias", ROLE_BIAS, "kv*head"},
    {"layers.#.self_attn.o_proj.bias", ROLE_BIAS, "hidden"},
    END_OF_RULES,
};

static const tensor_rule head_norms[] = {
    {"layers.#.self_attn.q_norm.weight", ROLE_NORM, "head"},
    {"layers.#.self_attn.k_norm.weight", ROLE_NORM, "head"},
    END_OF_RULES,
};

/* OLMo 2 and 3 normalize all heads together. */
static const tensor_rule row_norms[] = {
    {"layers.#.self_attn.q_norm.weight", ROLE_NORM, "heads*head"},
    {"layers.#.self_attn.k_norm.weight", ROLE_NORM, "kv*head"},
    END_OF_RULES,
};

static const tensor_rule gated_mlp[] = {
    {"layers.#.mlp.gate_proj.weight", ROLE_GATE, "inner, hidden"},
    {"layers.#.mlp.up_proj.weight", ROLE_UP, "inner, hidden"},
    {"layers.#.mlp.down_proj.weight", ROLE_DOWN, "hidden, inner"},
    END_OF_RULES,
};

/* Experts one by one, as on the hub, or in one tensor, as transformers 5 holds them. */
static const tensor_rule expert_mlp[] = {
    {"layers.#.mlp.gate.weight", ROLE_ROUTER, "experts, hidden"},
    {"layers.#.mlp.gate.e_score_correction_bias", ROLE_BIAS, "experts"},
    {"layers.#.mlp.experts.#.gate_proj.weight", ROLE_EXPERT_GATE, "expert_inner, hidden"},
    {"layers.#.mlp.experts.#.up_proj.weight", ROLE_EXPERT_UP, "expert_inner, hidden"},
    {"layers.#.mlp.experts.#.down_proj.weight", ROLE_EXPERT_DOWN, "hidden, expert_inner"},
    {"layers.#.mlp.experts.gate_up_proj", ROLE_EXPERT_GATE_UP, "experts, 2*expert_inner, hidden"},
    {"layers.#.mlp.experts.down_proj", ROLE_EXPERT_DOWN, "experts, hidden, expert_inner"},
    {"layers.#.mlp.shared_expert.gate_proj.weight", ROLE_GATE, "shared_inner, hidden"},
    {"layers.#.mlp.shared_expert.up_proj.weight", ROLE_UP, "shared_inner, hidden"},
    {"layers.#.mlp.shared_expert.down_proj.weight", ROLE_DOWN, "hidden, shared_inner"},
    {"layers.#.mlp.shared_expert_gate.weight", ROLE_ROUTER, "1, hidden"},
    {"layers.#.mlp.shared_experts.gate_proj.weight", ROLE_GATE, "shared_inner, hidden"},
    {"layers.#.mlp.shared_experts.up_proj.weight", ROLE_UP, "shared_inner, hidden"},
    {"layers.#.mlp.shared_experts.down_proj.weight", ROLE_DOWN, "hidden, shared_inner"},
    END_OF_RULES,
};

static const tensor_rule mixtral_mlp[] = {
    {"layers.#.block_sparse_moe.gate.weight", ROLE_ROUTER, "experts, hidden"},
    {"layers.#.block_sparse_moe.experts.#.w1.weight", ROLE_EXPERT_GATE, "expert_inner, hidden"},
    {"layers.#.block_sparse_moe.experts.#.w3.weight", ROLE_EXPERT_UP, "expert_inner, hidden"},
    {"layers.#.block_sparse_moe.experts.#.w2.weight", ROLE_EXPERT_DOWN, "hidden, expert_inner"},
    END_OF_RULES,
};

/* The experts of gpt-oss are stored with the input first, unless they are in MXFP4. */
static const tensor_rule gpt_oss_mlp[] = {
    {"layers.#.self_attn.sinks", ROLE_BIAS, "heads"},
    {"layers.#.mlp.router.weight", ROLE_ROUTER, "experts, hidden"},
    {"layers.#.mlp.router.bias", ROLE_BIAS, "experts"},
    {"layers.#.mlp.experts.gate_up_proj", ROLE_EXPERT_GATE_UP, "experts, hidden, 2*inner"},
    {"layers.#.mlp.experts.gate_up_proj_bias", ROLE_EXPERT_BIAS, "experts, 2*inner"},
    {"layers.#.mlp.experts.gate_up_proj_blocks", ROLE_EXPERT_GATE_UP,
     "experts, 2*inner, hidden/32, 16"},
    {"layers.#.mlp.experts.gate_up_proj_scales", ROLE_OTHER, "experts, 2*inner, hidden/32"},
    {"layers.#.mlp.experts.down_proj", ROLE_EXPERT_DOWN, "experts, inner, hidden"},
    {"layers.#.mlp.experts.down_proj_bias", ROLE_EXPERT_BIAS, "experts, hidden"},
    {"layers.#.mlp.experts.down_proj_blocks", ROLE_EXPERT_DOWN, "experts, hidden, inner/32, 16"},
    {"layers.#.mlp.experts.down_proj_scales", ROLE_OTHER, "experts, hidden, inner/32"},
    END_OF_RULES,
};

/* DeepSeek's attention: queries, and keys with values, go through vectors of a lower rank. */
static const tensor_rule latent_attention[] = {
    {"layers.#.self_attn.q_proj.weight", ROLE_QUERY, "heads*(nope+rope), hidden"},
    {"layers.#.self_attn.q_a_proj.weight", ROLE_QUERY, "q_rank, hidden"},
    {"layers.#.self_attn.q_a_layernorm.weight", ROLE_NORM, "q_rank"},
    {"layers.#.self_attn.q_b_proj.weight", ROLE_QUERY, "heads*(nope+rope), q_rank"},
    {"layers.#.self_attn.kv_a_proj_with_mqa.weight", ROLE_KEY, "kv_rank+rope, hidden"},
    {"layers.#.self_attn.kv_a_layernorm.weight", ROLE_NORM, "kv_rank"},
    {"layers.#.self_attn.kv_b_proj.weight", ROLE_KEY, "heads*(nope+value), kv_rank"},
    {"layers.#.self_attn.o_proj.weight", ROLE_ATTENTION_OUT, "hidden, heads*value"},
    END_OF_RULES,
};

static const tensor_rule phi3_layers[] = {
    {"layers.#.self_attn.qkv_proj.weight", ROLE_QKV, "heads*head + 2*kv*head, hidden"},
    {"layers.#.self_attn.o_proj.weight", ROLE_ATTENTION_OUT, "hidden, heads*head"},
    {"layers.#.mlp.gate_up_proj.weight", ROLE_GATE_UP, "2*inner, hidden"},
    {"layers.#.mlp.down_proj.weight", ROLE_DOWN, "hidden, inner"},
    END_OF_RULES,
};

/* GPT-2 stores its matrices with the input first. */
static const tensor_rule gpt2_layers[] = {
    {"wte.weight", ROLE_EMBEDDING, "vocab, hidden"},
    {"lm_head.weight", ROLE_HEAD, "vocab, hidden"},
    {"wpe.weight", ROLE_POSITIONS, "positions, hidden"},
    {"h.#.attn.c_attn.weight", ROLE_QKV, "hidden, 3*hidden"},
    {"h.#.attn.c_proj.weight", ROLE_ATTENTION_OUT, "hidden, hidden"},
    {"h.#.mlp.c_fc.weight", ROLE_UP, "hidden, inner"},
    {"h.#.mlp.c_proj.weight", ROLE_DOWN, "inner, hidden"},
    {"h.#.ln_1.weight", ROLE_NORM, "hidden"},
    {"h.#.ln_2.weight", ROLE_NORM, "hidden"},
    END_OF_RULES,
};

const tensor_rule *const llama_rules[] = {outer, attention, head_norms, gated_mlp, NULL};
const tensor_rule *const olmo2_rules[] = {outer, attention, row_norms, gated_mlp, NULL};
const tensor_rule *const moe_rules[] = {outer, attention, head_norms, gated_mlp, expert_mlp, NULL};
const tensor_rule *const mixtral_rules[] = {outer, attention, mixtral_mlp, expert_mlp, NULL};
const tensor_rule *const deepseek_rules[] = {outer, latent_attention, gated_mlp, expert_mlp, NULL};
const tensor_rule *const gpt_oss_rules[] = {outer, attention, gpt_oss_mlp, NULL};
const tensor_rule *const phi3_rules[] = {outer, phi3_layers, NULL};
const tensor_rule *const gpt2_rules[] = {gpt2_layers, NULL};
const tensor_rule *const decoder_rules[] = {
    outer,       attention,   head_norms,       gated_mlp,   expert_mlp, mixtral_mlp,
    gpt_oss_mlp, phi3_layers, latent_attention, gpt2_layers, NULL};
