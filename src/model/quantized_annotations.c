/*
 * JSON annotations of a weight: torchao's are in the file's metadata, ComfyUI's in a tensor beside
 * the weight. Parts whose names and shapes fit may still be stored in a different order; these
 * annotations say so.
 */
#include "model.h"
#include "quantized.h"

#include <string.h>

enum { MOST_ANNOTATION_TEXT = 64 << 10 };

bool tmi_annotation_parse(tmi_block text, size_t length, tmi_json_member *member, void *ctx) {
    tmi_json json = {text.bytes, text.bytes, (char *)text.bytes + length, NULL, false};
    return tmi_utf8_valid(text.bytes, length) == length && tmi_json_peek(&json) == '{' &&
           tmi_json_members(&json, 1, member, ctx) && tmi_json_peek(&json) == '\0' &&
           json.at == json.end;
}

/* ComfyUI: {"format": "float8_e4m3fn", ...}. */

typedef struct comfy_annotation {
    char format[32];
    bool rotated; /* the values are in a different basis from the weight */
} comfy_annotation;

static bool read_comfy_member(tmi_json *json, tmi_text key, void *ctx) {
    comfy_annotation *note = ctx;
    tmi_text text;
    if (!tmi_json_scalar(json, 1, &text))
        return false;
    if (tmi_text_is(key, "format"))
        tmi_text_copy(note->format, sizeof note->format, text);
    else if (tmi_text_is(key, "convrot"))
        note->rotated = !tmi_text_is(text, "false");
    return true;
}

static bool comfy_format_fits(const comfy_annotation *note, tenmap_dtype dtype) {
    static const struct {
        const char *format;
        tenmap_dtype dtype;
    } known[] = {{"float8_e4m3fn", TENMAP_F8_E4M3},
                 {"float8_e5m2", TENMAP_F8_E5M2},
                 {"int8_tensorwise", TENMAP_I8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(note->format, known[i].format) == 0)
            return dtype == known[i].dtype && !note->rotated;
    return false;
}

bool tmi_check_comfy(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part) {
    tmi_block text = {NULL, 0};
    comfy_annotation note = {.rotated = false};
    size_t length =
        part->nbytes < MOST_ANNOTATION_TEXT ? (size_t)part->nbytes : MOST_ANNOTATION_TEXT;
    if (!tmi_block_alloc(&text, length + TMI_JSON_PAD)) {
        f->status = tmi_fail_memory(f->error, length, "a note beside a weight");
        return false;
    }
    bool good = tmi_part_read(f, t, part, text.bytes, length);
    if (good && !tmi_annotation_parse(text, length, read_comfy_member, &note))
        good = TMI_PART_WRONG(f, t, part, "expected JSON with a format");
    else if (good && !comfy_format_fits(&note, t->dtype))
        good = TMI_PART_WRONG(f, t, part,
                              "it says format %s%s, which is not supported for values of %s",
                              tmi_quote(note.format, strlen(note.format)).text,
                              note.rotated ? ", rotated" : "", tenmap_dtype_text(t));
    tmi_block_free(&text);
    return good;
}

/* torchao: {"_type": "Int8Tensor", "_data": {"block_size": [1, 32], "dtype": {...}, ...}, ...}. */

typedef struct torchao_annotation {
    char type[32];
    uint64_t block[2];
    unsigned axes; /* number of axes of the block */
    tenmap_dtype dtype;
} torchao_annotation;

static bool read_torchao_dtype(tmi_json *json, tmi_text key, void *ctx) {
    torchao_annotation *note = ctx;
    tmi_text text;
    if (!tmi_json_scalar(json, 3, &text))
        return false;
    if (tmi_text_is(key, "_data"))
        note->dtype = tmi_text_dtype(text);
    return true;
}

static bool read_torchao_block(tmi_json *json, torchao_annotation *note) {
    if (!tmi_json_take(json, '['))
        return tmi_json_skip(json, 2);
    for (; tmi_json_peek(json) != ']'; note->axes++) {
        tmi_text text;
        if (!tmi_json_scalar(json, 3, &text))
            return false;
        if (note->axes < 2)
            note->block[note->axes] = tmi_text_number(text);
        if (!tmi_json_take(json, ',') && tmi_json_peek(json) != ']')
            return tmi_json_fail(json, "expected ',' or ']'");
    }
    json->at++;
    return true;
}

static bool read_torchao_data(tmi_json *json, tmi_text key, void *ctx) {
    if (tmi_text_is(key, "block_size"))
        return read_torchao_block(json, ctx);
    if (tmi_text_is(key, "dtype"))
        return tmi_json_members(json, 3, read_torchao_dtype, ctx);
    return tmi_json_skip(json, 2);
}

static bool read_torchao_member(tmi_json *json, tmi_text key, void *ctx) {
    torchao_annotation *note = ctx;
    tmi_text text;
    if (tmi_text_is(key, "_data"))
        return tmi_json_members(json, 2, read_torchao_data, ctx);
    if (!tmi_json_scalar(json, 1, &text))
        return false;
    if (tmi_text_is(key, "_type"))
        tmi_text_copy(note->type, sizeof note->type, text);
    return true;
}

/* Indexes all metadata keys, once: a model has a pair for each weight. */
static bool index_metadata_keys(tmi_part_finder *f) {
    const tenmap_model *model = f->model;
    if (f->metadata_known)
        return true;
    if (!tmi_names_init(&f->metadata, &model->key, model->metadata, sizeof *model->metadata,
                        model->metadata_count)) {
        f->status = tmi_fail_memory(f->error, model->metadata_count * sizeof *model->metadata,
                                    "the metadata's names");
        return false;
    }
    f->metadata_known = true;
    for (size_t i = 0; i < model->metadata_count; i++)
        tmi_names_put(&f->metadata, i,
                      tmi_hash(&model->key, model->metadata[i].key, model->metadata[i].key_len));
    return true;
}

/*
 * The metadata whose key is the weight's name. NULL if there is none, or if f->status is an error.
 */
static const tenmap_metadata *torchao_metadata(tmi_part_finder *f, const tenmap_tensor *t) {
    const size_t cut = strlen("_weight_qdata");
    size_t len = t->name_len - cut + strlen("weight");
    const char *name = tmi_part_name(f, t, cut, "weight");
    if (!name || !index_metadata_keys(f))
        return NULL;
    size_t i = tmi_names_find(&f->metadata, name, len, tmi_hash(&f->model->key, name, len));
    return i == TMI_NONE ? NULL : &f->model->metadata[i];
}

static bool parse_torchao(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_metadata *pair,
                          torchao_annotation *note) {
    tmi_block text = {NULL, 0};
    if (pair->value_len > MOST_ANNOTATION_TEXT)
        return TMI_PART_WRONG(f, t, t, "its metadata has %llu bytes; expected at most %d",
                              (ull)pair->value_len, (int)MOST_ANNOTATION_TEXT);
    if (!tmi_block_alloc(&text, pair->value_len + TMI_JSON_PAD)) {
        f->status = tmi_fail_memory(f->error, pair->value_len, "the metadata of a weight");
        return false;
    }
    memcpy(text.bytes, pair->value, pair->value_len);
    bool good = tmi_annotation_parse(text, pair->value_len, read_torchao_member, note) ||
                TMI_PART_WRONG(f, t, t, "expected JSON with a _type in its metadata");
    tmi_block_free(&text);
    return good;
}

bool tmi_check_torchao(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    static const char *const plain[] = {"Float8Tensor", "Int8Tensor", "IntxUnpackedToInt8Tensor"};
    torchao_annotation note = {.axes = 0};
    tmi_quant_layout *r = &c->layout;
    const tenmap_metadata *pair = torchao_metadata(f, t);
    if (!pair)
        return f->status == TENMAP_OK;
    if (!parse_torchao(f, t, pair, &note))
        return false;
    bool known = false;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        known = known || strcmp(note.type, plain[i]) == 0;
    if (!known)
        return false; /* another layout: list the tensors as stored */
    c->dtype = note.dtype;
    if (note.axes != 2 || t->rank != 2 || !note.block[0] || !note.block[1])
        return true;
    uint64_t rows = r->rows / note.block[0] + (r->rows % note.block[0] != 0);
    uint64_t columns = r->columns / note.block[1] + (r->columns % note.block[1] != 0);
    if (rows != r->scale_rows || columns != r->scale_columns)
        return TMI_PART_WRONG(f, t, c->parts[TMI_PART_SCALES],
                              "the metadata says blocks of %llux%llu, which gives [%llu, %llu] "
                              "scales for this weight",
                              (ull)note.block[0], (ull)note.block[1], (ull)rows, (ull)columns);
    r->group_rows = note.block[0];
    r->group_columns = note.block[1];
    return true;
}
