/* Reads from config.json beside a model how its weights are quantized. */
#include "model.h"
#include "quantized.h"

#include <stdlib.h>
#include <string.h>

bool tmi_text_is(tmi_text text, const char *word) {
    return text.len == strlen(word) && memcmp(text.bytes, word, text.len) == 0;
}

uint64_t tmi_text_number(tmi_text text) {
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9' || value > UINT32_MAX / 10)
            return 0;
        value = value * 10 + (uint64_t)(text.bytes[i] - '0');
    }
    return value <= UINT32_MAX ? value : 0;
}

tenmap_dtype tmi_text_dtype(tmi_text text) {
    static const struct {
        const char *word;
        tenmap_dtype dtype;
    } known[] = {{"bfloat16", TENMAP_BF16},
                 {"float16", TENMAP_F16},
                 {"float32", TENMAP_F32},
                 {"half", TENMAP_F16},
                 {"float", TENMAP_F32}};
    if (text.len > 6 && memcmp(text.bytes, "torch.", 6) == 0) {
        text.bytes += 6;
        text.len -= 6;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (tmi_text_is(text, known[i].word))
            return known[i].dtype;
    return TENMAP_AS_STORED;
}

bool tmi_json_members(tmi_json *json, unsigned depth, tmi_json_member *member, void *ctx) {
    tmi_text key = {NULL, 0};
    if (tmi_json_peek(json) != '{')
        return tmi_json_skip(json, depth);
    json->at++;
    if (tmi_json_take(json, '}'))
        return true;
    do
        if (!tmi_json_string(json, &key, "expected a key in quotes") ||
            !tmi_json_expect(json, ':', "expected ':' after a key") || !member(json, key, ctx))
            return false;
    while (tmi_json_take(json, ','));
    return tmi_json_expect(json, '}', "expected ',' or '}'");
}

bool tmi_json_scalar(tmi_json *json, unsigned depth, tmi_text *text) {
    *text = (tmi_text){NULL, 0};
    char c = tmi_json_peek(json), *start = json->at;
    if (c == '"')
        return tmi_json_string(json, text, "expected a string");
    if (!tmi_json_skip(json, depth))
        return false;
    if (c != '{' && c != '[')
        *text = (tmi_text){start, (size_t)(json->at - start)};
    return true;
}

void tmi_text_copy(char *out, size_t room, tmi_text text) {
    bool fits = text.len < room && !(text.len && memchr(text.bytes, '\0', text.len));
    if (fits && text.len)
        memcpy(out, text.bytes, text.len);
    out[fits ? text.len : 0] = '\0';
}

/*
 * Depths of the nested objects that are read: the file, its configuration, groups, one group,
 * weights.
 */
enum { DEEP_FILE = 1, DEEP_CONFIG, DEEP_GROUPS, DEEP_GROUP, DEEP_WEIGHTS };

/* If groups of weights differ, the value is 0 and is deduced from the shapes instead. */
static void merge_number(uint64_t *value, uint64_t next, unsigned groups) {
    *value = groups <= 1 || *value == next ? next : 0;
}

/* weight_block_size: [128, 128]. */
static bool read_block(tmi_json *json, unsigned depth, tmi_quantized_config *config) {
    if (!tmi_json_take(json, '['))
        return tmi_json_skip(json, depth);
    for (unsigned i = 0; tmi_json_peek(json) != ']'; i++) {
        tmi_text text;
        if (!tmi_json_scalar(json, depth + 1, &text))
            return false;
        if (i < 2)
            config->block[i] = tmi_text_number(text);
        if (!tmi_json_take(json, ',') && tmi_json_peek(json) != ']')
            return tmi_json_fail(json, "expected ',' or ']'");
    }
    json->at++;
    return true;
}

static bool read_weights(tmi_json *json, tmi_text key, void *ctx) {
    tmi_quantized_config *config = ctx;
    tmi_text text;
    if (tmi_text_is(key, "block_structure"))
        return read_block(json, DEEP_WEIGHTS, config);
    if (!tmi_json_scalar(json, DEEP_WEIGHTS, &text))
        return false;
    if (tmi_text_is(key, "num_bits"))
        merge_number(&config->bits, tmi_text_number(text), config->groups);
    else if (tmi_text_is(key, "group_size"))
        merge_number(&config->group, tmi_text_number(text), config->groups);
    return true;
}

static bool read_group_member(tmi_json *json, tmi_text key, void *ctx) {
    if (tmi_text_is(key, "weights"))
        return tmi_json_members(json, DEEP_WEIGHTS, read_weights, ctx);
    return tmi_json_skip(json, DEEP_GROUP);
}

static bool read_group(tmi_json *json, tmi_text key, void *ctx) {
    tmi_quantized_config *config = ctx;
    (void)key;
    config->groups++;
    return tmi_json_members(json, DEEP_GROUP, read_group_member, ctx);
}

/* GPTQ's "dynamic": rules for some of the layers. */
static bool read_rule(tmi_json *json, tmi_text key, void *ctx) {
    tmi_quantized_config *config = ctx;
    (void)key;
    config->varies = true;
    return tmi_json_skip(json, DEEP_GROUPS);
}

static bool read_quantization(tmi_json *json, tmi_text key, void *ctx) {
    tmi_quantized_config *config = ctx;
    tmi_text text;
    if (tmi_text_is(key, "dynamic"))
        return tmi_json_members(json, DEEP_GROUPS, read_rule, ctx);
    if (tmi_text_is(key, "config_groups"))
        return tmi_json_members(json, DEEP_GROUPS, read_group, ctx);
    if (tmi_text_is(key, "weight_block_size"))
        return read_block(json, DEEP_CONFIG, config);
    if (!tmi_json_scalar(json, DEEP_CONFIG, &text))
        return false;
    if (tmi_text_is(key, "quant_method"))
        tmi_text_copy(config->method, sizeof config->method, text);
    else if (tmi_text_is(key, "format") || tmi_text_is(key, "checkpoint_format") ||
             tmi_text_is(key, "mode"))
        tmi_text_copy(config->format, sizeof config->format, text);
    else if (tmi_text_is(key, "bits"))
        config->bits = tmi_text_number(text);
    else if (tmi_text_is(key, "group_size"))
        config->group = tmi_text_number(text);
    return true;
}

static bool read_config_dtype(tmi_json *json, tmi_text key, void *ctx) {
    tmi_quantized_config *config = ctx;
    tmi_text text;
    if (!tmi_json_scalar(json, DEEP_CONFIG, &text))
        return false;
    tenmap_dtype dtype = tmi_text_dtype(text);
    bool named = tmi_text_is(key, "torch_dtype") || tmi_text_is(key, "dtype");
    if (named && config->dtype == TENMAP_AS_STORED)
        config->dtype = dtype;
    return true;
}

static bool read_config_member(tmi_json *json, tmi_text key, void *ctx) {
    tmi_quantized_config *config = ctx;
    bool mlx = tmi_text_is(key, "quantization");
    if (tmi_text_is(key, "quantization_config") || (mlx && !config->method[0])) {
        /*
         * MLX writes the same settings under both keys. The second adds nothing, and has no method
         * either.
         */
        bool said = tmi_json_peek(json) == '{';
        bool good = tmi_json_members(json, DEEP_CONFIG, read_quantization, ctx);
        if (good && mlx && said && !config->method[0])
            memcpy(config->method, "mlx", sizeof "mlx");
        return good;
    }
    if (tmi_text_is(key, "text_config"))
        return tmi_json_members(json, DEEP_CONFIG, read_config_dtype, ctx);
    tmi_text text;
    if (!tmi_json_scalar(json, DEEP_FILE, &text))
        return false;
    if (tmi_text_is(key, "torch_dtype") || tmi_text_is(key, "dtype")) {
        tenmap_dtype dtype = tmi_text_dtype(text);
        config->dtype = dtype == TENMAP_AS_STORED ? config->dtype : dtype;
    }
    return true;
}

/*
 * Python writes words for values that JSON numbers cannot express, and this parser accepts them:
 * "time_step_limit": [0.0, Infinity].
 */
static tenmap_status parse_config(const tmi_bytes *bytes, tmi_block text, size_t length,
                                  tmi_quantized_config *config, tenmap_error *error) {
    tmi_json json = {text.bytes, text.bytes, (char *)text.bytes + length, NULL, true};
    size_t valid = tmi_utf8_valid(text.bytes, length);
    bool good = valid == length || tmi_json_fail(&json, "the text is not UTF-8");
    if (!good)
        json.at = json.text + valid;
    if (good)
        good = tmi_json_expect(&json, '{', "expected a JSON object");
    if (good) {
        json.at--;
        good = tmi_json_members(&json, DEEP_FILE, read_config_member, config);
    }
    if (good && (tmi_json_peek(&json) != '\0' || json.at != json.end))
        good = tmi_json_fail(&json, "expected nothing but white space after the object");
    if (config->varies)
        config->bits = config->group = 0;
    uint64_t at = (uint64_t)(json.at - json.text);
    return good ? TENMAP_OK
                : tmi_fail_at(error, TENMAP_ERR_FORMAT, 0, at, "%s: byte %llu: %s",
                              tmi_quote_path(bytes->shown).text, (ull)at, json.problem);
}

static tenmap_status read_config(const tmi_bytes *bytes, uint64_t limit,
                                 tmi_quantized_config *config, tenmap_error *error) {
    tmi_block text = {NULL, 0};
    uint64_t size = bytes->file.size;
    if (size > limit || size > SIZE_MAX - TMI_JSON_PAD)
        return tmi_remedy(error, TENMAP_REMEDY_RAISE_HEADER_LIMIT,
                          tmi_fail(error, TENMAP_ERR_LIMIT,
                                   "%s: it has %llu bytes, over the limit of %llu (a higher limit "
                                   "for headers allows it)",
                                   tmi_quote_path(bytes->shown).text, (ull)size, (ull)limit));
    tenmap_status status = tmi_read_text(bytes, 0, size, "the configuration", &text, error);
    if (status == TENMAP_OK)
        status = parse_config(bytes, text, (size_t)size, config, error);
    tmi_block_free(&text);
    return status;
}

/*
 * The path of a file beside the model's first file. If the index names that file in a subfolder,
 * such as "parts/model.safetensors", the path is beside the index instead.
 */
static char *path_beside(const tenmap_io *io, const tmi_shard *shard, const char *name) {
    char *path = tmi_copy_text(shard->path, strlen(shard->path));
    size_t last = path ? tmi_path_without_query(io, path) : 0;
    while (last > 0 && path[last - 1] != '/')
        last--;
    size_t up = last;
    for (const char *in = shard->name; path && in && (in = strchr(in, '/')) != NULL; in++) {
        up -= up > 0;
        while (up > 0 && path[up - 1] != '/' && (io || !tmi_is_separator(path[up - 1])))
            up--;
    }
    if (up < last)
        memmove(path + up, path + last, strlen(path + last) + 1);
    char *beside = path ? tmi_path_beside(io, path, name, strlen(name)) : NULL;
    free(path);
    return beside;
}

/*
 * Reads one of the files that may lie beside the model; TENMAP_ERR_NOT_FOUND if it does not exist.
 */
static tenmap_status try_config(const tenmap_model *model, const tenmap_options *options,
                                const char *name, tmi_quantized_config *config,
                                tenmap_error *error) {
    tmi_bytes bytes = TMI_NO_BYTES;
    char *path = path_beside(options->io, &model->shards[0], name);
    if (!path)
        return tmi_fail_memory(error, strlen(name), "the path of a configuration");
    tenmap_status status = tmi_bytes_open(&bytes, options->io, path, "it", error);
    if (status == TENMAP_OK && bytes.file.kind != TMI_FILE_FOLDER)
        status = tmi_bytes_expect_file(&bytes, error);
    if (status == TENMAP_OK && bytes.file.kind != TMI_FILE_FOLDER)
        status = read_config(&bytes, tmi_header_limit(options), config, error);
    tmi_bytes_close(&bytes);
    free(path);
    return status;
}

tenmap_status tmi_quantized_config_read(const tenmap_model *model, const tenmap_options *options,
                                        tmi_quantized_config *config, tenmap_error *error) {
    *config = (tmi_quantized_config){.groups = 0};
    if (model->shard_count == 0 || !model->shards[0].path)
        return TENMAP_OK;
    /* ModelOpt used a file of its own before it wrote its settings into config.json. */
    static const char *const names[] = {"config.json", "hf_quant_config.json"};
    tenmap_error why;
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; i < 2 && status == TENMAP_OK && !config->method[0]; i++) {
        status = try_config(model, options, names[i], config, &why);
        if (i == 1 && status == TENMAP_OK && config->method[0])
            memcpy(config->method, "modelopt", sizeof "modelopt");
        if (status == TENMAP_ERR_NOT_FOUND)
            status = TENMAP_OK;
    }
    if (status != TENMAP_OK && error)
        *error = why;
    return status;
}
