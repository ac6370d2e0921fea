/*
 * Computes sizes of quantized models. The mixes of K-quants follow llama.cpp: which tensors get
 * more bits than others. docs/fit.md has the rules.
 */
#include "fit/quant_plans.h"

#include <stdbool.h>

#include "fit/saturate.h"

typedef enum plan_kind {
    PLAN_STORED,
    PLAN_HALF,   /* everything in 16 bits */
    PLAN_LAYERS, /* the matrices of layers in fewer bits, everything else in 16 */
    PLAN_GGUF    /* every matrix in blocks, everything else in F32 */
} plan_kind;

struct quant_plan {
    const char *name, *word;
    plan_kind kind;
    uint32_t group, group_bytes; /* PLAN_LAYERS: so many values take so many bytes */
    tenmap_dtype base;           /* PLAN_GGUF */
    bool mixed;                  /* PLAN_GGUF: some tensors get more bits */
};

/* INT4: 128 codes of 4 bits, a scale of 16 bits and a zero point of 4; twice, for whole bytes. */
static const quant_plan plans[] = {
    {"as stored", "stored", PLAN_STORED, 0, 0, TENMAP_OPAQUE, false},
    {"BF16, F16", "bf16", PLAN_HALF, 0, 0, TENMAP_BF16, false},
    {"FP8, INT8", "fp8", PLAN_LAYERS, 1, 1, TENMAP_F8_E4M3, false},
    {"INT4", "int4", PLAN_LAYERS, 256, 133, TENMAP_OPAQUE, false},
    {"Q8_0", "q8_0", PLAN_GGUF, 0, 0, TENMAP_Q8_0, false},
    {"Q6_K", "q6_k", PLAN_GGUF, 0, 0, TENMAP_Q6_K, false},
    {"Q5_K_M", "q5_k_m", PLAN_GGUF, 0, 0, TENMAP_Q5_K, true},
    {"Q4_K_M", "q4_k_m", PLAN_GGUF, 0, 0, TENMAP_Q4_K, true},
    {"Q3_K_M", "q3_k_m", PLAN_GGUF, 0, 0, TENMAP_Q3_K, true},
};

const quant_plan *quant_plan_at(size_t i) {
    return i < sizeof plans / sizeof plans[0] ? &plans[i] : NULL;
}

const char *quant_plan_name(const quant_plan *plan) {
    return plan->name;
}

const char *quant_plan_word(const quant_plan *plan) {
    return plan->word;
}

quant_model quant_model_of(const model_weights *weights, uint64_t experts) {
    quant_model m = {.weights = weights, .experts = experts};
    for (size_t i = 0; i < weights->count; i++) {
        const model_weight *w = &weights->items[i];
        m.has_head = m.has_head || w->role == ROLE_HEAD;
        if (w->layer != NO_LAYER && w->layer >= m.layers)
            m.layers = w->layer + 1;
    }
    return m;
}

/* Vectors, routers, positions and tensors that are not stacks of matrices keep their values. */
static bool is_matrix(const model_weight *w) {
    if (w->role == ROLE_NORM || w->role == ROLE_BIAS || w->role == ROLE_EXPERT_BIAS ||
        w->role == ROLE_ROUTER || w->role == ROLE_POSITIONS)
        return false;
    return w->rank == 2 || (w->rank > 2 && is_expert(w));
}

/* Bytes of a weight whose rows are in blocks. A row of packed codes is taken to be whole blocks. */
static uint64_t bytes_in(tenmap_dtype dtype, const model_weight *w) {
    uint32_t elements, bytes;
    if (!tenmap_dtype_block(dtype, &elements, &bytes))
        return UINT64_MAX;
    return saturated_product(w->values / elements + (w->values % elements != 0), bytes);
}

static uint64_t bytes_in_layers(const quant_plan *plan, const model_weight *w) {
    if (!is_matrix(w) || w->role == ROLE_EMBEDDING || w->role == ROLE_HEAD)
        return bytes_in(TENMAP_BF16, w);
    return saturated_product(w->values / plan->group + (w->values % plan->group != 0),
                             plan->group_bytes);
}

/* The first and last eighth of the layers, and every third between them. */
static bool has_more_bits(uint64_t layer, uint64_t layers) {
    return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

static tenmap_dtype type_of_value(const quant_plan *plan, const quant_model *m, uint64_t layer) {
    if (plan->base == TENMAP_Q3_K)
        return layer < 2 ? TENMAP_Q5_K : TENMAP_Q4_K;
    return has_more_bits(layer, m->layers) ? TENMAP_Q6_K : plan->base;
}

static tenmap_dtype type_of_down(const quant_plan *plan, const quant_model *m, uint64_t layer) {
    if (plan->base == TENMAP_Q3_K)
        return layer < m->layers / 16 ? TENMAP_Q5_K : TENMAP_Q4_K;
    return has_more_bits(layer, m->layers) ? TENMAP_Q6_K : plan->base;
}

static tenmap_dtype type_of_output(const quant_plan *plan, const quant_model *m) {
    if (m->experts == 8 && plan->base != TENMAP_Q5_K)
        return TENMAP_Q5_K;
    return plan->base == TENMAP_Q3_K ? TENMAP_Q4_K : plan->base;
}

static tenmap_dtype mixed_type(const quant_plan *plan, const quant_model *m,
                               const model_weight *w) {
    if (w->layer == NO_LAYER)
        return plan->base;
    switch (w->role) {
    case ROLE_VALUE:
        return type_of_value(plan, m, w->layer);
    case ROLE_DOWN:
    case ROLE_EXPERT_DOWN:
        return type_of_down(plan, m, w->layer);
    case ROLE_ATTENTION_OUT:
        return type_of_output(plan, m);
    case ROLE_QKV:
        return plan->base == TENMAP_Q5_K   ? TENMAP_Q6_K
               : plan->base == TENMAP_Q4_K ? TENMAP_Q5_K
                                           : TENMAP_Q4_K;
    default:
        return plan->base;
    }
}

/* K-quants need rows of a multiple of 256 values, and other blocks a multiple of 32. */
static tenmap_dtype type_for_columns(tenmap_dtype type, uint64_t columns) {
    static const struct {
        tenmap_dtype from, to;
    } instead[] = {{TENMAP_Q3_K, TENMAP_IQ4_NL},
                   {TENMAP_Q4_K, TENMAP_Q5_0},
                   {TENMAP_Q5_K, TENMAP_Q5_1},
                   {TENMAP_Q6_K, TENMAP_Q8_0}};
    uint32_t elements = 0;
    (void)tenmap_dtype_block(type, &elements, NULL);
    for (size_t i = 0; elements == 256 && columns % 256 && i < sizeof instead / sizeof *instead;
         i++)
        if (instead[i].from == type)
            return columns % 32 ? TENMAP_F16 : instead[i].to;
    return elements && columns % elements ? TENMAP_F16 : type;
}

static tenmap_dtype gguf_type(const quant_plan *plan, const quant_model *m, const model_weight *w) {
    tenmap_dtype type = plan->base;
    if (!is_matrix(w))
        return w->rank > 2 ? TENMAP_F16 : TENMAP_F32;
    if (w->role == ROLE_HEAD || (w->role == ROLE_EMBEDDING && !m->has_head))
        type = plan->base == TENMAP_Q8_0 ? TENMAP_Q8_0 : TENMAP_Q6_K;
    else if (m->experts == 8 && (w->role == ROLE_KEY || w->role == ROLE_VALUE))
        type = TENMAP_Q8_0;
    else if (plan->mixed)
        type = mixed_type(plan, m, w);
    return type_for_columns(type, w->columns);
}

uint64_t quant_plan_bytes(const quant_plan *plan, const quant_model *model) {
    uint64_t sum = 0;
    for (size_t i = 0; i < model->weights->count; i++) {
        const model_weight *w = &model->weights->items[i];
        uint64_t bytes = plan->kind == PLAN_STORED   ? w->bytes
                         : plan->kind == PLAN_HALF   ? bytes_in(TENMAP_BF16, w)
                         : plan->kind == PLAN_LAYERS ? bytes_in_layers(plan, w)
                                                     : bytes_in(gguf_type(plan, model, w), w);
        sum = saturated_sum(sum, bytes);
    }
    return sum;
}
