/*
 * The one table of quantized weights: how programs name the parts of a weight, which of those
 * families the library dequantizes, and how many values their codes hold. tenmap_quantized_of
 * recognizes families by names and dtypes alone; quantized.c examines the parts.
 */
#include "model.h"
#include "quantized.h"

#include <stdlib.h>
#include <string.h>

/* The first that finds its parts takes the weight. */
const tmi_scheme_finder tmi_scheme_finders[TMI_SCHEME_FINDERS] = {
    tmi_find_packed, tmi_find_gptq, tmi_find_mxfp4_blocks, tmi_find_fp4_bytes,
    tmi_find_bnb4,   tmi_find_mlx,  tmi_find_8bit,         tmi_find_nvfp4_scale,
};

/* Which dtypes codes have: at most 8 bits, words, floats that hold packed bits, blocks. */
enum { NARROW = 1, WORDS = 2, FLOATS = 4, BLOCKS = 8 };

/* How many values the codes hold. */
enum {
    ONE_EACH,  /* narrow codes, blocks; words hold an unknown number */
    TWO_EACH,  /* in a byte */
    BY_SCALES, /* 32-bit words: the other parts say it */
    NOT_TOLD
};

/* Room for the end of a name. */
enum { CODES_ROOM = 16 };

typedef struct quant_family {
    const char *name;
    char codes[CODES_ROOM]; /* how their name ends; the other parts share the rest of it */
    uint8_t dtypes;         /* of the codes */
    uint8_t values;         /* ONE_EACH, ... */
    bool dequantizes;       /* one of the finders above has its rules */
    const char *marks[5];   /* one of these beside the codes identifies the family */
    const char *more[5];    /* parts that belong to it but do not identify it */
} quant_family;

/* The first match counts. */
static const quant_family families[] = {
    {"MXFP4, as in gpt-oss", "_blocks", NARROW, TWO_EACH, true, {"_scales"}, {0}},
    {"GPTQ or AWQ",
     "qweight",
     NARROW | WORDS,
     BY_SCALES,
     true,
     {"scales", "qzeros", "wscales"},
     {"g_idx", "wzeros"}},
    {"compressed-tensors",
     "_packed",
     NARROW | WORDS,
     TWO_EACH,
     true,
     {"_scale"},
     {"_zero_point", "_global_scale", "_shape", "_g_idx"}},
    {"bitsandbytes, 4 bits",
     "",
     NARROW | WORDS | FLOATS,
     TWO_EACH,
     true,
     {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"},
     {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}},
    {"bitsandbytes",
     "",
     NARROW,
     ONE_EACH,
     false,
     {".absmax", ".quant_map"},
     {".nested_absmax", ".nested_quant_map"}},
    {"bitsandbytes, 8 bits",
     "weight",
     NARROW,
     ONE_EACH,
     true,
     {"SCB", "weight.SCB"},
     {"weight_format"}},
    {"torchao",
     "_qdata",
     NARROW | WORDS,
     NOT_TOLD,
     true,
     {"_scale"},
     {"_zero_point", "_per_tensor_scale"}},
    {"quanto", "._data", NARROW | WORDS, NOT_TOLD, false, {"._scale"}, {"._shift"}},
    {"quanto", "._data._data", NARROW | WORDS, NOT_TOLD, false, {"._scale"}, {"._shift"}},
    {"HQQ", "W_q", NARROW | WORDS, NOT_TOLD, false, {"scale"}, {"zero"}},
    {"HQQ", "W_q", FLOATS, NOT_TOLD, false, {"zero"}, {"scale"}},
    {"AQLM", "codes", NARROW | WORDS, ONE_EACH, false, {"codebooks"}, {"scales"}},
    {"Marlin", ".B", WORDS, ONE_EACH, false, {".s"}, {0}},
    {"MLX", "weight", WORDS, ONE_EACH, true, {"scales"}, {"biases"}},
    {"block scales, as in DeepSeek's FP8", "", NARROW, ONE_EACH, true, {"_scale_inv"}, {0}},
    {"scaled FP8, as in ComfyUI",
     "weight",
     NARROW,
     ONE_EACH,
     true,
     {"scale_weight"},
     {"scale_input"}},
    {"scaled, as by compressed-tensors or ModelOpt",
     "",
     NARROW | WORDS,
     ONE_EACH,
     true,
     {"_scale", "_scales", ".scale", ".scales"},
     {"_scale_2", "_global_scale", "_zero_point", "_offset"}},
    {"NVFP4 of GGUF", ".weight", BLOCKS, ONE_EACH, true, {".scale"}, {".input_scale"}},
    {"scaled",
     "weight",
     NARROW,
     ONE_EACH,
     true,
     {"scale", "scales"},
     {"zero", "zeros", "zero_point", "biases"}},
    {"scaled",
     "weight",
     WORDS,
     ONE_EACH,
     false,
     {"scale", "scales"},
     {"zero", "zeros", "zero_point", "biases"}},
};
enum { FAMILIES = sizeof families / sizeof *families };

const char *tenmap_family_at(size_t i) {
    for (size_t row = 0; row < FAMILIES; row++)
        if ((row == 0 || strcmp(families[row].name, families[row - 1].name) != 0) && i-- == 0)
            return families[row].name;
    return NULL;
}

static unsigned class_of_codes(tenmap_dtype dtype) {
    if (dtype >= TMI_DTYPE_COUNT)
        return dtype == TENMAP_NVFP4 ? BLOCKS : 0;
    unsigned kind = tmi_dtypes[dtype].kind, bits = tmi_dtypes[dtype].bits;
    bool integer = kind == TENMAP_KIND_UINT || kind == TENMAP_KIND_INT;
    if (!integer && kind != TENMAP_KIND_FLOAT)
        return 0;
    if (bits <= 8)
        return dtype == TENMAP_F8_E8M0 ? 0 : NARROW;
    return bits > 32 ? 0 : integer ? WORDS : FLOATS;
}

static bool name_ends_in(const tenmap_tensor *t, const char *ending) {
    size_t len = strlen(ending);
    return t->name_len >= len && memcmp(t->name + t->name_len - len, ending, len) == 0;
}

/* A part has the name of the codes with `ending` in place of all but the first `stem` bytes. */
static const tenmap_tensor *part_beside(const tenmap_tensor *codes, size_t stem,
                                        const char *ending) {
    char room[256];
    size_t more = strlen(ending);
    char *name = stem + more < sizeof room ? room : tmi_calloc(stem + more + 1, 1);
    if (!name)
        return NULL;
    memcpy(name, codes->name, stem);
    memcpy(name + stem, ending, more + 1);
    const tenmap_tensor *part = tenmap_find_n(codes->model, name, stem + more);
    if (name != room)
        free(name);
    return part == codes ? NULL : part;
}

static void add_family_parts(tenmap_quantized *weight, size_t stem, const char *const *endings,
                             size_t count) {
    for (size_t i = 0; i < count && endings[i]; i++) {
        const tenmap_tensor *part = part_beside(weight->parts[0], stem, endings[i]);
        if (part)
            weight->parts[weight->part_count++] = part;
    }
}

static bool is_of_family(const quant_family *family, tenmap_quantized *weight) {
    const tenmap_tensor *codes = weight->parts[0];
    if (!(class_of_codes(codes->dtype) & family->dtypes) || !name_ends_in(codes, family->codes))
        return false;
    size_t stem = codes->name_len - strlen(family->codes);
    add_family_parts(weight, stem, family->marks, sizeof family->marks / sizeof *family->marks);
    if (weight->part_count == 1)
        return false;
    add_family_parts(weight, stem, family->more, sizeof family->more / sizeof *family->more);
    weight->family = family->name;
    weight->dequantizes = family->dequantizes;
    return true;
}

/* Counting values. 0: unknown. */

static const tenmap_tensor *part_called(const tenmap_quantized *weight, const char *ending) {
    for (uint32_t i = 1; i < weight->part_count; i++)
        if (name_ends_in(weight->parts[i], ending))
            return weight->parts[i];
    return NULL;
}

static uint64_t product_or_zero(uint64_t a, uint64_t b) {
    uint64_t product;
    return tmi_multiply(a, b, &product) ? product : 0;
}

/*
 * GPTQ packs several rows into a word, AWQ several columns. The size of the packed dimension
 * follows from another part.
 */
static uint64_t values_by_scales(const tenmap_quantized *weight) {
    const tenmap_tensor *codes = weight->parts[0], *scales = part_called(weight, "scales");
    const tenmap_tensor *order = part_called(weight, "g_idx"),
                        *zeros = part_called(weight, "qzeros");
    if (codes->rank != 2 || !scales || scales->rank != 2)
        return 0;
    uint64_t columns = scales->shape[1];
    if (columns != codes->shape[1])
        return product_or_zero(codes->shape[0], columns);
    if (order)
        return product_or_zero(order->nelems, columns);
    if (!zeros || zeros->rank != 2 || !zeros->shape[1])
        return 0;
    return product_or_zero(product_or_zero(codes->shape[0], columns / zeros->shape[1]), columns);
}

/* The weight's shape as a tensor of integers. */
static uint64_t values_by_shape(const tenmap_tensor *shape) {
    enum { MOST_BYTES = 64 };
    unsigned char bytes[MOST_BYTES];
    size_t width = tmi_dtype_width(shape->dtype);
    uint64_t values = 1;
    if ((shape->dtype != TENMAP_I64 && shape->dtype != TENMAP_I32) || shape->nelems == 0 ||
        shape->nbytes > MOST_BYTES || tmi_computed_of(shape))
        return 0;
    if (shape->data)
        memcpy(bytes, shape->data, (size_t)shape->nbytes);
    else if (tmi_bytes_read(&tmi_shard_of(shape)->bytes, shape->file_offset, bytes,
                            (size_t)shape->nbytes, (tmi_wanted){NULL, shape}, NULL) != TENMAP_OK)
        return 0;
    for (uint64_t i = 0; i < shape->nelems; i++) {
        unsigned char extent[8] = {0};
        memcpy(extent, bytes + i * width, width);
        uint64_t size = tmi_file_u64(extent);
        values = size < (uint64_t)1 << 31 ? product_or_zero(values, size) : 0;
    }
    return values;
}

static uint64_t count_values(const quant_family *family, const tenmap_quantized *weight) {
    const tenmap_tensor *codes = weight->parts[0], *shape = part_called(weight, "_shape");
    unsigned of = class_of_codes(codes->dtype);
    if (family->values == BY_SCALES && tmi_dtype_width(codes->dtype) == 4)
        return values_by_scales(weight);
    if (of == BLOCKS)
        return codes->nelems;
    if (shape)
        return values_by_shape(shape);
    if (family->values == TWO_EACH)
        return product_or_zero(codes->nbytes, 2);
    return of == NARROW && family->values != NOT_TOLD ? codes->nelems : 0;
}

int tenmap_quantized_of(const tenmap_tensor *tensor, tenmap_quantized *out) {
    if (!tensor || !tensor->model || tmi_computed_of(tensor))
        return 0;
    for (size_t i = 0; i < FAMILIES; i++) {
        tenmap_quantized weight = {.part_count = 1, .parts = {tensor}};
        if (!is_of_family(&families[i], &weight))
            continue;
        if (out) {
            *out = weight;
            out->values = count_values(&families[i], &weight);
        }
        return 1;
    }
    return 0;
}

/* Whether the codes of a weight that can be dequantized have this name. */
static bool are_codes(const tenmap_model *model, const char *name, size_t len) {
    tenmap_quantized weight;
    return tenmap_quantized_of(tenmap_find_n(model, name, len), &weight) && weight.dequantizes;
}

bool tmi_stored_in_parts(const tenmap_model *model, const char *name, size_t len) {
    static const char weight[] = "weight";
    size_t kept = len - (sizeof weight - 1);
    bool is_weight =
        len >= sizeof weight - 1 && memcmp(name + kept, weight, sizeof weight - 1) == 0;
    char *room = tmi_calloc(len + CODES_ROOM, 1);
    bool found = false;
    for (size_t i = 0; room && !found && i < FAMILIES; i++) {
        size_t more = strlen(families[i].codes);
        memcpy(room, name, len);
        memcpy(room + len, families[i].codes, more);
        found = families[i].dequantizes && are_codes(model, room, len + more);
        if (found || !is_weight)
            continue;
        memcpy(room + kept, families[i].codes, more);
        found = families[i].dequantizes && are_codes(model, room, kept + more);
    }
    free(room);
    return found;
}
