/* Compares tensor shapes and layer counts with what config.json implies for known architectures. */
#include "model/config_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/config_json.h"
#include "model/identify_model.h"
#include "model/module_numbers.h"
#include "tensor_patterns.h"

/* Sizes that dimensions are made of. */
typedef enum size_kind {
    SIZE_END,
    SIZE_HIDDEN,
    SIZE_VOCABULARY,
    SIZE_INNER,
    SIZE_QUERY,   /* number of heads times head size */
    SIZE_KEY,     /* the same for keys and values, which may have fewer heads */
    SIZE_HEAD,    /* size of one head */
    SIZE_HIDDEN3, /* queries, keys and values in one tensor */
    SIZE_POSITIONS,
    SIZE_COUNT
} size_kind;

typedef struct expected_shape {
    const char *pattern;
    size_kind rows, columns; /* SIZE_END: no such dimension */
} expected_shape;

static const expected_shape llama_shapes[] = {
    {"*embed_tokens.weight", SIZE_VOCABULARY, SIZE_HIDDEN},
    {"*lm_head.weight", SIZE_VOCABULARY, SIZE_HIDDEN},
    {"*layers.*.self_attn.q_proj.weight", SIZE_QUERY, SIZE_HIDDEN},
    {"*layers.*.self_attn.k_proj.weight", SIZE_KEY, SIZE_HIDDEN},
    {"*layers.*.self_attn.v_proj.weight", SIZE_KEY, SIZE_HIDDEN},
    {"*layers.*.self_attn.o_proj.weight", SIZE_HIDDEN, SIZE_QUERY},
    {"*layers.*.self_attn.[qk]_norm.weight", SIZE_HEAD, SIZE_END},
    {"*layers.*.mlp.gate_proj.weight", SIZE_INNER, SIZE_HIDDEN},
    {"*layers.*.mlp.up_proj.weight", SIZE_INNER, SIZE_HIDDEN},
    {"*layers.*.mlp.down_proj.weight", SIZE_HIDDEN, SIZE_INNER},
    {"*layers.*layernorm.weight", SIZE_HIDDEN, SIZE_END},
    {"model.norm.weight", SIZE_HIDDEN, SIZE_END},
    {NULL, SIZE_END, SIZE_END},
};

static const expected_shape gpt2_shapes[] = {
    {"*wte.weight", SIZE_VOCABULARY, SIZE_HIDDEN},
    {"*wpe.weight", SIZE_POSITIONS, SIZE_HIDDEN},
    {"*h.*.attn.c_attn.weight", SIZE_HIDDEN, SIZE_HIDDEN3},
    {"*h.*.attn.c_proj.weight", SIZE_HIDDEN, SIZE_HIDDEN},
    {"*h.*.mlp.c_fc.weight", SIZE_HIDDEN, SIZE_INNER},
    {"*h.*.mlp.c_proj.weight", SIZE_INNER, SIZE_HIDDEN},
    {"*h.*.ln_[12].weight", SIZE_HIDDEN, SIZE_END},
    {NULL, SIZE_END, SIZE_END},
};

static const expected_shape bert_shapes[] = {
    {"*embeddings.word_embeddings.weight", SIZE_VOCABULARY, SIZE_HIDDEN},
    {"*embeddings.position_embeddings.weight", SIZE_POSITIONS, SIZE_HIDDEN},
    {"*encoder.layer.*.attention.self.*.weight", SIZE_HIDDEN, SIZE_HIDDEN},
    {"*encoder.layer.*.attention.output.dense.weight", SIZE_HIDDEN, SIZE_HIDDEN},
    {"*encoder.layer.*.intermediate.dense.weight", SIZE_INNER, SIZE_HIDDEN},
    {"*encoder.layer.*.output.dense.weight", SIZE_HIDDEN, SIZE_INNER},
    {NULL, SIZE_END, SIZE_END},
};

/* Which config.json keys give the sizes, and which stack holds the layers. */
static const struct family {
    const char *types; /* values of model_type, with a space before and after each */
    const expected_shape *shapes;
    const char *hidden, *inner, *layers, *positions;
    const char *stack; /* how the prefix of numbered layers ends */
} families[] = {
    {" llama mistral qwen2 qwen3 gemma gemma2 gemma3_text granite olmo olmo2 smollm3 ",
     llama_shapes, "hidden_size", "intermediate_size", "num_hidden_layers", NULL, "layers"},
    {" gpt2 ", gpt2_shapes, "n_embd", "n_inner", "n_layer", "n_positions", "h"},
    {" bert roberta xlm-roberta ", bert_shapes, "hidden_size", "intermediate_size",
     "num_hidden_layers", "max_position_embeddings", "encoder.layer"},
};

typedef struct expected_sizes {
    const tenmap_model *model;
    const struct family *family;
    uint64_t sizes[SIZE_COUNT]; /* 0: not known */
    uint64_t layers;
    void (*say)(void *ctx, const tenmap_tensor *tensor, const char *sentence);
    void *ctx;
} expected_sizes;

static const struct family *find_family(const char *type) {
    text word = {0};
    const struct family *found = NULL;
    text_addf(&word, " %s ", type);
    for (size_t i = 0; !found && i < sizeof families / sizeof families[0]; i++)
        found = strstr(families[i].types, word.bytes) ? &families[i] : NULL;
    text_free(&word);
    return found;
}

static void read_sizes(expected_sizes *e, const config *c) {
    const struct family *f = e->family;
    uint64_t heads = 0, keys = 0, head = 0, *size = e->sizes;
    (void)config_uint(c, f->hidden, &size[SIZE_HIDDEN]);
    (void)config_uint(c, f->inner, &size[SIZE_INNER]);
    (void)config_uint(c, "vocab_size", &size[SIZE_VOCABULARY]);
    (void)config_uint(c, f->layers, &e->layers);
    if (f->positions)
        (void)config_uint(c, f->positions, &size[SIZE_POSITIONS]);
    if (config_uint(c, "num_attention_heads", &heads) && heads &&
        !config_uint(c, "head_dim", &head))
        head = size[SIZE_HIDDEN] / heads;
    if (!config_uint(c, "num_key_value_heads", &keys))
        keys = heads;
    size[SIZE_HEAD] = head;
    size[SIZE_QUERY] = heads * head;
    size[SIZE_KEY] = keys * head;
    size[SIZE_HIDDEN3] = 3 * size[SIZE_HIDDEN];
    if (f->shapes == gpt2_shapes && !size[SIZE_INNER])
        size[SIZE_INNER] = 4 * size[SIZE_HIDDEN];
}

static void compare_shape(const expected_sizes *e, const tenmap_tensor *t,
                          const expected_shape *x) {
    uint64_t rows = e->sizes[x->rows], columns = e->sizes[x->columns];
    uint32_t rank = x->columns == SIZE_END ? 1 : 2;
    tenmap_quantized parts;
    text line = {0};
    if (!rows || (rank == 2 && !columns) ||
        (t->rank == rank && t->shape[0] == rows && (rank == 1 || t->shape[1] == columns)) ||
        tenmap_quantized_of(t, &parts))
        return;
    text_addf(&line, "tensor \"");
    text_add_safe(&line, t->name, t->name_len);
    text_addf(&line, "\" is ");
    text_add_shape(&line, t);
    text_addf(&line,
              rank == 2 ? ", but config.json says [%" PRIu64 ", %" PRIu64 "]"
                        : ", but config.json says [%" PRIu64 "]",
              rows, columns);
    e->say(e->ctx, t, line.bytes);
    text_free(&line);
}

/* The layer number in a name, within the stack of the family. */
static bool layer_of(const expected_sizes *e, const tenmap_tensor *t, uint64_t *layer) {
    size_t n = strlen(e->family->stack);
    number_span at = {0};
    while (number_find(t->name, t->name_len, at.end, &at))
        if (at.begin > n && memcmp(t->name + at.begin - 1 - n, e->family->stack, n) == 0) {
            *layer = at.value;
            return true;
        }
    return false;
}

static void compare_layers(const expected_sizes *e) {
    enum { MOST_LAYERS = 100000 };
    if (!e->layers || e->layers > MOST_LAYERS)
        return;
    bool *there = need(e->layers, sizeof *there);
    uint64_t *missing = need(e->layers, sizeof *missing), beyond = 0, layer;
    size_t count = 0;
    text line = {0};
    for (size_t i = 0; i < tenmap_count(e->model); i++)
        if (layer_of(e, tenmap_at(e->model, i), &layer)) {
            if (layer < e->layers)
                there[layer] = true;
            else
                beyond = layer > beyond ? layer : beyond;
        }
    for (uint64_t i = 0; i < e->layers; i++)
        if (!there[i])
            missing[count++] = i;
    if (count) {
        text_addf(&line, "config.json has %" PRIu64 " layers, but these are missing: ", e->layers);
        text_add_ranges(&line, missing, count);
        e->say(e->ctx, NULL, line.bytes);
    } else if (beyond) {
        text_addf(&line, "config.json has %" PRIu64 " layers, but there is one numbered %" PRIu64,
                  e->layers, beyond);
        e->say(e->ctx, NULL, line.bytes);
    }
    text_free(&line);
    free(there);
    free(missing);
}

static void compare_all(const expected_sizes *e) {
    compare_layers(e);
    for (size_t i = 0; i < tenmap_count(e->model); i++) {
        const tenmap_tensor *t = tenmap_at(e->model, i);
        const expected_shape *x = e->family->shapes;
        while (x->pattern && !glob_match(x->pattern, t->name, t->name_len))
            x++;
        if (x->pattern)
            compare_shape(e, t, x);
    }
}

int config_check(const tenmap_model *model,
                 void (*say)(void *ctx, const tenmap_tensor *tensor, const char *sentence),
                 void *ctx) {
    char *folder = model_folder(model);
    expected_sizes e = {.model = model, .say = say, .ctx = ctx};
    config c;
    int status = EXIT_FINE;
    if (!config_read(folder, "config.json", &c)) {
        status =
            fail(EXIT_FAILED, "--config: there is no config.json in '%s' that can be read", folder);
    } else {
        const char *type = config_text(&c, "model_type");
        e.family = type ? find_family(type) : NULL;
        if (e.family) {
            read_sizes(&e, &c);
            compare_all(&e);
        } else {
            status = fail(EXIT_FAILED,
                          "--config does not know the shapes of model_type '%s'; it knows llama, "
                          "mistral, qwen2, qwen3, gemma, gpt2, bert and similar ones",
                          type ? type : "(none)");
        }
        config_free(&c);
    }
    free(folder);
    return status;
}
