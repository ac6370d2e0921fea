/* config.json as a hub has it, of transformers before version 5 and since, through a small reader. */
#include "llama.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_AT_MOST = 1 << 20 };

int fail(tenmap_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    error->status = TENMAP_ERR_FORMAT;
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return 0;
}

/*
 * Values are pointers to where they start in the text, which ends with NUL; NULL is no value. Nothing
 * recurses, and text that is no JSON has no members.
 */
static const char *skip_space(const char *p) {
    return p + strspn(p, " \t\r\n");
}

static const char *skip_string(const char *p) {
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

static const char *skip_value(const char *p) {
    size_t depth = 0;
    do {
        p = skip_space(p);
        if (*p == '"') {
            p = skip_string(p);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (depth && (*p == '}' || *p == ']')) {
            depth--;
            p++;
        } else if (depth && (*p == ',' || *p == ':')) {
            p++;
        } else {
            size_t length = strcspn(p, " \t\r\n\",:[]{}");
            if (length == 0)
                return NULL;
            p += length;
        }
    } while (depth);
    return skip_space(p);
}

/* The value of a member of an object; NULL where there is none, or it is null. */
static const char *member(const char *object, const char *key) {
    size_t length = strlen(key);
    const char *p = object && *object == '{' ? skip_space(object + 1) : NULL;
    while (p && *p == '"') {
        const char *name = p + 1;
        p = skip_space(skip_string(p));
        if (*p != ':')
            return NULL;
        p = skip_space(p + 1);
        if (strncmp(name, key, length) == 0 && name[length] == '"')
            return strncmp(p, "null", 4) == 0 ? NULL : p;
        p = skip_value(p);
        if (p && *p == ',')
            p = skip_space(p + 1);
    }
    return NULL;
}

/* A string for messages and comparisons: what is not plain becomes '?', what is too long is cut. */
static const char *plain(const char *value, char *out, size_t room) {
    size_t n = 0;
    if (!value || *value != '"')
        return "";
    for (value++; *value && *value != '"' && n + 1 < room; value++)
        out[n++] = *value > ' ' && *value < 127 && *value != '\\' ? *value : '?';
    out[n] = 0;
    return out;
}

typedef struct reader {
    const char *text, *path;
    tenmap_error *error;
    int good; /* of several failures the first is told */
} reader;

static void refuse(reader *r, const char *key, const char *expected) {
    if (r->good)
        r->good = fail(r->error, "\"%s\": \"%s\" is missing or not %s", r->path, key, expected);
}

/* From 1 on; `otherwise` where there is none, but 0 stands for one that must be there. */
static size_t read_size(reader *r, const char *key, size_t otherwise) {
    enum { MOST = 1 << 24 }; /* products of two of them fit everywhere */
    const char *value = member(r->text, key);
    char *end;
    if (!value && otherwise)
        return otherwise;
    unsigned long size = value && *value >= '0' && *value <= '9' ? strtoul(value, &end, 10) : 0;
    if (size < 1 || size > MOST || strchr(".eE", *end))
        refuse(r, key, "a whole number from 1 to 16777216");
    return size;
}

/* Positive; `otherwise` where there is none, but 0 stands for one that must be there. */
static float read_float(reader *r, const char *object, const char *key, float otherwise) {
    const char *value = member(object, key);
    if (!value && otherwise > 0)
        return otherwise;
    double number =
        value && (*value == '.' || (*value >= '0' && *value <= '9')) ? strtod(value, NULL) : 0;
    if (!(number > 0 && number < 1e30))
        refuse(r, key, "a positive number");
    return (float)number;
}

static int read_flag(reader *r, const char *key) {
    const char *value = member(r->text, key);
    int yes = value && strncmp(value, "true", 4) == 0;
    if (value && !yes && strncmp(value, "false", 5) != 0)
        refuse(r, key, "true or false");
    return yes;
}

/* Of a kind of model: what its config.json says, and what it does not. */
enum { NO_WINDOW, WINDOW, WINDOW_IF_USED };
typedef struct architecture {
    const char *name;
    int qkv_bias, qk_norms; /* always */
    int attention_bias;     /* if the key of that name says so, for q, k, v and o */
    int mlp_bias;           /* likewise */
    int window;
    size_t head_size; /* without the key; 0: width / heads */
} architecture;

static const architecture architectures[] = {
    {"llama", .attention_bias = 1, .mlp_bias = 1},
    {"mistral", .window = WINDOW},
    {"qwen2", .qkv_bias = 1, .window = WINDOW_IF_USED},
    {"qwen3", .qk_norms = 1, .attention_bias = 1, .window = WINDOW_IF_USED, .head_size = 128}};

static const architecture *find_architecture(reader *r) {
    char room[64];
    const char *name = plain(member(r->text, "model_type"), room, sizeof room);
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (strcmp(architectures[i].name, name) == 0)
            return &architectures[i];
    if (!*name)
        fail(r->error, "\"%s\": not a language model's: it has no \"model_type\"", r->path);
    else
        fail(r->error,
             "\"%s\": a model of type \"%s\"; this engine knows llama, mistral, qwen2 and qwen3",
             r->path, name);
    return NULL;
}

static void read_sizes(reader *r, llama_config *c, const architecture *a) {
    c->vocabulary = read_size(r, "vocab_size", 0);
    c->width = read_size(r, "hidden_size", 0);
    c->inner = read_size(r, "intermediate_size", 0);
    c->layers = read_size(r, "num_hidden_layers", 0);
    c->heads = read_size(r, "num_attention_heads", 0);
    c->kv_heads = read_size(r, "num_key_value_heads", c->heads);
    if (!r->good || !c->heads || !c->kv_heads) /* all are from 1 on where they are good */
        return;
    size_t usual = a->head_size ? a->head_size : c->width / c->heads;
    c->head_size = usual ? read_size(r, "head_dim", usual) : 0;
    if (c->layers > LAYERS_AT_MOST)
        refuse(r, "num_hidden_layers", "at most 1024");
    else if (c->heads % c->kv_heads != 0)
        refuse(r, "num_key_value_heads", "a divisor of \"num_attention_heads\"");
    else if (c->head_size % 2 != 0 || c->head_size == 0)
        refuse(r, "head_dim", "an even number");
}

static void read_rope(reader *r, llama_config *c) {
    const char *since_5 = member(r->text, "rope_parameters"), *type;
    const char *rope = since_5 ? since_5 : member(r->text, "rope_scaling");
    char room[64];
    c->theta =
        read_float(r, member(since_5, "rope_theta") ? since_5 : r->text, "rope_theta", 10000);
    type = member(rope, "rope_type");
    type = plain(type ? type : member(rope, "type"), room, sizeof room);
    if (read_float(r, rope, "partial_rotary_factor", 1) < 1)
        refuse(r, "partial_rotary_factor", "1");
    if (!*type || strcmp(type, "default") == 0)
        return;
    c->factor = read_float(r, rope, "factor", 0);
    if (strcmp(type, "linear") == 0) {
        c->rope = ROPE_LINEAR;
    } else if (strcmp(type, "llama3") == 0) {
        c->rope = ROPE_LLAMA3;
        c->low_factor = read_float(r, rope, "low_freq_factor", 0);
        c->high_factor = read_float(r, rope, "high_freq_factor", 0);
        c->original_positions = read_float(r, rope, "original_max_position_embeddings", 0);
    } else if (r->good) {
        r->good = fail(r->error,
                       "\"%s\": rope of type \"%s\"; this engine knows default, linear and "
                       "llama3",
                       r->path, type);
    }
}

static void read_window(reader *r, llama_config *c, const architecture *a) {
    if (a->window == NO_WINDOW || !member(r->text, "sliding_window") ||
        (a->window == WINDOW_IF_USED && !read_flag(r, "use_sliding_window")))
        return;
    c->window = read_size(r, "sliding_window", 0);
    if (a->window == WINDOW) {
        memset(c->sliding, 1, sizeof c->sliding);
        return;
    }
    const char *types = member(r->text, "layer_types"); /* since 4.53; before, by number */
    const char *p = types && *types == '[' ? skip_space(types + 1) : NULL;
    size_t first = 28; /* what these two architectures take for max_window_layers */
    const char *bound = member(r->text, "max_window_layers");
    if (bound && *bound >= '0' && *bound <= '9')
        first = strtoul(bound, NULL, 10);
    for (size_t l = 0; l < c->layers && l < LAYERS_AT_MOST; l++) {
        char room[64];
        c->sliding[l] =
            p ? strcmp(plain(p, room, sizeof room), "sliding_attention") == 0 : l >= first;
        p = p ? skip_value(p) : NULL;
        p = p && *p == ',' ? skip_space(p + 1) : p;
    }
}

static int read_text(reader *r, llama_config *c) {
    const architecture *a = find_architecture(r);
    char room[64];
    if (!a)
        return 0;
    read_sizes(r, c, a);
    c->epsilon = read_float(r, r->text, "rms_norm_eps", 1e-6f);
    c->tied = read_flag(r, "tie_word_embeddings");
    c->o_bias = a->attention_bias && read_flag(r, "attention_bias");
    c->qkv_bias = a->qkv_bias || c->o_bias;
    c->mlp_bias = a->mlp_bias && read_flag(r, "mlp_bias");
    c->qk_norms = a->qk_norms;
    read_rope(r, c);
    read_window(r, c, a);
    const char *activation = member(r->text, "hidden_act");
    if (activation && strcmp(plain(activation, room, sizeof room), "silu") != 0)
        refuse(r, "hidden_act", "\"silu\"");
    return r->good;
}

int config_read(llama_config *config, const char *folder, tenmap_error *error) {
    static char path[4096], text[TEXT_AT_MOST]; /* config.json has a few KB */
    memset(config, 0, sizeof *config);
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path)
        return fail(error, "the path of config.json is longer than 4095 bytes");
    FILE *in = fopen(path, "rb");
    if (!in)
        return fail(error, "\"%s\": %s: a language model has one beside its weights", path,
                    strerror(errno));
    size_t got = fread(text, 1, sizeof text, in);
    int good = !ferror(in) && got < sizeof text;
    fclose(in);
    if (!good)
        return fail(error, "\"%s\": it could not be read, or is larger than 1 MiB", path);
    text[got] = 0;
    reader r = {skip_space(text), path, error, 1};
    return read_text(&r, config);
}
