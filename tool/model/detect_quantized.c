/* Recognizes quantized weights by the names and dtypes of their parts, and counts their values. */
#include "model/detect_quantized.h"

#include <string.h>

#include "view/print.h"

/* Which dtypes the codes may have. */
enum { NARROW = 1, PACKED = 2, PLAIN = 4, BLOCKS = 8 };

typedef struct scheme {
    const char *name;
    const char *codes;    /* suffix of the codes' name; the other parts share the rest of it */
    unsigned dtypes;      /* of the codes */
    const char *marks[5]; /* one of these beside the codes identifies the scheme */
    const char *more[5];  /* parts that belong to it but do not identify it */
} scheme;

/*
 * The first match counts. PLAIN codes have a float dtype but still hold packed bits; their marks
 * identify them.
 */
static const scheme schemes[] = {
    {"MXFP4, as in gpt-oss", "_blocks", NARROW, {"_scales"}, {0}},
    {"GPTQ or AWQ",
     "qweight",
     NARROW | PACKED,
     {"scales", "qzeros", "wscales"},
     {"g_idx", "wzeros"}},
    {"compressed-tensors",
     "_packed",
     NARROW | PACKED,
     {"_scale"},
     {"_zero_point", "_global_scale", "_shape", "_g_idx"}},
    {"bitsandbytes, 4 bits",
     "",
     NARROW | PACKED | PLAIN,
     {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"},
     {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}},
    {"bitsandbytes",
     "",
     NARROW,
     {".absmax", ".quant_map"},
     {".nested_absmax", ".nested_quant_map"}},
    {"bitsandbytes, 8 bits", "weight", NARROW, {"SCB", "weight.SCB"}, {"weight_format"}},
    {"torchao", "_qdata", NARROW | PACKED, {"_scale"}, {"_zero_point", "_per_tensor_scale"}},
    {"quanto", "._data", NARROW | PACKED, {"._scale"}, {"._shift"}},
    {"quanto", "._data._data", NARROW | PACKED, {"._scale"}, {"._shift"}},
    {"HQQ", "W_q", NARROW | PACKED, {"scale"}, {"zero"}},
    {"HQQ", "W_q", PLAIN, {"zero"}, {"scale"}},
    {"AQLM", "codes", NARROW | PACKED, {"codebooks"}, {"scales"}},
    {"Marlin", ".B", PACKED, {".s"}, {0}},
    {"MLX", "weight", PACKED, {"scales"}, {"biases"}},
    {"block scales, as in DeepSeek's FP8", "", NARROW, {"_scale_inv"}, {0}},
    {"scaled FP8, as in ComfyUI", "weight", NARROW, {"scale_weight"}, {"scale_input"}},
    {"scaled, as by compressed-tensors or ModelOpt",
     "",
     NARROW | PACKED,
     {"_scale", "_scales", ".scale", ".scales"},
     {"_scale_2", "_global_scale", "_zero_point", "_offset"}},
    {"NVFP4 of GGUF", ".weight", BLOCKS, {".scale"}, {".input_scale"}},
    {"scaled",
     "weight",
     NARROW | PACKED,
     {"scale", "scales"},
     {"zero", "zeros", "zero_point", "biases"}},
};

static unsigned kind_of_codes(tenmap_dtype dtype) {
    uint32_t bits = tenmap_dtype_bits(dtype), kind = tenmap_dtype_kind(dtype);
    bool integer = kind == TENMAP_KIND_INT || kind == TENMAP_KIND_UINT;
    if (dtype == TENMAP_NVFP4)
        return BLOCKS;
    if (bits == 0 || bits > 32 || dtype == TENMAP_F8_E8M0) /* E8M0 is for scales */
        return 0;
    if (bits <= 8)
        return integer || kind == TENMAP_KIND_FLOAT ? NARROW : 0;
    return integer ? PACKED : PLAIN;
}

/* Adds the parts that the model has, whose names differ from the codes' only in the suffix. */
static void add_parts(const tenmap_model *model, size_t stem, const char *const *ends, size_t count,
                      quantized_parts *out) {
    text name = {0};
    for (size_t i = 0; i < count && ends[i]; i++) {
        text_clear(&name);
        text_add(&name, out->parts[0]->name, stem);
        text_add(&name, ends[i], strlen(ends[i]));
        const tenmap_tensor *part = tenmap_find_n(model, name.bytes, name.len);
        if (part && part != out->parts[0])
            out->parts[out->count++] = part;
    }
    text_free(&name);
}

static bool has_scheme(const tenmap_model *model, const scheme *s, quantized_parts *out) {
    const tenmap_tensor *codes = out->parts[0];
    size_t end = strlen(s->codes);
    if (!(kind_of_codes(codes->dtype) & s->dtypes) || codes->name_len < end)
        return false;
    size_t stem = codes->name_len - end;
    if (memcmp(codes->name + stem, s->codes, end) != 0)
        return false;
    add_parts(model, stem, s->marks, sizeof s->marks / sizeof s->marks[0], out);
    if (out->count == 1)
        return false;
    add_parts(model, stem, s->more, sizeof s->more / sizeof s->more[0], out);
    out->scheme = s->name;
    return true;
}

bool detect_quantized(const tenmap_model *model, const tenmap_tensor *codes, quantized_parts *out) {
    *out = (quantized_parts){.parts = {codes}, .count = 1};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (has_scheme(model, &schemes[i], out))
            return true;
    return false;
}

/* Counting values. */

static const tenmap_tensor *part_called(const quantized_parts *w, const char *end) {
    size_t len = strlen(end);
    for (size_t i = 1; i < w->count; i++) {
        const tenmap_tensor *t = w->parts[i];
        if (t->name_len >= len && memcmp(t->name + t->name_len - len, end, len) == 0)
            return t;
    }
    return NULL;
}

/*
 * GPTQ packs several rows into a word, AWQ several columns. The size of the packed dimension
 * follows from another part.
 */
static bool gptq_values(const quantized_parts *w, uint64_t *out) {
    const tenmap_tensor *codes = w->parts[0], *scales = part_called(w, "scales");
    const tenmap_tensor *order = part_called(w, "g_idx"), *zeros = part_called(w, "qzeros");
    if (codes->rank != 2 || !scales || scales->rank != 2)
        return false;
    uint64_t columns = scales->shape[1];
    if (columns != codes->shape[1]) {
        *out = codes->shape[0] * columns;
        return true;
    }
    if (order) {
        *out = order->nelems * columns;
        return true;
    }
    if (!zeros || zeros->rank != 2 || !zeros->shape[1])
        return false;
    *out = codes->shape[0] * (columns / zeros->shape[1]) * columns;
    return true;
}

static bool shape_values(const tenmap_tensor *shape, uint64_t *out) {
    enum { MOST_DIMENSIONS = 8 };
    double dims[MOST_DIMENSIONS];
    if (shape->nelems == 0 || shape->nelems > MOST_DIMENSIONS ||
        tenmap_read(shape, 0, shape->nelems, TENMAP_F64, dims, sizeof dims, 0, NULL) != TENMAP_OK)
        return false;
    *out = 1;
    for (uint64_t i = 0; i < shape->nelems; i++)
        *out *= dims[i] > 0 && dims[i] < 0x1p31 ? (uint64_t)dims[i] : 0;
    return true;
}

bool quantized_value_count(const quantized_parts *w, uint64_t *out) {
    static const struct {
        const char *scheme;
        unsigned per_byte;
    } packed[] = {{"MXFP4, as in gpt-oss", 2}, {"bitsandbytes, 4 bits", 2}};
    const tenmap_tensor *codes = w->parts[0], *shape = part_called(w, "_shape");
    *out = codes->nelems;
    if (strcmp(w->scheme, "GPTQ or AWQ") == 0 && tenmap_dtype_bits(codes->dtype) == 32)
        return gptq_values(w, out);
    if (kind_of_codes(codes->dtype) == BLOCKS)
        return true;
    if (shape)
        return shape_values(shape, out);
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++)
        if (strcmp(w->scheme, packed[i].scheme) == 0) {
            *out = codes->nbytes * packed[i].per_byte;
            return true;
        }
    if (strcmp(w->scheme, "compressed-tensors") == 0) {
        *out = codes->nbytes * 2;
        return true;
    }
    /* Floats of at most 8 bits and 8-bit integers hold one value each; wider words hold several. */
    return kind_of_codes(codes->dtype) == NARROW && strstr(w->scheme, "HQQ") == NULL &&
           strstr(w->scheme, "quanto") == NULL && strstr(w->scheme, "torchao") == NULL;
}
