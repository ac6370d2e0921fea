/* Reads the names in LoRA adapters, in the dialects of the programs that write them. */
#include "lora/lora_dialects.h"

#include <string.h>

/* How the name of a part ends, before an optional ".weight". */
typedef struct ending {
    const char *text;
    lora_part part;
    const char *refused;
} ending;

static const ending endings[] = {
    {".lora_A", LORA_PART_DOWN, NULL},
    {".lora_B", LORA_PART_UP, NULL},
    {".lora_down", LORA_PART_DOWN, NULL},
    {".lora_up", LORA_PART_UP, NULL},
    {".lora.down", LORA_PART_DOWN, NULL},
    {".lora.up", LORA_PART_UP, NULL},
    {".lora_linear_layer.down", LORA_PART_DOWN, NULL},
    {".lora_linear_layer.up", LORA_PART_UP, NULL},
    {"_lora.down", LORA_PART_DOWN, NULL},
    {"_lora.up", LORA_PART_UP, NULL},
    {"_lora_down", LORA_PART_DOWN, NULL},
    {"_lora_up", LORA_PART_UP, NULL},
    {".lora_embedding_A", LORA_PART_EMBED_A, NULL},
    {".lora_embedding_B", LORA_PART_EMBED_B, NULL},
    {".lora_magnitude_vector", LORA_PART_MAGNITUDE, NULL},
    {".dora_scale", LORA_PART_MAGNITUDE, NULL},
    {".alpha", LORA_PART_ALPHA, NULL},
    {".diff", LORA_PART_DIFF, NULL},
    {".diff_b", LORA_PART_DIFF_BIAS, NULL},
    {".lora_mid", LORA_PART_REFUSED, "a LoRA of a convolution in three factors (CP)"},
    {".hada_w1_a", LORA_PART_REFUSED, "a LoHa"},
    {".hada_w1_b", LORA_PART_REFUSED, "a LoHa"},
    {".hada_w2_a", LORA_PART_REFUSED, "a LoHa"},
    {".hada_w2_b", LORA_PART_REFUSED, "a LoHa"},
    {".hada_t1", LORA_PART_REFUSED, "a LoHa"},
    {".hada_t2", LORA_PART_REFUSED, "a LoHa"},
    {".lokr_w1", LORA_PART_REFUSED, "a LoKr"},
    {".lokr_w1_a", LORA_PART_REFUSED, "a LoKr"},
    {".lokr_w1_b", LORA_PART_REFUSED, "a LoKr"},
    {".lokr_w2", LORA_PART_REFUSED, "a LoKr"},
    {".lokr_w2_a", LORA_PART_REFUSED, "a LoKr"},
    {".lokr_w2_b", LORA_PART_REFUSED, "a LoKr"},
    {".lokr_t2", LORA_PART_REFUSED, "a LoKr"},
    {".oft_blocks", LORA_PART_REFUSED, "an OFT adapter"},
    {".oft_diag", LORA_PART_REFUSED, "an OFT adapter"},
    {".oft_R", LORA_PART_REFUSED, "an OFT adapter"},
    {".oft_r", LORA_PART_REFUSED, "an OFT adapter"},
    {".oft_s", LORA_PART_REFUSED, "an OFT adapter"},
    {".boft_R", LORA_PART_REFUSED, "a BOFT adapter"},
    {".boft_s", LORA_PART_REFUSED, "a BOFT adapter"},
    {".ia3_l", LORA_PART_REFUSED, "an (IA)^3 adapter"},
    {".on_input", LORA_PART_REFUSED, "an (IA)^3 adapter"},
    {".vera_lambda_b", LORA_PART_REFUSED, "a VeRA adapter"},
    {".vera_lambda_d", LORA_PART_REFUSED, "a VeRA adapter"},
    {".vera_A", LORA_PART_REFUSED, "a VeRA adapter"},
    {".vera_B", LORA_PART_REFUSED, "a VeRA adapter"},
    {".lora_E", LORA_PART_REFUSED, "an AdaLoRA adapter"},
    {".ranknum", LORA_PART_REFUSED, "an AdaLoRA adapter"},
    {".trainable_tokens_delta", LORA_PART_REFUSED, "an adapter of single tokens"},
};

static size_t without(const char *name, size_t len, const char *end) {
    size_t n = strlen(end);
    return len > n && memcmp(name + len - n, end, n) == 0 ? len - n : len;
}

static bool read_ending(const char *name, size_t len, lora_key *out) {
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t stem = without(name, len, endings[i].text);
        if (stem == len)
            continue;
        *out = (lora_key){endings[i].part, stem, endings[i].refused};
        return true;
    }
    return false;
}

/* Where the part after the last dot begins, dot included; 0: there is no dot. */
static size_t last_dot(const char *name, size_t len) {
    while (len && name[len - 1] != '.')
        len--;
    return len ? len - 1 : 0;
}

/*
 * llama.cpp and MLX write lora_a and lora_b. llama.cpp's and torchtune's factors lie as PEFT's do,
 * MLX's are transposed, and MLX appends no ".weight" to their names.
 */
static bool read_small_letters(const tenmap_tensor *t, size_t len, lora_key *out) {
    size_t a = without(t->name, len, ".lora_a"), b = without(t->name, len, ".lora_b");
    bool mlx =
        len == t->name_len && strcmp(tenmap_shard_at(t->model, t->shard)->format, "gguf") != 0;
    if (a == len && b == len)
        return false;
    *out = (lora_key){a < len ? LORA_PART_DOWN : LORA_PART_UP, a < len ? a : b, NULL};
    if (mlx)
        *out = (lora_key){LORA_PART_REFUSED, out->stem, "a LoRA of MLX"};
    return true;
}

/* "M.lora_B.bias", or with the adapter's name: "M.lora_B.default.bias". */
static bool read_bias(const tenmap_tensor *t, lora_key *out) {
    size_t len = without(t->name, t->name_len, ".bias"), dot = last_dot(t->name, len);
    if (len == t->name_len ||
        !(read_ending(t->name, len, out) || (dot && read_ending(t->name, dot, out))))
        return false;
    if (out->part == LORA_PART_UP)
        out->part = LORA_PART_UP_BIAS;
    return out->part == LORA_PART_UP_BIAS || out->part == LORA_PART_REFUSED;
}

lora_key lora_key_read(const tenmap_tensor *t) {
    lora_key out;
    size_t len = without(t->name, t->name_len, ".weight"), dot = last_dot(t->name, len);
    if (read_ending(t->name, len, &out) || read_small_letters(t, len, &out) || read_bias(t, &out))
        return out;
    /* PEFT may keep the adapter's name: ".lora_A.default.weight". */
    if (dot && without(t->name, t->name_len, ".bias") == t->name_len &&
        read_ending(t->name, dot, &out))
        return out;
    return (lora_key){LORA_PART_WHOLE, t->name_len, NULL};
}

static const lora_prefix no_prefix = {"", LORA_ANY_PLACE, false, false};

/* Longer ones first where one begins with another. */
static const lora_prefix prefixes[] = {
    {"base_model.model.", LORA_ANY_PLACE, false, true},
    {"lora_unet_", LORA_DENOISER, true, false},
    {"lora_transformer_", LORA_DENOISER, true, false},
    {"lycoris_", LORA_DENOISER, true, false},
    {"lora_te1_", LORA_TEXT_1, true, false},
    {"lora_te2_", LORA_TEXT_2, true, false},
    {"lora_te3_", LORA_TEXT_3, true, false},
    {"lora_te_", LORA_TEXT_1, true, false},
    {"unet.", LORA_DENOISER, false, false},
    {"transformer.", LORA_DENOISER, false, false},
    {"diffusion_model.", LORA_DENOISER, false, false},
    {"model.diffusion_model.", LORA_DENOISER, false, false},
    {"text_encoder.", LORA_TEXT_1, false, false},
    {"text_encoder_2.", LORA_TEXT_2, false, false},
    {"text_encoder_3.", LORA_TEXT_3, false, false},
};

const lora_prefix *lora_prefix_of(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i].text);
        if (len > n && memcmp(name, prefixes[i].text, n) == 0)
            return &prefixes[i];
    }
    return &no_prefix;
}

static const lora_prefix base_prefixes[] = {
    {"model.diffusion_model.", LORA_DENOISER, false, false},
    {"diffusion_model.", LORA_DENOISER, false, false},
    {"unet.", LORA_DENOISER, false, false},
    {"transformer.", LORA_DENOISER, false, false},
    {"text_encoder.", LORA_TEXT_1, false, false},
    {"cond_stage_model.transformer.", LORA_TEXT_1, false, false},
    {"conditioner.embedders.0.transformer.", LORA_TEXT_1, false, false},
    {"text_encoders.clip_l.transformer.", LORA_TEXT_1, false, false},
    {"text_encoder_2.", LORA_TEXT_2, false, false},
    {"text_encoders.clip_g.transformer.", LORA_TEXT_2, false, false},
    {"text_encoder_3.", LORA_TEXT_3, false, false},
    {"text_encoders.t5xxl.transformer.", LORA_TEXT_3, false, false},
    {"model.", LORA_ANY_PLACE, false, false},
    {"language_model.", LORA_ANY_PLACE, false, false},
    {"model.language_model.", LORA_ANY_PLACE, false, false},
};

const lora_prefix *lora_base_prefix(size_t i) {
    return i < sizeof base_prefixes / sizeof base_prefixes[0] ? &base_prefixes[i] : NULL;
}
