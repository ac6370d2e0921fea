/*
 * Reads config.json as transformers writes it, before version 5 and since, with a small JSON
 * reader.
 */
#include "llama.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int fail(tenmap_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return 0;
}

/*
 * A value is a pointer to its start in the text, which ends with NUL; NULL means no value. Nothing
 * recurses, and text that is not JSON has no members.
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

static int is_string(const char *value, const char *text) {
    size_t length = strlen(text);
    return value && *value == '"' && strncmp(value + 1, text, length) == 0 &&
           value[1 + length] == '"';
}

/* The value of a member of an object; NULL if it is missing or null. */
static const char *member(const char *object, const char *key) {
    const char *p = object && *object == '{' ? object : "";
    size_t depth = 0;
    while (*p) {
        const char *start = p;
        p = *p == '"' ? skip_space(skip_string(p)) : p + 1;
        if (*start == '{' || *start == '[')
            depth++;
        else if ((*start == '}' || *start == ']') && --depth == 0)
            return NULL;
        if (depth == 1 && *p == ':' && is_string(start, key)) {
            p = skip_space(p + 1);
            return strncmp(p, "null", 4) == 0 ? NULL : p;
        }
    }
    return NULL;
}

typedef struct reader {
    const char *text, *path;
    tenmap_error *error;
    int good; /* of several failures the first is reported */
} reader;

static void refuse(reader *r, const char *key, const char *expected) {
    if (r->good)
        r->good = fail(r->error, "\"%s\": \"%s\" is missing or not %s", r->path, key, expected);
}

/* The type is shown without control characters, and shortened. */
static void refuse_type(reader *r, const char *what, const char *type, const char *known) {
    char shown[64];
    size_t n = 0;
    for (type += *type == '"'; *type && *type != '"' && n + 1 < sizeof shown; type++)
        shown[n++] = *type > ' ' && *type < 127 ? *type : '?';
    shown[n] = 0;
    if (r->good)
        r->good = fail(r->error, "\"%s\": %s of type \"%s\"; this engine knows %s", r->path, what,
                       shown, known);
}

/* A number of at least 1. If it is missing, `otherwise`; if that is 0, the number is required. */
static size_t read_size(reader *r, const char *key, size_t otherwise) {
    enum { MOST = 1 << 24 }; /* products of two of them fit everywhere */
    const char *value = member(r->text, key);
    char *end;
    if (!value && otherwise)
        return otherwise;
    unsigned long size = value ? strtoul(value, &end, 10) : 0;
    if (size < 1 || size > MOST || strchr(".eE", *end))
        refuse(r, key, "a whole number from 1 to 16777216");
    return size;
}

/* A positive number. If it is missing, `otherwise`; if that is 0, the number is required. */
static float read_float(reader *r, const char *object, const char *key, float otherwise) {
    const char *value = member(object, key);
    if (!value && otherwise > 0)
        return otherwise;
    double number = value ? strtod(value, NULL) : 0;
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

enum { LLAMA, MISTRAL, QWEN2, QWEN3, ARCHITECTURES };

static int read_architecture(reader *r) {
    static const char *const names[ARCHITECTURES] = {"llama", "mistral", "qwen2", "qwen3"};
    const char *type = member(r->text, "model_type");
    int i = 0;
    while (i < ARCHITECTURES && !is_string(type, names[i]))
        i++;
    if (!type || *type != '"')
        r->good =
            fail(r->error, "\"%s\": not a language model's: it has no \"model_type\"", r->path);
    else if (i == ARCHITECTURES)
        refuse_type(r, "a model", type, "llama, mistral, qwen2 and qwen3");
    return i;
}

static void read_sizes(reader *r, llama_config *c, int architecture) {
    c->vocabulary = read_size(r, "vocab_size", 0);
    c->width = read_size(r, "hidden_size", 0);
    c->inner = read_size(r, "intermediate_size", 0);
    c->layers = read_size(r, "num_hidden_layers", 0);
    c->heads = read_size(r, "num_attention_heads", 0);
    c->kv_heads = read_size(r, "num_key_value_heads", c->heads);
    if (!r->good || !c->heads || !c->kv_heads) /* all are from 1 on where they are good */
        return;
    c->head_size = read_size(r, "head_dim", architecture == QWEN3 ? 128 : c->width / c->heads);
    if (c->layers > LAYERS_AT_MOST)
        refuse(r, "num_hidden_layers", "at most 1024");
    else if (c->heads % c->kv_heads != 0)
        refuse(r, "num_key_value_heads", "a divisor of \"num_attention_heads\"");
    else if (c->head_size % 2 != 0)
        refuse(r, "head_dim", "an even number");
}

static void read_rope(reader *r, llama_config *c) {
    const char *rope = member(r->text, "rope_scaling");
    if (!rope)
        rope = member(r->text, "rope_parameters"); /* since version 5, with rope_theta in it */
    const char *type = member(rope, "rope_type");
    if (!type)
        type = member(rope, "type");
    c->theta = read_float(r, member(rope, "rope_theta") ? rope : r->text, "rope_theta", 10000);
    if (!type || is_string(type, "default"))
        return;
    if (is_string(type, "linear")) {
        c->rope = ROPE_LINEAR;
    } else if (is_string(type, "llama3")) {
        c->rope = ROPE_LLAMA3;
        c->low_factor = read_float(r, rope, "low_freq_factor", 0);
        c->high_factor = read_float(r, rope, "high_freq_factor", 0);
        c->original_positions = read_float(r, rope, "original_max_position_embeddings", 0);
    } else {
        refuse_type(r, "rope", type, "default, linear and llama3");
    }
    c->factor = read_float(r, rope, "factor", 0);
}

/*
 * Mistral's window is for all layers. Qwen's is for some, and only if use_sliding_window says so.
 */
static void read_window(reader *r, llama_config *c, int architecture) {
    int qwen = architecture != MISTRAL;
    if (architecture == LLAMA || !member(r->text, "sliding_window") ||
        (qwen && !read_flag(r, "use_sliding_window")))
        return;
    size_t window = read_size(r, "sliding_window", 0);
    const char *most = member(r->text, "max_window_layers");
    size_t first = !qwen ? 0 : most ? strtoul(most, NULL, 10) : 28;
    /*
     * Since 4.53 they are listed one by one. `types` is at the bracket or the comma before a
     * layer's type.
     */
    const char *types = qwen ? member(r->text, "layer_types") : NULL;
    for (size_t l = 0; l < c->layers && l < LAYERS_AT_MOST; l++) {
        int sliding = !types && l >= first;
        if (types && (*types == '[' || *types == ',')) {
            types = skip_space(types + 1);
            sliding = is_string(types, "sliding_attention");
            types = *types == '"' ? skip_space(skip_string(types)) : "";
        }
        c->window[l] = sliding ? window : 0;
    }
}

static int read_text(reader *r, llama_config *c) {
    int architecture = read_architecture(r);
    read_sizes(r, c, architecture);
    read_rope(r, c);
    read_window(r, c, architecture);
    c->epsilon = read_float(r, r->text, "rms_norm_eps", 1e-6f);
    c->tied = read_flag(r, "tie_word_embeddings");
    c->o_bias = (architecture == LLAMA || architecture == QWEN3) && read_flag(r, "attention_bias");
    c->qkv_bias = architecture == QWEN2 || c->o_bias;
    c->mlp_bias = architecture == LLAMA && read_flag(r, "mlp_bias");
    c->qk_norms = architecture == QWEN3;
    const char *activation = member(r->text, "hidden_act");
    if (activation && !is_string(activation, "silu"))
        refuse(r, "hidden_act", "\"silu\"");
    return r->good;
}

int config_read(llama_config *config, const char *folder, tenmap_error *error) {
    static char path[4096], text[1 << 20]; /* config.json has a few KB */
    memset(config, 0, sizeof *config);
    /* A path that is too long is cut, and then does not open. */
    snprintf(path, sizeof path, "%s/config.json", folder);
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
